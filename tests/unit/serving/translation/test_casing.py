"""Translations of sentences in capitals, and of those without capitals."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from dragoman_serving.fidelity.letter_case import upper
from dragoman_serving.translation.streaming import TextStream
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator


def translated(shipped: Translator, text: str, **options: Any) -> Translation:
    (translation,) = shipped.translate(
        [text], {"source_language": "en", "target_language": "de", "beam_width": 4, **options}
    )
    return translation


def test_a_sentence_in_capitals_is_translated_into_capitals(shipped: Translator) -> None:
    usual = translated(shipped, "Where is Tom?").text
    assert translated(shipped, "WHERE IS TOM?").text == upper(usual) != usual
    mixed = translated(shipped, "Where is Tom? WHERE IS TOM?").text
    assert mixed == f"{usual} {upper(usual)}"


TEA = "WE DRINK TEA IN THE AFTERNOON."


@pytest.mark.parametrize("prefix", ["Wir trinken", "WIR TRINKEN", "Wir", "wir"])
def test_a_prefix_stays_as_given_in_a_sentence_in_capitals(
    shipped: Translator, prefix: str
) -> None:
    translation = translated(shipped, TEA, prefix=prefix).text
    assert translation.startswith(f"{prefix} ")
    assert translation.removeprefix(prefix).isupper()


@pytest.mark.parametrize(
    ("text", "prefix", "completed"),
    [
        ("THE HOUSE IS BIG.", "DAS HAU", "DAS HAUS "),
        ("THE HOUSE IS BIG.", "Das Hau", "Das Haus "),
        ("THE HOUSE IS BIG.", "D", "DAS "),
        (TEA, "WIR TRI", "WIR TRINKEN "),
        (TEA, "Wir tri", "Wir trinken "),
        ("THE WEATHER IS NICE TODAY.", "DAS WETTER IST HEU", "DAS WETTER IST HEUTE "),
    ],
)
@pytest.mark.parametrize("beam_width", [1, 4])
def test_the_last_word_of_a_prefix_is_completed_there(
    shipped: Translator, text: str, prefix: str, completed: str, beam_width: int
) -> None:
    translation = translated(shipped, text, prefix=prefix, beam_width=beam_width).text
    assert translation.startswith(completed)
    assert translation.removeprefix(completed).isupper()


@pytest.mark.parametrize("term", ["iPhone", "McDonald", "eBay", "GmbH"])
@pytest.mark.parametrize("options", [{}, {"prefix": "Wir trinken"}])
def test_a_term_with_capitals_inside_a_word_stays_as_given(
    shipped: Translator, term: str, options: dict[str, Any]
) -> None:
    translation = translated(shipped, TEA, glossary=json.dumps({"tea": term}), **options).text
    assert term in translation
    assert translation.replace(term, "").removeprefix(options.get("prefix", "")).isupper()


@pytest.mark.parametrize("term", ["Bubatz", "tasse"])
def test_other_terms_are_in_capitals_there(shipped: Translator, term: str) -> None:
    translation = translated(shipped, TEA, glossary=json.dumps({"tea": term})).text
    assert term.upper() in translation
    assert translation.isupper()


@pytest.mark.parametrize(
    ("word", "text"),
    [("TEE", TEA), ("HUND", "MY DOG IS BLACK."), ("KAFFEE", "I WOULD LIKE A CUP OF COFFEE.")],
)
def test_a_word_in_capitals_is_suppressed_in_a_sentence_in_capitals(
    shipped: Translator, word: str, text: str
) -> None:
    assert word in re.findall(r"\w+", translated(shipped, text).text)
    assert word not in re.findall(r"\w+", translated(shipped, text, suppress=(word,)).text)


@pytest.mark.parametrize(
    ("direction", "text", "emphasized"),
    [
        ("en-de", "This is not my house.", "not"),
        ("en-de", "You must not enter this room.", "must not"),
        ("en-fr", "He is not a doctor.", "not"),
        ("de-en", "Das ist nicht mein Haus.", "nicht"),
        ("de-en", "Wir haben alle Fenster geschlossen.", "alle"),
        ("fr-en", "Il ne faut pas entrer.", "pas"),
    ],
)
def test_emphasized_words_are_translated_as_usual(
    shipped: Translator, direction: str, text: str, emphasized: str
) -> None:
    source, target = direction.split("-")
    languages = {"source_language": source, "target_language": target}
    in_capitals = text.replace(emphasized, emphasized.upper())
    assert translated(shipped, in_capitals, **languages) == translated(shipped, text, **languages)


def test_a_label_in_capitals_begins_its_translation_with_a_capital(shipped: Translator) -> None:
    translation = translated(shipped, "WARNING: Do not open the door!").text
    assert translation[0].isupper()
    assert not translation.isupper()
    assert translation[1:] == translated(shipped, "warning: Do not open the door!").text[1:]


@pytest.mark.parametrize("options", [{}, {"prefix": "WO IST DAS AL"}, {"prefix": "Wo ist das al"}])
def test_a_stream_grows_in_capitals(shipped: Translator, options: dict[str, str]) -> None:
    text = "WHERE IS THE OLD HOUSE?"
    read: list[str] = []
    streams: list[TextStream] = []  # the engine may report before it is known here
    languages = {"source_language": "en", "target_language": "de"}
    streams.append(
        shipped.stream(
            text, languages | options, lambda: read.extend(stream.read() for stream in streams)
        )
    )
    (stream,) = streams
    stream.future.result()
    whole = translated(shipped, text, beam_width=1, **options).text
    assert stream.read() == whole
    assert whole.startswith(options.get("prefix", whole.upper()))
    assert all(whole.startswith(part) for part in read)


def test_a_long_sentence_in_capitals_is_cut_like_any_other(shipped: Translator) -> None:
    words = "we saw the old house and the new school in the city, " * 6
    usual, capitals = (
        translated(shipped, text, beam_width=1)
        for text in (f"Then {words}and went home.", f"Then {words}and went home.".upper())
    )
    assert capitals.sentences == usual.sentences > 1


def test_tags_and_placeholders_stay_in_capitals(shipped: Translator) -> None:
    text = translated(shipped, "PLEASE OPEN <b>THE DOOR</b> NOW.").text
    assert "<b>" in text
    assert "</b>" in text
    kept = translated(shipped, "PLEASE OPEN {name} NOW.", keep_placeholders=True).text
    assert "{name}" in kept
    assert kept.replace("{name}", "").isupper()
    both = translated(shipped, "<b>THE DOOR</b> IS OPEN. READ {NAME} FIRST.").text
    assert re.sub("</?b>", "", both).isupper()


@pytest.mark.parametrize("text", ["WE USE THE BOSTON TOOL TODAY.", "we use the boston tool today."])
def test_kept_words_keep_their_case(shipped: Translator, text: str) -> None:
    begin = text.lower().index("boston")
    markup = json.dumps({"codes": [[begin, begin + 6, None]], "keep": [[begin, begin + 6]]})
    translation = translated(shipped, text, markup=[markup])
    assert translation.codes is not None
    (span,) = translation.codes.codes
    assert translation.text[slice(*span)] == text[begin : begin + 6]
    assert translation.text.lower().count("boston") == 1


def test_alignments_fit_the_translation_in_capitals(shipped: Translator) -> None:
    usual, capitals = (
        translated(shipped, text, return_alignments="hard").assessment
        for text in ("The street is long.", "THE STREET IS LONG.")
    )
    assert usual is not None
    assert usual == capitals
    assert usual.alignment


def test_a_copy_in_capitals_is_reported(shipped: Translator) -> None:
    translation = translated(shipped, "BOSTON")
    assert translation.text == "BOSTON"
    assert translation.warnings == ("untranslated",)


def test_german_nouns_without_capitals_are_read_as_nouns(shipped: Translator) -> None:
    german = {"source_language": "de", "target_language": "en"}
    lower = translated(shipped, "wo ist das haus?", **german)
    assert lower.text == translated(shipped, "wo ist das Haus?", **german).text


@pytest.mark.parametrize(
    ("text", "languages", "end"),
    [
        ("What?!", ("en", "de"), "s?!"),
        ("What?!", ("en", "fr"), " ?!"),
        ("Nicht berühren!", ("de", "en"), "h!"),
        ("Ne touchez pas !", ("fr", "en"), "h!"),
        ("Where is Tom?", ("en", "de"), "?"),
    ],
)
def test_question_and_exclamation_marks_at_the_end_are_kept(
    shipped: Translator, text: str, languages: tuple[str, str], end: str
) -> None:
    options = dict(zip(("source_language", "target_language"), languages, strict=True))
    (translation,) = shipped.translate([text], options)
    assert translation.text.endswith(end)
    assert translation.text.count(end[-1]) == 1


@pytest.mark.parametrize("target", ["de", "fr"])
@pytest.mark.parametrize(
    "title",
    [
        "Show Hidden Files",
        "Do You Want To Save Your Changes?",
        "Save All Files",
        "What You See Is Here",
        "Change Your Password",
        "Breakfast",
        "New prices",
    ],
)
def test_words_of_titles_and_labels_are_translated(
    shipped: Translator, title: str, target: str
) -> None:
    text = translated(shipped, title, target_language=target).text
    assert not {*title.strip("?").lower().split()} & {*text.strip(" ?").lower().split()}
    assert text[0].isupper()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Mr Brown", "Brown"),
        ("Brown said so.", "Brown"),
        ("Hokkaido Hotel", "Hokkaido"),
        ("NATO Summit", "NATO"),
        ("Neil Young", "Neil Young"),
        ("George Washington", "George Washington"),
        ("Google Drive", "Google Drive"),
        ("Call From Harry Potter", "Harry Potter"),
        ("Hope is lost", "Hope"),
        ("Wednesday", "Mittwoch"),
        ("March 2026", "März 2026"),
    ],
)
def test_names_and_days_in_titles_keep_their_capitals(
    shipped: Translator, text: str, kept: str
) -> None:
    assert kept in translated(shipped, text).text


@pytest.mark.parametrize("text", ["Common", "No", "End"])
def test_a_copied_label_is_read_in_small_letters(shipped: Translator, text: str) -> None:
    assert translated(shipped, text, repair=False).text == text
    translation = translated(shipped, text)
    assert (
        translation.text.lower() == translated(shipped, text.lower()).text.lower() != text.lower()
    )
    assert translation.text[0].isupper()
    assert translation.warnings == ()
