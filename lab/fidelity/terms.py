"""Glossary terms: their source words, sentences that have them, references with the terms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman_training.text.parallel_text import read_lines, read_pairs

_SYLLABLES = ["bra", "kel", "mon", "tus", "fir", "dal", "gor", "nep", "lin", "zar", "vok", "hem"]
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Case:
    """A sentence with glossary terms.

    Attributes:
        source: the sentence.
        reference: its translation, with the terms.
        free_reference: the same without them.
        required: its target terms.
        usual: the usual translations of their source words; empty if they are the terms.
    """

    source: str
    reference: str
    free_reference: str
    required: tuple[str, ...]
    usual: tuple[str, ...]


def words(text: str) -> list[str]:
    """The words of a text."""
    return _WORD.findall(text)


def invented(corpora: Path, src: str, tgt: str, number: int) -> tuple[dict[str, str], list[Case]]:
    """A glossary of invented words for frequent words, and Tatoeba sentences with one or two.

    A word's usual translation is the word that is in nearly the same pairs (Dice's coefficient).
    """
    folder = corpora / f"tatoeba-en-{tgt if src == 'en' else src}"
    usual = _lexicon(read_pairs(folder / "train", (src, tgt))[::3])
    glossary = {
        word: (
            _invented(index).capitalize if translation[0].isupper() else _invented(index).lower
        )()
        for index, (word, translation) in enumerate(sorted(usual.items()))
    }
    cases = []
    for split in ("test", "valid"):
        for source, reference in read_pairs(folder / split, (src, tgt)):
            counts = Counter(words(source.lower()))
            known_words = [word for word in counts if word in usual]
            targets = words(reference)
            if 1 <= len(known_words) <= 2 and all(
                counts[word] == targets.count(usual[word]) == 1 for word in known_words
            ):
                with_terms = reference
                for word in known_words:
                    with_terms = re.sub(rf"\b{usual[word]}\b", glossary[word], with_terms)
                required = tuple(glossary[word] for word in known_words)
                usual_words = tuple(usual[word] for word in known_words)
                cases.append(Case(source, with_terms, reference, required, usual_words))
    return glossary, cases[:number]


def _lexicon(pairs: Sequence[tuple[str, ...]]) -> dict[str, str]:
    sides = [(set(words(source)), set(words(target))) for source, target in pairs]
    of_src = Counter(word for source, _ in sides for word in source)
    of_tgt = Counter(word for _, target in sides for word in target)
    frequent = {
        word for word, count in of_src.items() if count >= 40 and word.islower() and len(word) > 3
    }
    joint = Counter(
        (word, other)
        for source, target in sides
        for word in source & frequent
        for other in target
        if len(other) > 3 and of_tgt[other] >= 20
    )
    lexicon: dict[str, str] = {}
    for (word, other), count in joint.most_common():
        if 2 * count / (of_src[word] + of_tgt[other]) > 0.55 and word not in lexicon:
            lexicon[word] = other
    return lexicon


def _invented(index: int) -> str:
    """A word that no language has; another for each index below 1,728."""
    size, index = len(_SYLLABLES), index * 605 % len(_SYLLABLES) ** 3
    return "".join(_SYLLABLES[index // size**place % size] for place in range(3))


def terminology(
    corpora: Path, src: str, tgt: str, texts: Sequence[tuple[str, ...]], number: int
) -> tuple[dict[str, str], list[Case]]:
    """A glossary from a terminology's entries, and the pairs that have one on both sides.

    Args:
        corpora: folder of the corpora.
        src: language of the texts.
        tgt: language of their translations.
        texts: texts and their translations.
        number: of pairs.
    """
    prefix = corpora / f"terms-en-{tgt if src == 'en' else src}/train"
    entries = dict(zip(read_lines(prefix, src), read_lines(prefix, tgt), strict=True))
    cases, glossary = list[Case](), dict[str, str]()
    for source, reference in texts:
        terms = {
            entry: entries[entry]
            for entry in dict.fromkeys(_phrases(source))
            if len(entry) > 4
            and entry[0].isupper()
            and has(reference, entries.get(entry, entry))
            and entry in entries
            and entries[entry] != entry
        }
        if terms and len(cases) < number and len(glossary) < 900:
            glossary |= terms
            cases.append(Case(source, reference, reference, tuple(terms.values()), ()))
    return glossary, cases


def _phrases(text: str) -> Iterator[str]:
    """The longest phrases first, of at most three words."""
    spans = [match.span() for match in _WORD.finditer(text)]
    for length in (3, 2, 1):
        for first, last in zip(spans, spans[length - 1 :], strict=False):
            yield text[first[0] : last[1]]


def has(translation: str, term: str) -> bool:
    """Whether a translation has a term as a word; its first letter may be a capital."""
    first = re.escape(term[0])
    return bool(re.search(rf"\b(?i:{first}){re.escape(term[1:])}\b", translation))
