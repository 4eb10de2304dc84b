"""The client, its commands and the load test over a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dragoman_client import (
    AccessDenied,
    AsyncTranslator,
    InvalidRequest,
    ServerUnavailable,
    Translator,
)
from dragoman_load_test.results import Run

from dragoman.cli import main
from tests.conftest import CommandLine
from tests.gateways import RunningGateway
from tests.servers import WAIT_S, Served

TEXTS = ["A cup of tea.", "", "Good morning. How are you?"]
BRIEFLY = ("--warm-up-s", "0.1", "--window-s", "0.15", "--windows", "2")


@pytest.fixture(scope="module")
def translator(gateway: RunningGateway) -> Iterator[Translator]:
    with Translator(gateway.url, api_key="drg_any") as opened:
        yield opened


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam_width": 1, "target_language": "fr"},
        {"num_return_sequences": 3, "return_scores": True},
        {"source_language": "auto", "return_confidence": True},
        {"return_alignments": "soft", "return_bundle": True},
        {"return_alignments": "hard", "return_token_scores": True},
        {"return_attention": True},
        {"glossary": {"tea": "Kamillentee"}, "suppress": ["Tasse"]},
        {"prefix": ["Ich", "", "Wie"]},
    ],
)
def test_answers_equal_those_over_grpc(
    translator: Translator, shipped: Served, options: dict[str, Any]
) -> None:
    options = {"target_language": "de", **options}
    assert translator.translate(TEXTS, **options) == shipped.grpc.translate(TEXTS, **options)


def test_all_methods(translator: Translator, shipped: Served, tmp_path: Path) -> None:
    assert translator.health()
    assert translator.languages() == shipped.grpc.languages()
    assert translator.info().options == shipped.grpc.info().options
    pairs = (["Good morning."], ["Guten Morgen."])
    options: Any = {"return_alignments": "hard", "return_token_scores": True}
    assert translator.score(*pairs, **options) == shipped.grpc.score(*pairs, **options)
    last = [*translator.translate_stream("A cup of tea.", target_language="de")][-1]
    assert last == shipped.grpc.translate("A cup of tea.", target_language="de")
    lines = [f"Chapter {number}." for number in range(50)]
    translations = translator.translate_batches(iter(lines), batch_size=8, target_language="de")
    assert [translation.text for translation in translations][49] == shipped.grpc.translate(
        "Chapter 49."
    ).text
    (tmp_path / "in").write_text("Good morning.\nGood night.\n")
    translator.translate_file(tmp_path / "in", tmp_path / "out", target_language="de")
    assert (tmp_path / "out").read_text().splitlines()[0] == "Guten Morgen."


def test_refusals_raise_the_clients_errors(translator: Translator) -> None:
    with pytest.raises(InvalidRequest, match="'zz' is unknown"):
        translator.translate("Hello.", target_language="zz")
    with pytest.raises(InvalidRequest, match="'zz' is unknown"):
        list(translator.translate_stream("Hello.", target_language="zz"))


async def test_asyncio(gateway: RunningGateway) -> None:
    async with AsyncTranslator(gateway.url, timeout_s=WAIT_S) as translator:
        pages = (translator.translate(f"Page {number}.") for number in range(64))
        assert len(await asyncio.gather(*pages)) == 64


def test_a_gateway_that_starts_later_is_found(start_gateway: Any) -> None:
    with start_gateway() as running:
        url = running.url
    with Translator(url, retries=0) as translator:
        assert not translator.health()
        with pytest.raises(ServerUnavailable):
            translator.translate("Hello.")
        with start_gateway(port=running.port):
            assert translator.translate("Hello.", target_language="de").text == "Hallo."


def test_the_command(
    gateway: RunningGateway, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    key = tmp_path / "key"
    key.write_text("drg_any\n")
    words = ("--url", gateway.url, "--api-key-file", str(key), "--target-language", "de")
    assert main(["translate", *words, "Good morning."]) == 0
    assert capfdbinary.readouterr().out.decode() == "Guten Morgen.\n"


def test_a_key_is_required_and_has_limits(
    start_gateway: Any,
    tmp_path: Path,
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("--folder", str(tmp_path), "--characters-per-minute", "20")
    (key,) = [word for word in cli.prints("keys", "add", *words).split() if word.startswith("drg_")]
    with start_gateway(folder=tmp_path) as running:
        with Translator(running.url) as translator:
            assert translator.languages() == ("en", "de", "fr")
            with pytest.raises(AccessDenied, match="a key is required"):
                translator.translate("Hello.")
        with Translator(running.url, api_key=f"{key}0") as translator, pytest.raises(AccessDenied):
            translator.translate("Hello.")
        with Translator(running.url, api_key=key, retries=0) as translator:
            assert translator.translate("Good morning.", target_language="de").text
            with pytest.raises(ServerUnavailable) as caught:
                translator.translate("Good morning.", target_language="de")
            assert 0 < (caught.value.retry_after_s or 0) <= 60
        monkeypatch.setenv("DRAGOMAN_API_KEY", key)
        server = ("--url", running.url, "--target-language", "de")
        assert main(["translate", *server, "Tea"]) == 0
        document = running.get("/api/v1/openapi.json").json
        sources = document["paths"]["/api/v1/usage"]["get"]["x-codeSamples"]
        assert all("DRAGOMAN_API_KEY" in sample["source"] for sample in sources)
        assert document["paths"]["/api/v1/usage"]["get"]["security"] == [{"key": []}]
        assert running.get("/api/v1/info").json["features"]["keys_required"] is True


@pytest.mark.parametrize("protocol", ["own", "libretranslate", "deepl"])
def test_load_tests(gateway: RunningGateway, tmp_path: Path, protocol: str) -> None:
    file = tmp_path / "run.json"
    words = ("--url", gateway.url, "--protocol", protocol, "--target-language", "de", *BRIEFLY)
    loads = ("--concurrency", "4", "--rate", "40", "--batch-size", "1,3", "--json", str(file))
    assert main(["--quiet", "load-test", *words, *loads]) == 0
    points = Run.read(file).points
    assert len(points) == 4
    for point in points:
        assert not point.errors, point.examples
        assert point.requests > 0
