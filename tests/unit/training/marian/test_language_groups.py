"""The members of language groups."""

from __future__ import annotations

import pytest
from dragoman_training.marian.language_groups import MEMBERS

from dragoman.kernel.texts.language import detect_source, detectable_languages


@pytest.mark.parametrize("group", MEMBERS)
def test_all_members_can_be_detected(group: str) -> None:
    assert set(MEMBERS[group]) <= set(detectable_languages())


@pytest.mark.parametrize(
    ("group", "language", "text"),
    [
        ("ROMANCE", "fr", "Je voudrais une tasse de café et un verre d'eau, s'il vous plaît."),
        ("ROMANCE", "es", "Me gustaría una taza de café y un vaso de agua, por favor."),
        ("ROMANCE", "it", "Vorrei una tazza di caffè e un bicchiere d'acqua, per favore."),
        ("ROMANCE", "pt", "Eu gostaria de uma xícara de café e um copo de água, por favor."),
        ("gmq", "sv", "Jag skulle vilja ha en kopp kaffe och ett glas vatten, tack."),
        ("sla", "pl", "Poproszę filiżankę kawy i szklankę wody."),
        ("zle", "uk", "Я хотів би чашку кави та склянку води, будь ласка."),
        ("mul", "ja", "コーヒーを一杯と水を一杯お願いします。"),
    ],
)
def test_the_language_of_a_text_is_detected_among_the_members(
    group: str, language: str, text: str
) -> None:
    assert detect_source(text, MEMBERS[group], "en").language == language
