"""Each option over both protocols: the server returns what its engine does; refusals name it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from dragoman_client import Translation
from dragoman_client import Translator as Client
from dragoman_serving.translation.translator import Translator

from tests.conftest import CommandLine
from tests.integration.test_served_translations import BUNDLE
from tests.servers import Served

TEXTS = [
    "I would like a cup of tea, please.",
    "Dear {first_name}, order #48-2213 is in {place_of_delivery_no_2} or %(address)s.",
]
OPTIONS: list[dict[str, Any]] = [
    {"prefix": "Ich"},
    {"min_tokens": 15},
    {"max_length_ratio": 0.5},
    {"min_length_ratio": 2.0},
    {"patience": 2.0, "early_stopping": False},
    {"coverage_penalty": 0.5, "num_return_sequences": 2, "return_scores": True},
    {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
    {"temperature": 1.2, "top_k": 20, "top_p": 0.9, "seed": 2**40, "num_return_sequences": 3},
    {"suppress": ["Tee", "Ich"]},
    {"glossary": {"tea": "Kräutertee"}},
    {"keep_placeholders": False},
    {"prefix": "Ich", "return_alternatives": True, "num_return_sequences": 3},
]


@pytest.fixture(scope="module")
def translator() -> Iterator[Translator]:
    running = Translator(BUNDLE)
    yield running
    running.close()


def texts_of(translations: list[Translation]) -> list[list[str]]:
    return [
        [translation.text, *(other.text for other in translation.alternatives)]
        for translation in translations
    ]


def last_of(stream: Iterator[Translation]) -> str:
    *_, last = stream
    return last.text


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options)))
def test_every_option_is_served(
    shipped: Served, translator: Translator, options: dict[str, Any]
) -> None:
    written = {
        name: json.dumps(value) if name == "glossary" else value for name, value in options.items()
    }
    expected = translator.translate(TEXTS, written)
    plain = translator.translate(TEXTS)
    expected_texts = [
        [translation.text, *(other.text for other in translation.others)]
        for translation in expected
    ]
    for client in (shipped.grpc, shipped.http):
        assert texts_of(client.translate(TEXTS, **options)) == expected_texts
    if len(options) == 1:
        assert [texts[0] for texts in expected_texts] != [translation.text for translation in plain]


@pytest.mark.parametrize("words", [[], ["Tee"], ["Tee", "Ich"]])
def test_words_are_suppressed_in_every_request_format(shipped: Served, words: list[str]) -> None:
    """JSON encodes a list of one word as the word alone."""
    clients = shipped.grpc, shipped.http
    plain = shipped.grpc.translate(TEXTS[0]).text
    answers = {client.translate(TEXTS[0], suppress=words).text for client in clients}
    answers |= {last_of(client.translate_stream(TEXTS[0], suppress=words)) for client in clients}
    (only,) = answers
    assert (only == plain) is (not words)
    assert not any(word in only for word in words)


def test_options_of_all_kinds_share_the_engine(shipped: Served) -> None:
    """The result for each does not depend on the others."""
    alone = [texts_of(shipped.grpc.translate(TEXTS, **options)) for options in OPTIONS]
    for _ in range(2):
        with ThreadPoolExecutor(len(OPTIONS)) as pool:
            together = pool.map(lambda options: shipped.grpc.translate(TEXTS, **options), OPTIONS)
            assert list(map(texts_of, together)) == alone


@pytest.mark.parametrize("name", ["grpc", "http"])
def test_a_stream_accepts_constraints(shipped: Served, name: str) -> None:
    client: Client = getattr(shipped, name)
    options: dict[str, Any] = {"prefix": "Bitte", "suppress": ["Tee"]}
    whole = client.translate(TEXTS[0], **options).text
    assert whole.startswith("Bitte ")
    assert last_of(client.translate_stream(TEXTS[0], **options)) == whole


def test_the_command_line_sends_them(shipped: Served, tmp_path: Path, cli: CommandLine) -> None:
    glossary = tmp_path / "terms.json"
    glossary.write_text('{"tea": "Kräutertee", "cup": "Tasse"}', encoding="utf-8")
    arguments = ["translate", "--url", shipped.server.grpc_url, "--target-language", "de"]
    arguments.append(TEXTS[0])
    for given in (str(glossary), glossary.read_text("utf-8")):
        printed = cli.prints(*arguments, "--glossary", given, "--prefix", "Ich")
        assert "Kräutertee" in printed
        assert printed.startswith("Ich ")
    assert "temperature is 0.0" in cli.refuses(*arguments, "--temperature", "0")
