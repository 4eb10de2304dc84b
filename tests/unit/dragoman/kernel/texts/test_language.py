"""Detection of a text's language."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from dragoman_training.text.parallel_text import read_pairs

from dragoman.commands.demo import SENTENCES
from dragoman.kernel.errors import UsageError
from dragoman.kernel.texts import language as detection
from dragoman.kernel.texts.language import (
    OtherLanguage,
    detect_language,
    detect_source,
    detectable_languages,
    most_probable_language,
)
from tests.conftest import CORPORA, CommandLine
from tests.toy import write_pairs

BOTH = ("en", "de")
FRENCH = "Je ne sais pas quoi dire à ma mère, qui est malade depuis hier."


@pytest.mark.parametrize("language", BOTH)
def test_languages_of_sentences_are_distinguished(language: str) -> None:
    for sentence in SENTENCES[language]:
        assert detect_language(sentence, BOTH, BOTH).language == language


@pytest.mark.skipif(not CORPORA.is_dir(), reason="needs the corpora")
def test_languages_of_nearly_all_test_sentences_are_distinguished() -> None:
    pairs = read_pairs(CORPORA / "tatoeba-en-de" / "test", BOTH)
    for side, language in enumerate(BOTH):
        right = refused = 0
        for pair in pairs:
            try:
                right += detect_language(pair[side], BOTH, BOTH).language == language
            except OtherLanguage:
                refused += 1
        assert right > 0.98 * len(pairs)
        assert refused < 0.005 * len(pairs)


def test_an_unsupported_language_is_refused() -> None:
    with pytest.raises(OtherLanguage, match="seems to be in 'fr', not in en or de"):
        detect_language(FRENCH, BOTH, BOTH)
    assert detect_language(FRENCH, ("fr", "de"), ("fr", "de")).language == "fr"
    # Known and unambiguous: the target's language is not foreign.
    assert detect_language(FRENCH, ("en", "de"), ("en", "de", "fr")).language in BOTH


GERMAN_WORDS = (
    "Ja|Nein|Danke|Guten Morgen|Gute Nacht|Hund|Katze|Brot|Käse|Öffnen|Schließen|Speichern|Weiter"
    "|Zurück|Pfannkuchen|Mutter|Schule|Heute|Rot|Klein|Ich liebe dich|Bis später|Hallo Welt"
    "|Was kostet das"
)
FRENCH_WORDS = (
    "Oui|Non|Merci|Bonjour|Bonne nuit|Au revoir|Maison|Porte|Chien|Chat|Pain|Lait|Œufs|Ouvrir"
    "|Fermer|Suivant|Retour|Mère|École|Demain|Rouge|Petit|Je t'aime|À bientôt|S'il vous plaît"
)


@pytest.mark.parametrize(("language", "words"), [("de", GERMAN_WORDS), ("fr", FRENCH_WORDS)])
def test_a_short_text_is_in_another_language_than_the_target(language: str, words: str) -> None:
    for text in words.split("|"):
        for form in (text, text.lower(), f"{text}!"):
            assert detect_source(form, ("de", "fr"), "en").language == language


@pytest.mark.parametrize("target", ["de", "fr"])
def test_a_short_text_in_the_only_source_language_stays_in_it(target: str) -> None:
    texts = "Yes|No|Open|Save as|Chat|Hand|Table|Hotel|Next page|Note|Pain|Rot|Good night, mum!"
    for text in texts.split("|"):
        assert detect_source(text, ("en",), target).language == "en"


def test_a_text_in_the_target_language_is_recognised() -> None:
    for text in ("The weather is nice today.", "Where are you going?", FRENCH):
        target = "fr" if text == FRENCH else "en"
        sources = tuple({"en", "de", "fr"} - {target})
        assert detect_source(text, sources, target).language == target
    with pytest.raises(OtherLanguage, match="seems to be in 'fr'"):
        detect_source(FRENCH, ("en",), "de")
    with pytest.raises(OtherLanguage, match="seems to be in 'fr'"):
        detect_source(FRENCH, ("en",), None)


@pytest.mark.parametrize("text", ["", "Hotel", "12345", "!?", "\0", "no", "\n", "a\nb"])
def test_the_language_of_short_text_is_guessed(text: str) -> None:
    detected = detect_language(text, BOTH, BOTH)
    assert detected.language in BOTH
    assert 0 <= detected.probability <= 1


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("日本", "ja|zh"),
        ("Привет", "ru"),
        ("Καλημέρα", "el"),
        ("こんにちは、元気?", "ja"),
        ("¿Dónde está la biblioteca?", "es"),
        ("Dove posso comprare un biglietto?", "it"),
    ],
)
def test_another_script_or_language_is_refused(text: str, language: str) -> None:
    with pytest.raises(OtherLanguage, match=f"seems to be in '({language})', not in en or de"):
        detect_language(text, BOTH, BOTH)


def test_a_word_of_another_script_does_not_matter() -> None:
    text = "The word Привет means hello in Russian."
    assert detect_language(text, BOTH, BOTH).language == "en"


def test_a_script_is_one_of_languages_that_use_it() -> None:
    assert detect_language("Привет", ("ru", "de"), ("ru", "de")).language == "ru"
    assert detect_language("日本", ("ja", "en"), ("ja", "en")).language == "ja"


def test_a_language_that_cannot_be_detected_must_be_given() -> None:
    with pytest.raises(UsageError, match="source_language auto: 'xx' cannot be detected"):
        detect_language("text", ("en", "xx"), ("en", "xx"))


def test_the_most_probable_language_is_returned_with_its_probability() -> None:
    language, probability = most_probable_language(FRENCH)
    assert language == "fr"
    assert 0.99 < probability <= 1.0
    assert {"en", "de", "fr"} <= set(detectable_languages())
    assert "xx" not in detectable_languages()


def test_without_the_library_the_command_line_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    write_pairs(tmp_path / "train", [("Good morning!", "Guten Morgen!")], BOTH)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[data]\ntrain = ["train"]\n')
    monkeypatch.setitem(sys.modules, "fasttext", None)
    detection._identifier.cache_clear()
    words = ["clean", "--config", str(recipe), "--data-dir", str(tmp_path), "--out"]
    assert "is not installed: from the checkout, make train-env" in cli.refusal(
        *words, str(tmp_path / "clean")
    )
