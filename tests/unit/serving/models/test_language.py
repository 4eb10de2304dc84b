"""Finding out which language a text is in."""

from __future__ import annotations

import pytest
from dragoman_serving.models.language import OtherLanguage, detect_language
from dragoman_training.text.parallel_text import read_pairs

from dragoman.commands.demo import SENTENCES
from dragoman.kernel.errors import UsageError
from tests.conftest import CORPORA

BOTH = ("en", "de")
FRENCH = "Je ne sais pas quoi dire à ma mère, qui est malade depuis hier."


@pytest.mark.parametrize("language", BOTH)
def test_sentences_are_told_apart(language: str) -> None:
    for sentence in SENTENCES[language]:
        assert detect_language(sentence, BOTH, BOTH) == language


@pytest.mark.skipif(not CORPORA.is_dir(), reason="needs the corpora")
def test_nearly_all_sentences_of_a_test_set_are_told_apart() -> None:
    pairs = read_pairs(CORPORA / "tatoeba-en-de" / "test", BOTH)
    for side, language in enumerate(BOTH):
        right = refused = 0
        for pair in pairs:
            try:
                right += detect_language(pair[side], BOTH, BOTH) == language
            except OtherLanguage:
                refused += 1
        assert right > 0.98 * len(pairs)
        assert refused < 0.002 * len(pairs)


def test_a_language_that_nobody_knows_is_refused() -> None:
    with pytest.raises(OtherLanguage, match="is in 'fr', as it seems: known are en, de"):
        detect_language(FRENCH, BOTH, BOTH)
    assert detect_language(FRENCH, ("fr", "de"), ("fr", "de")) == "fr"
    # Known, and not in question: the target's language is no stranger.
    assert detect_language(FRENCH, ("en", "de"), ("en", "de", "fr")) in BOTH


@pytest.mark.parametrize("text", ["", "Hotel", "12345", "!?", "\0", "oui", "日本"])
def test_what_is_short_is_guessed_and_not_refused(text: str) -> None:
    assert detect_language(text, BOTH, BOTH) in BOTH


def test_a_language_that_cannot_be_detected_is_to_be_named() -> None:
    with pytest.raises(UsageError, match="source_language auto: 'xx' cannot be detected"):
        detect_language("text", ("en", "xx"), ("en", "xx"))
