"""Which bundle translates a request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from dragoman_serving.models.routes import (
    Bundle,
    Route,
    Routes,
    ServedPair,
    read_bundle,
    read_bundles,
)

from dragoman.kernel.errors import InvalidRequest, UsageError
from dragoman.kernel.manifest import Manifest
from tests.conftest import REPOSITORY

SHIPPED = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"
GERMAN = "Ich weiß nicht, was ich meiner Mutter sagen soll, die seit gestern krank ist."
FRENCH = "Je ne sais pas quoi dire à ma mère, qui est malade depuis hier."


def bundle(name: str, *directions: str) -> Bundle:
    pairs = tuple(tuple(direction.split(">")) for direction in directions)
    languages = tuple(dict.fromkeys(language for pair in pairs for language in pair))
    manifest = replace(Manifest.read(SHIPPED), languages=languages, directions=pairs)
    return Bundle(name, Path(name), manifest)


def names(route: Route) -> str:
    return " ".join(model.name for model in route.bundles)


@pytest.fixture(scope="module")
def routes() -> Routes:
    return Routes(
        [
            bundle("large", "en>de", "de>en"),
            bundle("small", "en>de"),
            bundle("romance", "en>pt", "en>fr", "fr>en"),
            bundle("brazil", "en>pt-br"),
        ]
    )


@pytest.mark.parametrize(
    ("source", "target", "name", "expected"),
    [
        (None, None, None, "large"),
        ("en", "de", None, "large"),
        ("en", "de", "small", "small"),
        ("EN", "de-AT", None, "large"),
        ("de", None, None, "large"),
        ("fr", None, None, "romance"),
        (None, "fr", None, "romance"),
        ("en", "pt", None, "romance"),
        ("en", "pt-PT", None, "romance"),
        ("en", "pt_BR", None, "brazil"),
        ("en", "fr", "small", "small"),  # it reports itself that it cannot
    ],
)
def test_the_first_best_match_is_chosen(
    routes: Routes, source: str | None, target: str | None, name: str | None, expected: str
) -> None:
    assert names(routes.choose(source, target, name)) == expected
    assert names(routes.choose(source, target, name)) == expected  # cached


def test_an_unusable_bundle_is_skipped_unless_it_is_the_only_one(
    routes: Routes,
) -> None:
    assert names(routes.choose("en", "de", None, lambda model: model.name != "large")) == "small"
    assert (
        names(routes.choose("en", "fr", None, lambda model: model.name != "romance")) == "romance"
    )
    assert names(routes.choose("en", "de", "large", lambda model: model.name != "large")) == "large"


@pytest.mark.parametrize(
    ("source", "target", "name", "message"),
    [
        (
            "de",
            "fr",
            None,
            "no model translates from 'de' into 'fr': there are en-de, de-en, en-pt",
        ),
        ("xx", None, None, "no model translates from 'xx': there are en-de"),
        (None, None, "huge", "model is 'huge': there are large, small, romance, brazil"),
    ],
)
def test_an_unsupported_request_is_refused_with_the_alternatives(
    routes: Routes, source: str | None, target: str | None, name: str | None, message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        routes.choose(source, target, name)
    assert str(caught.value).startswith(message)


def test_languages_include_those_of_all_bundles(routes: Routes) -> None:
    assert routes.languages == ("en", "de", "pt", "fr", "pt-br")
    assert len(routes.directions) == 6


def test_a_detected_language_chooses_the_bundle(routes: Routes) -> None:
    def chosen(*texts: str, target: str | None = "en", name: str | None = None) -> str:
        return names(routes.choose_for(texts, "Auto", target, name))

    assert chosen(GERMAN) == chosen(GERMAN, "", GERMAN) == "large"
    assert chosen(FRENCH) == "romance"
    assert chosen(FRENCH, name="large") == "large"  # it refuses the request
    assert chosen("  ", target="fr") == "romance"
    with pytest.raises(InvalidRequest, match=r"different models \(de, fr\): send the texts"):
        chosen(GERMAN, FRENCH)
    with pytest.raises(InvalidRequest, match="text 0: the model does not translate from 'fr' into"):
        chosen(FRENCH, target="de")


@pytest.mark.parametrize(
    ("source", "target", "name", "expected", "via"),
    [
        ("de", "fr", None, "large romance", "en"),
        ("fr", "DE-at", None, "romance large", "en"),
        ("de", "pt_BR", None, "large brazil", "en"),
        ("fr", "en", None, "romance", None),
        ("en", "fr", None, "romance", None),
        ("de", None, None, "large", None),
        (None, "fr", None, "romance", None),
        ("fr", "pt", "romance", "romance romance", "en"),
        ("de", "fr", "large", "large", None),  # it reports itself that it cannot
        ("de", "de", "large", "large", None),
    ],
)
def test_two_bundles_are_joined_if_none_is_direct(
    routes: Routes,
    source: str | None,
    target: str | None,
    name: str | None,
    expected: str,
    via: str | None,
) -> None:
    route = Routes(routes.bundles, "EN").choose(source, target, name)
    assert (names(route), route.via) == (expected, via)


def test_usable_models_are_preferred_for_both_legs() -> None:
    both = Routes(
        [bundle("large", "de>en"), bundle("small", "de>en"), bundle("french", "en>fr")], "en"
    )
    assert (
        names(both.choose("de", "fr", None, lambda model: model.name != "large")) == "small french"
    )
    assert names(both.choose("de", "fr", None, lambda _one: False)) == "large french"
    with pytest.raises(InvalidRequest, match="from 'de' into 'de': there are de-en, en-fr, de-fr"):
        both.choose("de", "de")


def test_pairs_name_their_pivot(routes: Routes) -> None:
    assert Routes(routes.bundles, "xx").pairs == routes.pairs
    pairs = Routes(routes.bundles, "en").pairs
    assert pairs[: len(routes.pairs)] == routes.pairs
    assert ServedPair("de", "fr", ("large", "romance"), "en") in pairs
    assert len({(pair.source, pair.target) for pair in pairs}) == len(pairs)


def test_a_detected_language_can_use_a_pivot(routes: Routes) -> None:
    pivoted = Routes(routes.bundles, "en")
    route = pivoted.choose_for([GERMAN, " "], "auto", "fr")
    assert (names(route), route.languages) == ("large romance", ("de", "en", "fr"))
    assert [detection and detection.language for detection in route.detected] == ["de", ""]
    one_bundle = Routes([bundle("all", "en>de", "de>en", "en>fr", "fr>en")], "en")
    assert one_bundle.choose_for([FRENCH], "auto", "de").via == "en"
    direct = one_bundle.choose_for([FRENCH], "auto", "en")
    assert (direct.via, direct.detected) == (None, ())
    with pytest.raises(InvalidRequest, match=r"different models \(de, fr\)"):
        pivoted.choose_for([GERMAN, FRENCH], "auto", "pt")


def test_bundles_that_can_be_preloaded_are_listed_once() -> None:
    routes = Routes([bundle("en-de", "en>de", "de>en"), bundle("other", "en>fr")], "en")
    assert routes.find("de-en").name == "en-de"
    with pytest.raises(UsageError) as caught:
        routes.find("de-fr")  # only through the pivot
    known = "en-de, other, de-en, en-fr"
    message = f"--preload de-fr: neither a model nor a direction; known: {known}"
    assert str(caught.value) == message


def test_names_are_those_of_folders_or_links(tmp_path: Path, random_bundle: Path) -> None:
    (tmp_path / "en-de").symlink_to(random_bundle)
    model = read_bundle(tmp_path / "en-de")
    assert (model.name, model.folder) == ("en-de", random_bundle.resolve())
    with pytest.raises(UsageError, match=r"two models are named 'en-de': rename a folder of"):
        Routes(read_bundles([tmp_path / "en-de"] * 2))
    with pytest.raises(UsageError, match=r"nothing/manifest\.json"):
        read_bundle(tmp_path / "nothing")


def test_a_bundle_is_named_by_its_folder_or_its_languages(
    tmp_path: Path,
) -> None:
    shipped = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"
    assert read_bundle(shipped).name == "en-de-fr"
    (tmp_path / "mine").symlink_to(shipped)
    assert read_bundle(tmp_path / "mine").name == "mine"
