"""Alternatives of a text, composed from those of its sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from dragoman_client import Translation
from dragoman_gateway.core.caller import ANONYMOUS
from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.protocols.libretranslate.alternatives import Candidates, best_translations
from dragoman_gateway.texts.translations import Translations

OPTIONS = {"source_language": "en", "target_language": "de", "glossary_ids": ["a"]}


class Numbered:
    """Returns a sentence with a number; there are fewer for short ones."""

    def __init__(self, refuses: bool = False) -> None:
        self.asked: list[tuple[list[str], Mapping[str, Any]]] = []
        self._refuses = refuses

    async def translate_admitted(
        self, _: Any, texts: Sequence[str], options: Mapping[str, Any]
    ) -> list[Translation]:
        """See `Translations`."""
        self.asked.append((list(texts), options))
        count = options.get("num_return_sequences", 1)
        if self._refuses and count > 1:
            raise InvalidInput("text 0 is too long")
        return [
            Translation(
                f"{text}1",
                1,
                "stop",
                alternatives=tuple(
                    Translation(f"{text}{min(number, len(text))}", 1, "stop")
                    for number in range(2, count + 1)
                ),
            )
            for text in texts
        ]


def translate(texts: Sequence[str], others: int, refuses: bool = False) -> tuple[Any, Numbered]:
    numbered = Numbered(refuses)
    served = cast(Translations, numbered)
    work = best_translations(served, ANONYMOUS, texts, OPTIONS, others)
    return asyncio.run(work), numbered


def test_a_sentence_has_its_own_alternatives() -> None:
    (candidates,), numbered = translate(["Hello there"], 2)
    assert candidates == Candidates("Hello there1", ("Hello there2", "Hello there3"))
    (call,) = numbered.asked
    assert call[1] == {**OPTIONS, "beam_width": 4, "num_return_sequences": 3}
    assert translate(["Hello there"], 6)[1].asked[0][1]["beam_width"] == 7


def test_a_text_joins_the_alternatives_of_its_sentences() -> None:
    (candidates,), _ = translate(["- One cat. Two dogs.\n\n***\n"], 2)
    assert candidates.best == "- One cat.1 Two dogs.1\n\n***\n"
    assert candidates.others == (
        "- One cat.2 Two dogs.2\n\n***\n",
        "- One cat.3 Two dogs.3\n\n***\n",
    )


def test_duplicates_are_omitted() -> None:
    (first, second), _ = translate(["ab", "a"], 3)
    assert first == Candidates("ab1", ("ab2",))
    assert second == Candidates("a1")


def test_line_breaks_within_a_sentence_are_kept() -> None:
    text = "This is a sentence that somebody has wrapped\nat the end of the line, as in mail."
    (candidates,), numbered = translate([text], 1)
    assert "\n" not in numbered.asked[0][0][0]
    assert candidates.best.count("\n") == 1


def test_a_long_sentence_has_one_translation() -> None:
    long = "word " * 60 + "end."
    (candidates,), numbered = translate([f"One cat. {long}"], 2)
    assert candidates.best == f"One cat.1 {long}1"
    assert candidates.others == (f"One cat.2 {long}1", f"One cat.3 {long}1")
    assert "num_return_sequences" not in numbered.asked[1][1]


def test_a_sentence_that_the_server_refuses_has_one_translation() -> None:
    (candidates,), _ = translate(["One cat."], 2, refuses=True)
    assert candidates == Candidates("One cat.1")


def test_empty_text_is_not_sent() -> None:
    answers, numbered = translate(["***", "", " "], 2)
    assert [candidates.best for candidates in answers] == ["***", "", " "]
    assert numbered.asked == []
