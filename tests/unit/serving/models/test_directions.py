"""The source and target language, if the request leaves them open."""

from __future__ import annotations

import pytest
from dragoman_options.table import AUTO
from dragoman_serving.models.directions import Directions

from dragoman.kernel.errors import InvalidRequest

ONE_TO_MANY = (("en", "de"), ("en", "fr"))
MANY_TO_ONE = (("de", "en"), ("fr", "en"))
GERMAN = "Ich weiß nicht, was ich meiner Mutter sagen soll, die seit gestern krank ist."
FRENCH = "Je ne sais pas quoi dire à ma mère, qui est malade depuis hier."
ITALIAN = "Non so che cosa dire a mia madre, che da ieri è malata."


def detected(
    text: str, target: str | None, directions: tuple[tuple[str, str], ...]
) -> tuple[str, str]:
    languages = sorted({language for direction in directions for language in direction})
    ((source, into, detection),) = Directions(languages, directions).of_texts([text], AUTO, target)
    assert detection is not None
    assert detection.language == source
    return source, into


@pytest.mark.parametrize("text", ["Hotel", "Restaurant", "Hamburg", "12345", "OK"])
@pytest.mark.parametrize(("target", "expected"), [(None, "de"), ("de", "de"), ("fr", "fr")])
def test_the_only_source_language_is_used(text: str, target: str | None, expected: str) -> None:
    assert detected(text, target, ONE_TO_MANY) == ("en", expected)


@pytest.mark.parametrize("target", [None, "en"])
def test_the_source_is_a_supported_source_language(target: str | None) -> None:
    assert detected(GERMAN, target, MANY_TO_ONE) == ("de", "en")
    assert detected(FRENCH, target, MANY_TO_ONE) == ("fr", "en")
    assert detected("Hello.", target, MANY_TO_ONE)[0] in ("de", "fr")


def test_a_text_in_an_unsupported_source_language_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="text 0: the model does not translate from 'de': it"):
        detected(GERMAN, None, ONE_TO_MANY)
    with pytest.raises(InvalidRequest, match="does not translate from 'de' into 'fr': it has"):
        detected(GERMAN, "fr", ONE_TO_MANY)
    with pytest.raises(InvalidRequest, match="text 0 seems to be in 'it', not in de or fr; if"):
        detected(ITALIAN, "en", MANY_TO_ONE)


def test_a_text_in_the_target_language_is_detected_as_such() -> None:
    ((*codes, detection),) = Directions(("en", "de", "fr"), ONE_TO_MANY).of_texts(
        [GERMAN], AUTO, "de"
    )
    assert codes == ["en", "de"]
    assert detection is not None
    assert detection.language == "de"
    assert detection.probability > 0.9


def test_a_source_only_language_is_not_a_target() -> None:
    with pytest.raises(InvalidRequest, match="does not translate into 'en': it has en-de, en-fr"):
        detected("Hello.", "en", ONE_TO_MANY)


def test_the_only_source_language_need_not_be_detectable() -> None:
    assert detected(GERMAN, None, (("xx", "de"), ("xx", "fr"))) == ("xx", "de")


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("EN", "de-DE", ("en", "de")),
        ("en_US", "Fr", ("en", "fr")),
        (None, "FR", ("en", "fr")),
        ("Auto", "FR", ("en", "fr")),
    ],
)
def test_codes_are_normalized_to_those_of_the_model(
    source: str | None, target: str, expected: tuple[str, str]
) -> None:
    directions = Directions(("en", "de", "fr"), ONE_TO_MANY)
    ((*codes, _),) = directions.of_texts(["Hello."], source, target)
    assert tuple(codes) == expected
    with pytest.raises(InvalidRequest, match="target_language 'pt-BR' is unknown; known: en, de"):
        list(directions.of_texts(["Hello."], source, "pt-BR"))
    with pytest.raises(InvalidRequest, match="are both 'de'"):
        list(directions.of_texts(["Hello."], "DE", "de-AT"))
