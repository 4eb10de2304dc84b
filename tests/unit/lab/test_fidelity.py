# ruff: noqa: RUF001  signs and dashes
"""What counts as survived: numbers by value, signs, placeholders, terms."""

from __future__ import annotations

from collections import Counter

import pytest

from lab.fidelity.__main__ import SHORT_PARTS, open_model, rows_of
from lab.fidelity.bench import Bench
from lab.fidelity.cases import Case
from lab.fidelity.numbers import differing
from lab.fidelity.placeholders import positions, sentences
from lab.fidelity.signs import emoji, foreign_words, is_kept
from lab.fidelity.terms import has
from lab.fidelity.variations import Variation, variations
from lab.measurement import SHIPPED

EQUAL = [
    ("en", "1,000.5", "de", "1.000,5"),
    ("en", "1,000.5", "fr", "1\u202f000,5"),
    ("en", "2,200,112", "de", "2,200,112"),  # no German decimal has two commas
    ("fr", "5 200 personnes", "en", "5,200 people"),
    ("fr", "46,000 roupies", "en", "46,000 rupees"),
    ("en", "in 2010 200 people", "de", "2010 200 Menschen"),
    ("en", "at 2:30 p.m.", "fr", "à 14 h 30"),
    ("en", "at 2:30 p.m.", "de", "um 14.30 Uhr"),
    ("de", "um 14:00 Uhr", "en", "at 2 p.m."),
    ("en", "12 a.m.", "de", "0 Uhr"),
    ("en", "on 3 October 1990", "de", "am 3.10.1990"),
    ("en", "the 1990s", "fr", "les années 90"),
    ("de", "die 1990er", "en", "the '90s"),
    ("en", "2018-19", "de", "2018/2019"),
    ("en", "1.5 billion", "de", "1,5 Milliarden"),
    ("en", "1,500 million", "fr", "1,5 milliard"),
    ("fr", "de 4,2 à 4,1 Md$", "en", "from $4.2 billion to $4.1 billion"),
    ("en", "£5m", "de", "5 Millionen Pfund"),
    ("en", "½ cup, 1½ hours", "de", "1/2 Tasse, 1,5 Stunden"),
    ("en", "10² m", "de", "10² m"),
    ("en", "3 cats", "de", "dreiköpfige Katzen"),
    ("fr", "XIXe siècle", "en", "19th century"),
    ("en", "-5 °C", "de", "minus fünf Grad"),
    ("en", "20 m²", "de", "20 Quadratmeter"),
    ("en", "+1 (555) 010-9999", "de", "+1 555 0109999"),
    ("en", "192.168.178.254", "de", "192.168.178.254"),
    ("de", "40 Jahre", "en", "four decades"),
    ("fr", "soixante et onze", "de", "einundsiebzig"),
    ("en", "one hundred and twenty", "de", "hundertzwanzig"),
    ("de", "sechsundzwanzig Millionen", "fr", "26 millions"),
    ("de", "147 Millionen Dollar bzw. 8 Cent", "en", "147 million or 8 cents"),
    ("fr", "10 milles", "en", "10 miles"),
    ("fr", "10 milles", "en", "10,000"),
    ("fr", "le vingtième membre", "en", "the 20th member"),
]
DIFFERENT = [
    ("en", "Take 2 pills every 8 hours", "de", "Nimm 28 Stunden"),
    ("en", "1,000", "de", "1,000"),
    ("en", "2,200,112", "de", "2.200,112"),
    ("de", "3,5 Zimmer", "en", "35 rooms"),
    ("en", "10²", "de", "102"),
    ("en", "1½", "de", "11⁄2"),
    ("en", "¾", "de", "3⁄5"),
    ("en", "5 and 5", "de", "5"),
    ("en", "5", "de", "5 und 5"),
    ("en", "14:30", "fr", "14:13"),
    ("en", "at 2:30 a.m.", "de", "um 14.30 Uhr"),
    ("de", "3.10.1990", "en", "310.1990"),
    ("en", "1990s", "de", "1980er"),
    ("en", "1.5 billion", "de", "1,5 Billionen"),
    ("en", "+1 (555) 010-9999", "de", "+1 555 0109"),
    ("en", "192.168.178.254", "de", "192.168.178.178.254"),
    ("en", "-5 °C", "de", "5 °C"),
    ("en", "twenty-one years", "de", "zwanzig Jahre"),
    ("fr", "soixante et onze", "en", "seventy"),
]
KINDS = (
    *("breaks", "codes", "columns", "dashes", "detection", "labels", "negation", "numbers"),
    *("phrases", "placeholders", "signs", "symbols"),
)
LEAST = {
    "numbers: made up": 0.95,
    "emoji": 1.0,
    "signs": 0.97,
    "scripts": 1.0,
    "placeholders: once": 0.99,
    "placeholders: order": 0.99,
    **dict.fromkeys((f"variations: {kind}" for kind in KINDS), 0.99),
}
"""Shares that the shipped model keeps, somewhat rounded down."""


@pytest.mark.parametrize(("src", "source", "tgt", "target"), EQUAL)
def test_numbers_of_one_value_are_equal(src: str, source: str, tgt: str, target: str) -> None:
    assert differing(source, src, target, tgt) is None


@pytest.mark.parametrize(("src", "source", "tgt", "target"), DIFFERENT)
def test_numbers_of_other_values_differ(src: str, source: str, tgt: str, target: str) -> None:
    assert differing(source, src, target, tgt) is not None


def test_signs_are_kept_only_once_and_alone() -> None:
    assert is_kept("👍", "Gut 👍!")
    for changed in ("Gut 👍🏽!", "Gut 👍👍!", "Gut!", "Gut 👍\ufffd"):
        assert not is_kept("👍", changed), changed
    assert len(set(emoji())) == len(emoji()) > 3000
    assert sum(map(len, foreign_words())) >= 1000


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_placeholders_are_found_in_their_own_sentences(language: str) -> None:
    made = sentences(language, 500)
    for sentence in made:
        offsets = positions(sentence, sentence.text)
        assert None not in offsets, sentence
        assert offsets == sorted(offsets, key=lambda offset: offset or 0)
    assert len({sentence.text for sentence in made}) > 450
    assert len(Counter(kind for sentence in made for kind, _ in sentence.placeholders)) > 25


def test_damaged_placeholders_are_not_found() -> None:
    (sentence,) = (
        sentence for sentence in sentences("en", 60) if sentence.text.startswith("From :total:")
    )
    assert None in positions(sentence, "Von:total: bis :item:")
    assert None in positions(sentence, "Von :total: bis :total: und :item:")
    assert positions(sentence, "Von :item: bis :total:") == [15, 4]


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_a_text_is_no_fault_of_its_own_kind(language: str) -> None:
    made = variations(language, language, 150)
    assert len({sentence.text for sentence in made}) > 100
    assert {sentence.kind for sentence in made} == set(KINDS)
    for sentence in made:
        faults = set(sentence.faults(sentence.text))
        assert not {fault for fault in faults if not fault.startswith(("untrans", "not trans"))}, (
            sentence
        )
    assert made != variations(language, language, 150, seed=1)


@pytest.mark.parametrize(
    ("kind", "text", "kept", "damaged"),
    [
        ("numbers", "2 pills every 8 hours", (), "28 Stunden"),
        ("signs", "Good 👍🏽 work", ("👍🏽",), "Gute 👍 Arbeit"),
        ("signs", "x ≤ 5", ("≤",), "x ≤ 5 \ufffd"),
        ("codes", "Buy A4 now", ("A4",), "Kaufe A4er jetzt"),
        ("breaks", "Open<br>Close", (), "Öffnen Schließen"),
        ("columns", "a\tb", (), "a b"),
        ("dashes", "- Hi!<br>- Hello!", (), "- Hallo!<br>Hallo!"),
        ("negation", "This is NOT mine.", (), "Das ist meins."),
        ("negation", "NEVER do this.", (), "NEVER tun Sie das nicht."),
        ("labels", "all", (), ""),
    ],
)
def test_damage_is_a_fault(kind: str, text: str, kept: tuple[str, ...], damaged: str) -> None:
    variation = Variation(kind, "en", "de", text, kept)
    assert list(variation.faults(damaged))


def test_a_term_is_a_word() -> None:
    assert has("Bude ist groß", "Bude")
    assert has("Karmesin ist rot", "karmesin")
    assert not has("Budenzauber", "Bude")


def test_faults_follow_from_what_is_right() -> None:
    case = Case("4", "/translate", "en", "Nach § 5 ist 3,5 ★ gut.", "`§ 5`; no `®`")
    assert list(case.faults("Under § 5, 3.5 ★ is good.")) == []
    assert list(case.faults("Under ® 5, 35 is good.")) == ["numbers", "has ®", "no § 5", "signs ★"]


@pytest.mark.thorough
def test_the_shipped_model_keeps_its_share() -> None:
    with open_model(str(SHIPPED)) as translate:
        bench = Bench(translate, {}, 45)  # with fewer, some kinds would not occur
        rows = [row for part in SHORT_PARTS for row in rows_of(part, bench, None)]
    assert {row.what for row in rows} >= set(LEAST)
    for row in rows:
        assert row.right >= LEAST.get(row.what, 0.0) * row.texts, (row.what, row.direction)
