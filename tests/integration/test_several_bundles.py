"""Several bundles behind one Triton, from the clients' view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dragoman_client import LanguagePair
from dragoman_client.core.errors import InvalidRequest
from dragoman_serving.service.models_to_serve import ModelsToServe
from dragoman_serving.translation.translator import Translator as Engine

from dragoman.kernel.manifest import Manifest
from tests.servers import Served, serving, wait_for
from tests.small_bundles import make_bundles

TEXTS = ["red blue green", "white grey"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directions = {"first": "en-de de-en", "second": "en-de", "french": "en-fr"}
    return make_bundles(tmp_path_factory.mktemp("several"), directions)


@pytest.fixture(scope="module")
def served(folders: list[Path]) -> Iterator[Served]:
    to_serve = ModelsToServe(tuple(map(str, folders)), memory_bytes=1 << 30, pivot="en")
    with serving(None, to_serve=to_serve) as running:
        yield running


@pytest.mark.parametrize(
    ("options", "index"),
    [({}, 0), ({"model": "second"}, 1), ({"target_language": "fr"}, 2)],
)
def test_clients_reach_each_bundle(
    served: Served, folders: list[Path], options: dict[str, Any], index: int
) -> None:
    engine = Engine(folders[index])
    expected = [translation.text for translation in engine.translate(TEXTS, options)]
    engine.close()
    identity = Manifest.read(folders[index]).identity
    for client in (served.grpc, served.http):
        translations = client.translate(TEXTS, return_bundle=True, **options)
        assert [(translation.text, translation.bundle) for translation in translations] == [
            (text, identity) for text in expected
        ]
        score = client.score(TEXTS[0], "red", return_bundle=True, **options)
        assert score.bundle == identity
    events = list(served.grpc.translate_stream(TEXTS[0], return_bundle=True, **options))
    assert events[-1].bundle == identity


def test_an_unsupported_pair_is_refused_with_the_supported_ones(served: Served) -> None:
    for client in (served.grpc, served.http):
        with pytest.raises(InvalidRequest, match="from 'fr' into 'de': there are en-de, de-"):
            client.translate("red", source_language="fr", target_language="de")


def test_clients_see_which_translations_used_a_pivot(served: Served, folders: list[Path]) -> None:
    engines = Engine(folders[0]), Engine(folders[2])
    between = engines[0].translate(TEXTS, {"source_language": "de", "target_language": "en"})
    expected = engines[1].translate([translation.text for translation in between])
    for engine in engines:
        engine.close()
    pair: dict[str, Any] = {"source_language": "de", "target_language": "fr"}
    for client in (served.grpc, served.http):
        translations = client.translate(TEXTS, **pair)
        assert [(translation.text, translation.via) for translation in translations] == [
            (translation.text, "en") for translation in expected
        ]
        events = list(client.translate_stream(TEXTS[0], **pair))
        assert events[-1].via == "en"
        assert events[-1].text == "".join(event.delta or "" for event in events)
        assert client.translate(TEXTS[0]).via is None
        assert LanguagePair("de", "fr", ("first", "french"), "en") in client.info().pairs
    wait_for(lambda: served.metric("bundle_pivoted_sentences_total", bundle="french") >= 4)


def test_the_server_lists_all_bundles(served: Served) -> None:
    info = served.grpc.info()
    assert [bundle["name"] for bundle in info.bundles] == ["first", "second", "french"]
    assert info.directions == (("en", "de"), ("de", "en"), ("en", "fr"), ("de", "fr"))


def test_metrics_cover_each_bundle(served: Served) -> None:
    def value(name: str, bundle: str) -> float:
        return served.metric(f"bundle_{name}", bundle=bundle)

    before = value("requests_total", "second")
    served.grpc.translate("red", model="second")
    wait_for(lambda: value("requests_total", "second") > before)
    assert value("loaded", "second") == value("loads_total", "second") == 1
    assert value("bytes", "second") > 1e6
    assert value("load_seconds_total", "second") > 0
    assert value("evictions_total", "second") == value("load_failures_total", "second") == 0
