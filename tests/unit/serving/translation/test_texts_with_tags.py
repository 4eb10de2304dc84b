"""Plain texts with tags: each tag stays, around the words that it belongs to."""

from __future__ import annotations

import re
from threading import Event
from typing import Any

import pytest
from dragoman_options.markup import PlacedCodes
from dragoman_serving.markup.placement import place
from dragoman_serving.translation import marking
from dragoman_serving.translation.translator import Translator

from dragoman.kernel.errors import InvalidRequest
from tests.conftest import REPOSITORY

DIRECTION = {"source_language": "en", "target_language": "de"}
TAGGED = (
    ("<p>I am hungry.</p>", "I am hungry."),
    ("I have <b>a red car</b>. <i>Where are you?</i>", "I have a red car. Where are you?"),
    (
        '<ul>\n<li>He reads <a href="/a?b=1. C">a book</a>.</li>\n<li>Yes.</li>\n</ul>',
        "\nHe reads a book.\nYes.\n",
    ),
)


def tags(text: str) -> list[str]:
    return re.findall("<[^>]*>", text)


@pytest.mark.parametrize(
    "options",
    [
        *({}, {"beam_width": 1}, {"split_sentences": False}, {"source_language": "auto"}),
        *({"return_scores": True}, {"return_alignments": "hard"}, {"return_confidence": True}),
        {"glossary": {"car": "Wagen"}},
    ],
    ids=str,
)
def test_tags_stay_and_the_words_equal_those_without_tags(
    shipped: Translator, options: dict[str, Any]
) -> None:
    given = DIRECTION | options
    translations = shipped.translate([text for text, _ in TAGGED], given)
    for (text, bare), translation in zip(TAGGED, translations, strict=True):
        assert tags(translation.text) == tags(text)
        if "\n" not in text or options.get("split_sentences", True):
            (plain,) = shipped.translate([bare], given)
            assert re.sub("<[^>]*>", "", translation.text).split() == plain.text.split()
    (apart,) = shipped.translate(["Come here!</p><p>I know you."], given)
    assert sorted(tags(apart.text)) == ["</p>", "<p>"]


def test_tags_need_no_option_and_change_nothing_beside_them(shipped: Translator) -> None:
    plain = ["I am hungry.", "a < b", "Tom <tom@example.org> is here."]
    alone = [shipped.translate([text], DIRECTION)[0].text for text in plain]
    beside = shipped.translate([*plain, "<b>I am hungry.</b>"], DIRECTION)
    assert [translation.text for translation in beside[:3]] == alone
    assert beside[3].text == f"<b>{alone[0]}</b>"


MARKED = {
    "You must **not** open the _red_ door.": r"\*\*|_",
    "Do [b]not[/b] read the [book](https://a.b/c).": r"\[/?b\]|\[|\]\(.*?\)",
    "You must \\emph{never} eat \\textbf{this apple}.": r"\\\w+\{|\}",
    "I __never__ ~~eat~~ the ''apple'', *please*!": "__|~~|''|\\*",
    "\u2068{name}\u2069 has \u2068{count}\u2069 files in \u2068{folder}\u2069.": "[\u2068\u2069]",
}
"""Sentences, and an expression for their marks."""


@pytest.mark.parametrize("text", MARKED)
@pytest.mark.parametrize("target", ["de", "fr"])
def test_marks_stay_and_the_words_equal_those_without_marks(
    shipped: Translator, text: str, target: str
) -> None:
    given = {"source_language": "en", "target_language": target}
    marks = re.compile(MARKED[text])
    marked, plain = shipped.translate([text, marks.sub("", text)], given)
    assert sorted(marks.findall(marked.text)) == sorted(marks.findall(text))
    assert marks.sub("", marked.text) == plain.text
    assert not marked.warnings


def test_marks_are_outside_kept_spans_of_markup_without_codes(shipped: Translator) -> None:
    text = "Do **not** open *Foo bar*."
    keep = [text.index("*Foo"), text.index(".")]
    markup = f'{{"keep": [{keep}]}}'
    (kept,) = shipped.translate([text], DIRECTION | {"markup": markup})
    assert "**nicht**" in kept.text.lower()
    assert "*Foo bar*" in kept.text
    assert kept.codes == PlacedCodes()


@pytest.mark.parametrize("text", ["Do <b>not</b> go. I like **red** cars.", *MARKED])
def test_streams_have_the_same_tags_and_marks(shipped: Translator, text: str) -> None:
    stream = shipped.stream(text, DIRECTION, lambda: None)
    (last,) = stream.future.result(60)
    assert stream.read() == last.text == shipped.translate([text], DIRECTION)[0].text


def test_doubled_apostrophes_stay_doubled(shipped: Translator) -> None:
    given = {"source_language": "en", "target_language": "fr"}
    doubled, single = shipped.translate(["The user''s file isn''t here.", "I don't know."], given)
    assert doubled.text.replace("''", "'").count("'") == doubled.text.count("''") > 0
    assert "''" not in single.text


def test_a_capital_sharp_s_is_read(shipped: Translator) -> None:
    given = {"source_language": "de", "target_language": "en"}
    (translation,) = shipped.translate(["BITTE TÜR SCHLIEẞEN"], given)
    assert "DOOR" in translation.text
    assert "ẞ" not in translation.text


def test_tags_can_be_mixed_with_the_markup_of_other_texts(shipped: Translator) -> None:
    markup = ['{"codes": [[0, 1]]}', ""]
    texts = ["I am hungry.", "<b>I am hungry.</b>"]
    first, second = shipped.translate(texts, DIRECTION | {"markup": markup})
    assert first.codes is not None
    assert len(first.codes.codes) == 1
    assert second.text == f"<b>{first.text}</b>"


@pytest.mark.parametrize(
    ("markup", "message"),
    [
        ("no", "markup of text 0: not valid JSON"),
        ("[]", "markup of text 0: []: give "),
        ('{"codes": [[0, 99]]}', "markup of text 0: code 0 is 0 to 99: give a part of 0 to 12"),
        ('{"codes": [[0, 5], [3, 8]]}', "markup of text 0: code 1 begins at 3, before 5"),
        ('{"codes": [[0, 5, 1]]}', "markup of text 0: code 0 has the parent 1"),
        ('{"keep": [[3, 3]]}', "markup of text 0: keep 0 is 3 to 3"),
        (["{}", "{}"], "markup has 2 values for 1 texts: give one for each"),
    ],
)
def test_invalid_markup_is_refused(shipped: Translator, markup: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{re.escape(message)}[^\n]*$"):
        shipped.translate(["I am hungry."], DIRECTION | {"markup": markup})


@pytest.mark.parametrize("text", ["<b></b>", "<html>", "<br/> <br/>", "<p>\n</p>\n"])
def test_a_text_of_only_tags_stays_unchanged(shipped: Translator, text: str) -> None:
    assert shipped.translate([text], DIRECTION)[0].text == text


def test_placing_many_tags_does_not_delay_other_requests(
    shipped: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_continue = Event()

    def slow_place(*arguments: Any) -> PlacedCodes:
        assert may_continue.wait(60)
        return place(*arguments)

    monkeypatch.setattr(marking, "place", slow_place)
    text = "I have <b>a</b> <i>red</i> car. " * 40
    large = shipped.submit([text], DIRECTION).future
    assert shipped.translate(["I am hungry."], DIRECTION)[0].text
    assert not large.done()
    may_continue.set()
    (translation,) = large.result(60)
    assert sorted(tags(translation.text)) == sorted(tags(text))


def test_tags_are_placed_before_the_translator_closes() -> None:
    running = Translator(REPOSITORY / "model_repository" / "translate" / "1" / "bundle")
    large = running.submit(["I have <b>a red car</b>. " * 80], DIRECTION).future
    running.close()
    (translation,) = large.result(0)
    assert tags(translation.text) == ["<b>", "</b>"] * 80


@pytest.mark.parametrize("options", [{}, {"prefix": "Guten"}, {"num_return_sequences": 2}], ids=str)
def test_a_text_that_is_not_split_keeps_its_line_breaks(
    shipped: Translator, options: dict[str, Any]
) -> None:
    given = DIRECTION | options | ({} if options else {"split_sentences": False})
    (best,) = shipped.translate(["Good morning.\n\nHow are you?"], given)
    for translation in (best, *best.others):
        lines = translation.text.split("\n\n")
        assert [line[-1] for line in lines] == [".", "?"]
