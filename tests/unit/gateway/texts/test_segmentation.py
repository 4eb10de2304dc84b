"""Texts split into parts that the server translates the same alone as within the text."""

from __future__ import annotations

import asyncio

from dragoman_client import Translation
from dragoman_gateway.texts.segmentation import split
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.gateway.texts.model_server import ModelServer

PARTS = st.sampled_from(
    [
        *("Hello there. ", "How are you?", " Fine!"),
        *("- a point", "\n", "\r\n", "\n\n", "  ", "..."),
        *("1. One. ", "2.", "Dr. Who ", "z. B. ", "der 2. Weltkrieg ", "(a) ", "> quoted. ", "§§"),
        *("This line is so long that it goes on and on until the end of it is", " and more words"),
        *("here.It ", "{a. B} ", "<b>Bold. Not", "</b> ", "\u2028", "e.g. this", "Ends", "."),
    ]
)
TEXTS = st.lists(PARTS, max_size=12).map("".join)


def translated(texts: list[str], language: str) -> list[Translation]:
    async def run() -> list[Translation]:
        return await ModelServer().translate_checked(texts, {"source_language": language})

    return asyncio.run(run())


@given(TEXTS, st.sampled_from(["en", "de"]))
@settings(max_examples=120)
def test_units_make_up_the_translation_of_the_text(text: str, language: str) -> None:
    segmented = split(text, language, keeps_placeholders=False)
    assert (
        segmented.before + "".join(map("".join, zip(segmented.units, segmented.kept, strict=True)))
        == text
    )
    assert (
        segmented.joined(translated(list(segmented.units), language))
        == translated([text], language)[0]
    )


def test_sentences_are_units() -> None:
    segmented = split("- Hello there. How are you?  \n\nFine.\n", "en", False)
    assert segmented.before == "- "
    assert segmented.units == ("Hello there.", "How are you?", "Fine.")
    assert segmented.kept == (" ", "  \n\n", "\n")


def test_the_sentences_of_a_wrapped_paragraph_stay_together() -> None:
    paragraph = (
        "This is the first line of a paragraph that was wrapped by hand, by Mr\n"
        "Smith. Then comes a second sentence which goes on and on until in the\n"
        "Year of its third line, which is full as well, and so it ends at last.\n"
    )
    segmented = split(f"First.\n\n{paragraph}\nLast one. Really.", "en", False)
    assert segmented.units == ("First.", paragraph.strip(), "Last one.", "Really.")


def test_placeholders_across_sentences_keep_a_text_whole() -> None:
    for text in ("A {b. C} d. E.", "<b>Bold. Not.</b> So."):
        assert split(text, "en", True).units == (text,)
    assert split("Mail 12 of it. Go on.", "en", True).units == ("Mail 12 of it.", "Go on.")
