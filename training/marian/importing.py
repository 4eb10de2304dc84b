"""From a folder with a Marian model to a checkpoint of ours.

Knows which files there are; must not know where they come from.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import UsageError
from dragoman.text import Tokenizer
from training import checkpoint
from training.config import DataConfig, ImportConfig, RunConfig, VocabularyConfig
from training.marian.languages import Languages, find_languages
from training.marian.pieces import Entry, MarianSpecials, arrange, read_list, write_sentencepiece
from training.marian.settings import CONFIG, MarianSettings, content_of, read_json
from training.marian.weights import convert

TOKENIZER_CONFIG = "tokenizer_config.json"
SOURCE_PIECES, TARGET_PIECES = "source.spm", "target.spm"
LIST, TARGET_LIST = "vocab.json", "target_vocab.json"
_MOST_TOKENS = 512


def import_marian(
    source: Path, out: Path, languages: Languages | None = None, name: str | None = None
) -> RunConfig:
    """Write a checkpoint with a Marian model's weights and vocabularies.

    Args:
        source: folder as `transformers` reads it.
        out: folder to make; it appears whole or not at all.
        languages: where the folder does not say which, or otherwise.
        name: of the model; None for the folder's.

    Returns:
        The checkpoint's configuration.

    Raises:
        UsageError: `out` exists or cannot be written, a file is missing or damaged, or the model is
            of another kind.
    """
    if out.exists():
        raise UsageError(f"{out}: exists already; name another folder, or remove it")
    name = name or source.resolve().name
    theirs = MarianSettings.read(source / CONFIG)
    words = read_json(source / TOKENIZER_CONFIG) if (source / TOKENIZER_CONFIG).exists() else {}
    lists = _Lists.read(source, theirs, words)
    sources, tags, targets = find_languages(languages or Languages(), lists.source, words, name)
    src_entries, tgt_entries = lists.arranged(tags)
    weights, model = convert(source, theirs, src_entries, tgt_entries)
    config = RunConfig(
        model=model,
        data=DataConfig(languages=tuple(dict.fromkeys((*sources, *targets)))),
        vocabulary=VocabularyConfig(size=model.vocab_size),
        imported=ImportConfig(
            name=name,
            directions=tuple((src, tgt) for src in sources for tgt in targets if src != tgt),
            tags=tags,
            max_tokens=min(theirs.max_tokens, _MOST_TOKENS),
        ),
    )
    try:
        with tempfile.TemporaryDirectory() as scratch:
            paths = Path(scratch) / checkpoint.TOKENIZER, Path(scratch) / checkpoint.TGT_TOKENIZER
            sides = (SOURCE_PIECES, src_entries), (TARGET_PIECES, tgt_entries)
            for path, (pieces, entries) in zip(paths, sides, strict=True):
                write_sentencepiece(source / pieces, entries, path)
            _check_pieces(source, *paths)
            checkpoint.save(out, weights, config, paths[0], tgt_tokenizer=paths[1])
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from error
    return config


def _check_pieces(source: Path, path: Path, tgt_path: Path) -> None:
    try:
        Tokenizer(path, tgt_path)
    except UsageError as error:
        raise UsageError(f"{source}: its pieces and its list do not fit each other") from error


@dataclass(frozen=True)
class _Lists:
    """The lists of pieces, each with its specials; one for both sides, or one a side."""

    source: Mapping[str, int]
    target: Mapping[str, int]
    src_specials: MarianSpecials
    tgt_specials: MarianSpecials

    @classmethod
    def read(cls, folder: Path, theirs: MarianSettings, words: Mapping[str, Any]) -> _Lists:
        of_side = [(folder / LIST, read_list(folder / LIST))]
        if words.get("separate_vocabs"):
            of_side.append((folder / TARGET_LIST, read_list(folder / TARGET_LIST)))
        specials = []
        for path, pieces in of_side:
            ids = {}
            for kind, usual in (("pad", "<pad>"), ("unk", "<unk>"), ("eos", "</s>")):
                token = content_of(words.get(f"{kind}_token", usual))
                if token not in pieces:
                    raise UsageError(f"{path}: has no entry {token!r}")
                ids[kind] = pieces[token]
            begin = theirs.begin if path is of_side[-1][0] else ids["pad"]
            specials.append(MarianSpecials(ids["pad"], ids["unk"], begin, ids["eos"]))
        path, pieces = of_side[-1]
        if theirs.shared and len(of_side) > 1:
            raise UsageError(f"{theirs.path}: one embedding for two vocabularies")
        for name, (one, listed), said in (
            ("vocab_size", of_side[0], theirs.sizes.vocab_size),
            ("decoder_vocab_size", of_side[-1], theirs.tgt_vocab_size),
        ):
            if len(listed) != said:
                raise UsageError(
                    f"{one}: has {len(listed)} entries, but {CONFIG} says {name} {said}"
                )
        for name, found, said in (
            ("pad_token_id", specials[-1].pad, theirs.pad),
            ("eos_token_id", specials[-1].end, theirs.end),
        ):
            if found != said:
                raise UsageError(
                    f"{theirs.path}: {name} is {said}, but {path.name} and {TOKENIZER_CONFIG} "
                    f"say {found}"
                )
        if not theirs.begin < len(pieces):
            raise UsageError(f"{theirs.path}: decoder_start_token_id is {theirs.begin}: no entry")
        return cls(of_side[0][1], pieces, specials[0], specials[-1])

    def arranged(self, tags: Mapping[str, str]) -> tuple[list[Entry], list[Entry]]:
        """Each side's entries in our order; the same ones where there is one list."""
        if self.source is self.target:
            entries = arrange(self.source, self.tgt_specials, tags)
            return entries, entries
        return arrange(self.source, self.src_specials, tags), arrange(
            self.target, self.tgt_specials, {}
        )
