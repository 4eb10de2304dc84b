"""Input as people type it: texts without words are handled the same way by every interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dragoman_client import AsyncTranslator, Translation
from dragoman_options.arguments import OptionArguments
from dragoman_options.refusal import Refusal

from tests.conftest import CommandLine
from tests.exchanges import send
from tests.servers import Served

HUNGRY = "Ich habe Hunger."
EMPTY = Translation("", 0, "stop")
BLANK = Translation(" ", 0, "stop")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_an_empty_text_is_an_empty_translation(shipped: Served, protocol: str) -> None:
    client = getattr(shipped, protocol)
    assert client.translate(["", " "]) == [EMPTY, BLANK]
    translations = client.translate(["I'm hungry.", "", "I'm hungry."], num_return_sequences=2)
    assert [translation.text for translation in translations] == [HUNGRY, "", HUNGRY]
    assert translations[1] == EMPTY  # without alternatives, since they would be the same
    assert list(client.translate_stream(" ")) == [BLANK]
    requested = client.translate(
        ["", "I'm hungry."],
        return_scores=True,
        return_token_scores=True,
        return_confidence=True,
        return_alignments="hard",
        return_attention=True,
    )[0]
    assert (requested.score, requested.confidence) == (0.0, 0.0)
    assert requested.token_scores.tokens == requested.alignments.links == ()
    assert requested.attention.cross.shape[2:] == (0, 0)
    score = client.score(["I'm hungry.", ""], [HUNGRY, " "], target_language="de")[1]
    assert (score.score, score.confidence, score.perplexity) == (0.0, 0.0, 1.0)
    async with AsyncTranslator(getattr(shipped.server, f"{protocol}_url")) as translator:
        assert await translator.translate(["", " "]) == [EMPTY, BLANK]


def test_a_text_without_words_without_a_client(shipped: Served) -> None:
    for text in ("", " \n\t "):
        status, answer = shipped.generate({"text_input": text})
        assert (status, answer["text_output"], answer["finish_reason"]) == (200, text, "stop")
        first, last = shipped.events(text_input=text)
        assert (first["text_output"], first["finish_reason"]) == ("", "")
        assert (last["text_output"], last["finish_reason"]) == (text, "stop")


def test_empty_lines_of_files(shipped: Served, tmp_path: Path, cli: CommandLine) -> None:
    server = ("--url", shipped.server.grpc_url, "--target-language", "de")
    assert cli.prints("translate", *server, "I'm hungry.", "", " ") == f"{HUNGRY}\n\n \n"
    source = tmp_path / "source.jsonl"
    source.write_text('{"text": " "}\n{"text": "I\'m hungry."}\n')
    words = ("--input", str(source), "--format", "jsonl", "--return-scores")
    rows = cli.rows("translate", *server, *words)
    assert [(row["translation"], row["finish_reason"]) for row in rows] == [
        (" ", "stop"),
        (HUNGRY, "stop"),
    ]
    assert rows[0]["score"] == 0.0 > rows[1]["score"]


@pytest.mark.parametrize("code", ["DE", "de-DE", "de_AT", "De"])
def test_language_codes_are_normalized(shipped: Served, code: str, cli: CommandLine) -> None:
    options = OptionArguments(source_language="en_US", target_language=code)
    for client in (shipped.grpc, shipped.http):
        assert client.translate("I'm hungry.", **options).text == HUNGRY
        assert list(client.translate_stream("I'm hungry.", **options))[-1].text == HUNGRY
        exact = client.score("I'm hungry.", HUNGRY, target_language="de")
        assert client.score("I'm hungry.", HUNGRY, target_language=code) == exact
    status, answer = shipped.generate({"text_input": "I'm hungry.", "target_language": code})
    assert (status, answer["text_output"]) == (200, HUNGRY)
    for where in (("--url", shipped.server.http_url), ("--url", shipped.server.grpc_url)):
        assert (
            cli.prints("translate", *where, "--target-language", code, "I'm hungry.")
            == f"{HUNGRY}\n"
        )


def test_a_url_may_lack_its_scheme(
    shipped: Served, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port other than Triton's usual gRPC port means HTTP; the error names gRPC there."""
    words = ("--target-language", "de", "I'm hungry.")
    server = shipped.server
    http, grpc = (url.partition("://")[2] for url in (server.http_url, server.grpc_url))
    monkeypatch.setenv("DRAGOMAN_URL", http)
    assert cli.prints("translate", *words) == f"{HUNGRY}\n"
    load = ("--windows", "1", "--window-s", "1", "--warm-up-s", "0.1", "--concurrency", "1")
    for command in (("translate", *words), ("load-test", *load)):
        assert cli.refuses(command[0], "--url", grpc, *command[1:], code=1) == (
            f"dragoman {command[0]}: {grpc}: {grpc} speaks gRPC, not HTTP: write grpc://{grpc}\n"
        )


def infer(served: Served, texts: list[str], **options: list[str]) -> tuple[int, Any]:
    """The answer to a request whose texts and options are rows."""

    def rows(name: str, values: list[str]) -> dict[str, Any]:
        return {"name": name, "shape": [len(values), 1], "datatype": "BYTES", "data": values}

    inputs = [rows("text_input", texts), *(rows(*option) for option in options.items())]
    body = {"inputs": inputs, "outputs": [{"name": "text_output"}]}
    answer = send(f"{served.server.http_url}/v2/models/translate/infer", body)
    if answer.status != 200:
        return answer.status, answer.json["error"]
    (output,) = answer.json["outputs"]
    return 200, (output["shape"], output["data"])


@pytest.mark.parametrize(
    ("text", "kind"),
    [("b" * 200_000, "too_large"), ("今日はとても良い天気ですね。", "language")],
    ids=["long", "japanese"],
)
def test_a_refused_row_is_named_by_its_index_in_the_request(
    shipped: Served, text: str, kind: str
) -> None:
    texts = ["I'm hungry.", "Wo ist Tom?", "Tea.", text]
    languages = {
        "source_language": ["auto", "de", "en", "auto"],
        "target_language": ["de", "en", "de", "de"],
    }
    status, error = infer(shipped, texts, **languages)
    refusal = Refusal.parse(error)
    assert (status, refusal.kind, refusal.text_index) == (400, kind, 3)
    assert refusal.message.startswith("text 3 ")


def test_each_row_may_have_its_own_languages(shipped: Served) -> None:
    texts = ["I'm hungry.", "Wo ist Tom?", "I'm hungry."]
    sources, targets = ["en", "de", "en"], ["de", "en", "fr"]
    answer = infer(shipped, texts, source_language=sources, target_language=targets)
    alone = [
        shipped.grpc.translate(text, source_language=source, target_language=target).text
        for text, source, target in zip(texts, sources, targets, strict=True)
    ]
    assert answer == (200, ([3, 1], alone))
    assert len({*alone}) == 3
    same = infer(shipped, texts[::2], target_language=["de", "de"])
    assert same == (200, ([2, 1], [alone[0]] * 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_language": ["de", "fr"]}, "batch size does not match"),
        ({"target_language": ["de", "fr", "xx"]}, "target_language 'xx' is unknown"),
        ({"source_language": ["en", "en", "de"], "target_language": ["de"] * 3}, "both 'de'"),
    ],
)
def test_rows_with_unusable_languages_are_refused(
    shipped: Served, options: dict[str, list[str]], message: str
) -> None:
    status, error = infer(shipped, ["I'm hungry.", "Tea.", "Tea."], **options)
    assert status == 400
    assert message in error
