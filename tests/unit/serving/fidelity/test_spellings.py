"""Roman numbers, and parts that the model reads in another spelling."""

# ruff: noqa: RUF001  the apostrophes and letters of several languages

from __future__ import annotations

import re

import pytest
from dragoman_serving.fidelity.literals import Literal
from dragoman_serving.fidelity.plain_sentences import is_plain
from dragoman_serving.fidelity.reading import Reading, StandIns
from dragoman_serving.fidelity.spellings import _rows, spellings, with_spellings
from hypothesis import given
from hypothesis import strategies as st

from dragoman.kernel.text import Tokenizer
from tests.conftest import REPOSITORY

BUNDLE = REPOSITORY / "model_repository/translate/1/bundle"
TENS, UNITS = ("", "X", "XX", "XXX"), ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
ROMAN = {10 * tens + units: TENS[tens] + UNITS[units] for tens in range(4) for units in range(10)}


def read(text: str, language: str, target: str = "") -> str:
    """A text with the other spellings, and with what is kept in braces."""
    for part in sorted(spellings(text, language, target), reverse=True):
        kept = text[part.begin : part.end]
        shown = f"{{{part.target or kept}{'?' * part.is_usual}}}"
        text = text[: part.begin] + (shown if part.read is None else part.read) + text[part.end :]
    return text


@given(st.integers(1, 39), st.sampled_from(["e", "ème", "ᵉ"]))
def test_french_ordinals_are_read_in_digits(value: int, ending: str) -> None:
    text = f"Au {ROMAN[value]}{ending} siècle, tout change."
    assert read(text, "fr") == f"Au {value}{ending} siècle, tout change."
    assert not is_plain(text, "fr")


@given(st.integers(2, 39), st.sampled_from(["Chapter", "Kapitel", "Louis", "annexe"]))
def test_roman_numbers_are_kept(value: int, before: str) -> None:
    number = f"{{{ROMAN[value]}{'?' * (len(ROMAN[value]) > 1)}}}"
    for language in ("de", "en", "fr"):
        assert read(f"{before} {ROMAN[value]} x", language) == f"{before} {number} x"


@pytest.mark.parametrize(
    ("languages", "text", "shown"),
    [
        ("en", "Chapter I is long, see section I.", "Chapter {I} is long, see section {I}."),
        ("en", "King Henry I left Rocky I.", "King Henry {I} left Rocky {I}."),
        ("en", "In this section I show that I know Mary. I do.", None),
        ("en", "When I, John V. Smith, came, Then I left", None),
        ("en", "I came. I saw. MIX, CIVIL, IVY, Vi, IIx", None),
        ("en", "the XIXth century", "the 19th century"),
        ("de", "Karl V. war alt. Wilhelm I. auch.", "Karl {V} war alt. Wilhelm {I} auch."),
        ("de", "im XX. Jahrhundert, Teil I", "im 20. Jahrhundert, Teil {I}"),
        ("fr", "François Ier, le Ier siècle", "François {I}, le 1er siècle"),
        ("en", "World War I ended.", "The First World War ended."),
        ("en", "in WWII and World War One", "in the Second World War and the First World War"),
        ("en", "a World War II story", "a Second World War story"),
        ("en", "World War III, World War Z", "World War {III?}, World War Z"),
        ("en", "£10.5m and $3bn", "£10.5 million and $3 billion"),
        ("en", "$5M, 7bn people, €12k", "$5 million, 7 billion people, €12 thousand"),
        ("en", "5m wide, 3 k, 5K run, $5mm", None),
        ("en", "half past three, a quarter to one", "3:30, 12:45"),
        ("de", "um halb eins, Viertel nach zwei Uhr", "um 12:30 Uhr, 2:15 Uhr"),
        ("fr", "à trois heures moins le quart", "à 2 h 45"),
        (
            "en",
            "open Mon-Fri, Sat and Mon. – Tue.",
            "open Monday to Friday, Sat and Monday to Tuesday.",
        ),
        ("en", "one and a half hours", "1.5 hours"),
        ("de", "anderthalb Stunden, eineinhalbe", "1,5 Stunden, 1,5"),
        ("en", "at 3pm, 10:30 AM or 12 a.m. today", "at 15:00, 10:30 or 0:00 today"),
        ("en", "Come at 7 p.m.", "Come at 19:00."),
        ("en", "I am 3 and 13pm, $3 am", None),
        ("de", "um 7 am Bahnhof", None),
        (
            "en",
            "It's ten past three, not ten to two, five to three",
            "It's 3:10, not ten to two, five to three",
        ),
        ("en", "at twenty-five to nine", "at 8:35"),
        ("de", "um fünf vor zwölf, fünf vor zwölf Leuten", "um 11:55 Uhr, fünf vor zwölf Leuten"),
        ("fr", "à trois heures moins cinq, midi et quart", "à 2 h 55, 12 h 15"),
        ("en", "9:30am-5pm, 10-8pm, 1pm – 2pm", "9:30 to 17:00, 10:00 to 20:00, 13:00 to 14:00"),
        (
            "de",
            "von 8 bis 18 Uhr, um 7 Uhr 20, 9.30 Uhr",
            "von 8:00 bis 18:00 Uhr, um 7:20 Uhr, 9:30 Uhr",
        ),
        ("fr", "de 9h à 18h30, 24h sur 24", "de 9:00 à 18:30, jour et nuit"),
        ("de", "Rund 200 sind rund zehn, knapp 5", "In etwa 200 sind etwa zehn, fast 5"),
        ("de", "ein Fünftel, zwei Zehnteln, ein fünftes", "1/5, 2/10, ein fünftes"),
        ("en", "a fifth of it, two-fifths, a fifth time", "1/5 of it, 2/5, a fifth time"),
        ("de", "die achtziger Jahre, in den Neunzigern", "die 80er Jahre, in den 90ern"),
        ("en", "in the sixties, in her early thirties", "in the 1960s, in her early 30s"),
        ("de", "eine dreitägige, zweistündiger", "eine 3 Tage lange, 2 Stunden langer"),
        ("fr", "à la mi-mars, fin 2010", "au milieu du mois de mars, à la fin de 2010"),
        (
            "de",
            "500 Euro inkl. MwSt., i. d. R. mind. 5",
            "500 Euro einschließlich Mehrwertsteuer, in der Regel mindestens 5",
        ),
        ("en-de", "Unless it rains", "Except if it rains"),
        ("fr", "Il est deux heures et demie.", "Il est 2 h 30."),
        ("fr", "Cela dure deux heures et demie.", None),
        ("en", "17 per cent, seventeen per cent, a per cent", "17 percent, 17 percent, a percent"),
        ("en", "$20/hour, 5 dollars/person", "$20 per hour, 5 dollars per person"),
        ("en", "him/her, 5/7, and/or", None),
        ("en", "Half a century, half a dozen of them", "50 years, half a dozen of them"),
        ("en", "half a dozen eggs, half an hour", "6 eggs, half an hour"),
        ("en", "every other week, Every other day", "every two weeks, Every two days"),
        ("en", "every other option", None),
        ("en", "One in five, one in 20 men", "1 out of 5, 1 out of 20 men"),
        ("en", "one in 2,000 men, the one in two rooms, one in five years", None),
        ("en-de", "six-month-old, non-two-year plans", None),
        ("en-de", "a two-year plan", "a 2 years plan"),
        ("en-fr", "a two-year plan", "a 2 years plan"),
        ("en-de", "a dozen people, an hour and a half", "12 people, 1.5 hours"),
        ("en-fr", "a dozen people, an hour and a half", None),
        ("en-fr", "two and a half hours", "2.5 hours"),
        ("en", "two-and-a-half hours", "2.5 hours"),
        ("de", "zweieinhalb Jahre, dreieinhalbe", "2,5 Jahre, 3,5"),
        ("de", "vor einem halben Jahrhundert", "vor 50 Jahren"),
        ("de", "Der 18-Jährige und die 20-Jährigen", "Der 18-jährige und die 20-jährigen"),
        ("fr", "une vingtaine de voitures", "environ 20 voitures"),
        ("fr", "une dizaine d'années, des dizaines de", "environ 10 années, des dizaines de"),
        ("fr", "48 heures, de 8 heures, à 8 h", "48 heures, de 8 heures, à 8:00"),
        ("fr", "de 9h à 10h, un vol de 7h", "de 9:00 à 10:00, un vol de 7 heures"),
        ("fr", "vers 15 h, sous 3 jours", "à environ 15:00, dans un délai de 3 jours"),
        ("fr", "huit heures dix, deux heures et demie", "8 h 10, deux heures et demie"),
        ("fr", "cinq heures dix minutes", None),
        ("en", "ten past eight, 2h 15m", "8:10, 2 hours and 15 minutes"),
        ("de", "1 Std. 30 Min., halbstündige", "1 Stunden und 30 Minuten, 30 Minuten lange"),
        ("en", "twice daily, weekly.", "twice a day, every week."),
        ("en", "Sales plunged to $5, up 3%.", "Sales fell to $5, up 3%."),
        ("en", "Prices have declined sharply.", "Prices have fallen sharply."),
        ("en", "He declined 3 offers politely and rose early.", None),
        ("de", "Der Umsatz sank um 5 %.", "Der Umsatz fiel um 5 %."),
        ("fr", "Un demi-siècle, un demi-million d’euros", "50 ans, 500 000 euros"),
    ],
)
def test_parts_are_read_in_another_spelling(languages: str, text: str, shown: str | None) -> None:
    assert read(text, *languages.split("-")) == (shown or text)


@given(
    st.lists(
        st.sampled_from(
            ["XVe siècle", "World War I", "$3bn", "at 3pm", "XIV", "été", "{x}", "Part I"]
        ),
        max_size=8,
    ),
    st.sampled_from(["en", "fr"]),
)
def test_indices_of_other_spellings_are_those_of_the_sentence(
    words: list[str], language: str
) -> None:
    line = ", ".join(words)
    placeholders = [
        Literal(begin, begin + 3) for begin in range(len(line)) if line.startswith("{x}", begin)
    ]
    literals = with_spellings(line, language, placeholders, [])
    assert literals == sorted(literals, key=lambda literal: literal.span)
    stand_ins = StandIns(Tokenizer(BUNDLE / "tokenizer.model"))
    reading = Reading.of(line, literals, stand_ins)
    assert reading.line == line
    places = [reading.index(index) for index in range(len(reading.text) + 1)]
    assert places == sorted(places)
    for index, character in enumerate(reading.text):
        begin = places[index]
        is_replaced = any(literal.begin <= begin < literal.end for literal in literals)
        assert is_replaced or line[begin] == character


def test_kept_text_and_other_literals_keep_their_spelling() -> None:
    text = "See World War I and $3bn."
    assert len(with_spellings(text, "en", [], [])) == 2
    fixed = Literal(4, 9)
    assert [part.begin for part in with_spellings(text, "en", [], [fixed])] == [20 + 1]
    for literal in (fixed, Literal(0, 12), Literal(0, 12, is_usual=True)):
        assert literal in with_spellings(text, "en", [literal], [])
    usual = Literal(4, 9, is_usual=True)
    assert usual not in with_spellings(text, "en", [usual], [])


@pytest.mark.parametrize("languages", [("en", "de"), ("en", "fr"), ("de", "en"), ("fr", "en")])
def test_every_row_can_be_compiled(languages: tuple[str, str]) -> None:
    assert all(row.pattern for row in _rows(*languages))


@pytest.mark.parametrize("languages", [("en", "de"), ("en", "fr"), ("de", "en"), ("fr", "en")])
@given(st.data())
def test_each_match_of_a_row_has_its_hint_and_whole_words(
    languages: tuple[str, str], data: st.DataObject
) -> None:
    row = data.draw(st.sampled_from(_rows(*languages)))
    text = data.draw(st.from_regex(row.pattern)) + data.draw(st.sampled_from(["", "s"]))
    assert row.hint
    assert row.hint.lower() in text.lower()
    for match in row.pattern.finditer(text):
        assert not re.match(r"[^\W\d_]{2}", text[match.end() - 1 :])
