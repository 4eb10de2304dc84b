"""Adds subword tokens for further languages or text to a vocabulary; existing ids stay."""

from __future__ import annotations

import heapq
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import sentencepiece

from dragoman.kernel.errors import UsageError
from dragoman.kernel.replacement import replacing
from dragoman.kernel.text import language_tag
from dragoman_training.config import VocabularyConfig
from dragoman_training.text.piece_file import CONTROL, Model

_SPACE, _BYTE = "▁", "<0x"
_MOST_CHARACTERS = 16
"""Maximum length of a subword token, as in SentencePiece."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Former:
    """An existing vocabulary, and the languages that it has tags for."""

    path: Path
    languages: Sequence[str]

    def without(self, languages: Sequence[str]) -> list[str]:
        """The given languages that it has no tag for."""
        return [language for language in languages if language not in self.languages]


def extend_vocabulary(
    former: Former,
    sentences: Iterable[str],
    languages: Sequence[str],
    config: VocabularyConfig,
    path: Path,
) -> None:
    """Write a vocabulary with further tags and subword tokens after the existing ones.

    The new tokens are the next merges of BPE on sentences that are already split. So ids stay, and
    other text is split as before, except where a new token joins two existing ones.

    Args:
        former: the vocabulary; it is copied if it already has all languages and entries.
        sentences: text of the new languages, or of all if there are none.
        languages: all languages that the vocabulary must have.
        config: its size, which counts all entries; its coverage, of characters in `sentences`.
        path: where to write; it appears complete or not at all.

    Raises:
        UsageError: the text gives too few subword tokens, the size is too small, or the disk is
            full.

    Source: Sennrich et al. 2016, https://aclanthology.org/P16-1162
    """
    further = former.without(languages)
    try:
        model = Model.FromString(former.path.read_bytes())
        with replacing(path) as (partial,):
            if not further and len(model.pieces) >= config.size:
                shutil.copyfile(former.path, partial)
            else:
                _extend(model, list(sentences), further, config)
                partial.write_bytes(model.SerializeToString())
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def _extend(
    model: Model, sentences: Sequence[str], further: Sequence[str], config: VocabularyConfig
) -> None:
    had, score = len(model.pieces), min(piece.score for piece in model.pieces)

    def add(pieces: Iterable[str], **kind: int) -> None:
        for piece in pieces:
            score_of_it = score - 1 - (len(model.pieces) - had)
            model.pieces.add(piece=piece, score=score_of_it, **kind)

    known = {piece.piece for piece in model.pieces}
    add(map(language_tag, further), type=CONTROL)
    add(_characters(_processor(model), sentences, known, config.character_coverage))
    missing = config.size - len(model.pieces)
    if missing < 0:
        raise UsageError(
            f"vocabulary.size is {config.size}: give more than {len(model.pieces)}, for the {had} "
            f"existing entries, and further tags and characters"
        )
    known |= {piece.piece for piece in model.pieces}
    merges = _merges(_words(_processor(model), sentences), known)
    add(islice(merges, missing))
    if len(model.pieces) < config.size:
        raise UsageError(
            f"vocabulary.size is {config.size}: the text gives {len(model.pieces)} entries"
        )
    model.trainer_spec.vocab_size = config.size


def _processor(model: Model) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model.SerializeToString())
    return processor


def _characters(
    processor: sentencepiece.SentencePieceProcessor,
    sentences: Iterable[str],
    known: set[str],
    coverage: float,
) -> list[str]:
    """Characters that are not entries yet, most frequent first, without the rarest ones."""
    counts = Counter(character for text in sentences for character in processor.Normalize(text))
    rest, new = sum(counts.values()) * (1.0 - coverage), []
    for character, count in sorted(counts.items(), key=lambda item: (item[1], item[0])):
        rest -= count
        if rest < 0 and character not in known and not character.isspace():
            new.append(character)
    return new[::-1]


def _words(
    processor: sentencepiece.SentencePieceProcessor, sentences: Iterable[str]
) -> Counter[tuple[str, ...]]:
    """How often each word is split in each way; tokens that must not be joined end a word."""
    words: Counter[tuple[str, ...]] = Counter()
    for text in sentences:
        word: list[str] = []
        for piece in processor.EncodeAsPieces(text):
            if word and not _may_join(word[-1], piece):
                words[tuple(word)] += 1
                word = []
            word.append(piece)
        words[tuple(word)] += 1
    return words


def _may_join(first: str, second: str) -> bool:
    """Whether a token may join two: no inner spaces, no letters beside others, no bytes."""
    if second.startswith((_SPACE, _BYTE)) or first.startswith(_BYTE):
        return False
    start = first.removeprefix(_SPACE)
    return not start or (start.isalpha() == second.isalpha() and not second.isdigit())


def _merges(words: Counter[tuple[str, ...]], known: set[str]) -> Iterator[str]:
    """New tokens; each joins the two neighbours that are most frequent at that point.

    Neighbours that make an existing token are joined before all others, as in SentencePiece.
    """
    cut, counts = [list(word) for word in words], list(words.values())
    pairs: Counter[Pair] = Counter()
    places: defaultdict[Pair, set[int]] = defaultdict(set)
    for number, word in enumerate(cut):
        for pair in pairwise(word):
            pairs[pair] += counts[number]
            places[pair].add(number)

    def entry(pair: Pair) -> tuple[bool, int, Pair]:
        return "".join(pair) not in known, -pairs[pair], pair

    heap = [entry(pair) for pair in pairs]
    heapq.heapify(heap)
    while heap:
        _, negative, pair = heapq.heappop(heap)
        piece = "".join(pair)
        if pairs[pair] != -negative or not pairs[pair] or len(piece) > _MOST_CHARACTERS:
            continue  # its count has changed since it was queued
        if piece not in known:
            known.add(piece)
            yield piece
        changed: set[Pair] = set()
        for number in places.pop(pair):
            for other in pairwise(cut[number]):
                pairs[other] -= counts[number]
                changed.add(other)
            cut[number] = _joined(cut[number], pair)
            for other in pairwise(cut[number]):
                pairs[other] += counts[number]
                places[other].add(number)
                changed.add(other)
        for other in changed:
            heapq.heappush(heap, entry(other))


def _joined(word: Sequence[str], pair: Pair) -> list[str]:
    """A word with each occurrence of a pair joined, from the left."""
    joined: list[str] = []
    for piece in word:
        if joined and (joined[-1], piece) == pair:
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined
