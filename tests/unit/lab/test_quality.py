"""Benchmarks of properties of translations."""

from __future__ import annotations

import pytest
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator
from dragoman_training.text.alterations import RULES, Example

from lab.quality.everyday_phrases import (
    LANGUAGES,
    PHRASES,
    expanded,
    read_phrases,
    wrong_translations,
)
from lab.quality.robustness import Bench


def test_a_form_expands_to_all_its_alternatives() -> None:
    assert list(expanded("(a|b) c(d|)")) == ["a c", "a cd", "b c", "b cd"]
    assert list(expanded("(a (b|c)|d)")) == ["a b", "d", "a c", "d"]


def test_phrases_accept_only_their_forms() -> None:
    (phrase,) = read_phrases(
        ["# none", "", "Hi. / Hello (there|). | Hallo (du|)! | Salut ! / Ça va ."]
    )
    assert phrase.forms["en"] == ["Hi.", "Hello.", "Hello there."]
    assert phrase.forms["de"] == ["Hallo!", "Hallo du!"]
    assert phrase.forms["fr"] == ["Salut !", "Ça va."]
    assert phrase.accepts("hello", "en")
    assert not phrase.accepts("hello", "de")


def test_every_phrase_is_complete_and_unique() -> None:
    phrases = read_phrases(PHRASES.read_text("utf-8").splitlines())
    assert len(phrases) > 300
    assert len({phrase.forms["en"][0] for phrase in phrases}) == len(phrases)
    for phrase in phrases:
        for language in LANGUAGES:
            usual = phrase.forms[language][0]
            assert usual[0].isupper(), usual
            assert usual[-1] in ".!?", usual
            assert not set(usual) & set("()|/"), usual


def translating(monkeypatch: pytest.MonkeyPatch, table: dict[str, str]) -> Translator:
    """A translator that knows some texts, and repeats the others."""

    def translate(_self: Translator, texts: list[str], _options: object) -> list[Translation]:
        return [Translation(table.get(text, text), 1, True) for text in texts]

    monkeypatch.setattr(Translator, "translate", translate)
    return Translator.__new__(Translator)


def test_other_forms_of_a_phrase_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    phrases = read_phrases(["Yes. | Ja. | Oui.", "No. | Nein. / Nö. | Non."])
    translator = translating(monkeypatch, {"Yes.": "Jaja.", "No.": "nö", "Ja.": "Yes."})
    assert wrong_translations(translator, phrases, "en", "de") == [(phrases[0], "Jaja.")]
    assert wrong_translations(translator, phrases, "de", "en") == [(phrases[1], "Nein.")]


def test_altered_texts_are_compared_with_the_unaltered_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("red", "blue", "green", "black", "white", "brown")
    pairs = [(f"The house there is {word}.", f"Das Haus da ist {word}.") for word in words]
    translator = translating(monkeypatch, dict(pairs))
    examples = [Example(*pair, src_language="en", tgt_language="de") for pair in pairs]
    results = {
        measured.case: measured for measured in Bench(translator, "en", "de", 4).measure(examples)
    }
    assert set(results) == {*RULES, "joined"} - {"other_number"}
    for name in ("lower_case", "upper_case", "no_final_mark", "joined"):
        assert results[name].clean_bleu == pytest.approx(100.0)
        assert results[name].bleu < 50.0, name  # only the unaltered texts are translated
    assert (results["joined"].texts, results["emoji"].texts) == (2, 6)
    assert results["copied"].exact == results["no_text"].exact == 6
