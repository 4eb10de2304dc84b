"""A refusal that exists only in the server's processes reaches every client with its fields."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest
from dragoman_client import InvalidRequest, Translator
from dragoman_options.refusal import Refusal
from pyarrow import Table, parquet
from riva.client import Auth, NeuralMachineTranslationClient

from dragoman.cli import main
from tests.gateways import RunningGateway
from tests.servers import Served

TEXTS = ["Good morning.", "A loud text.", "Good night."]
LOUD = Refusal("text 1 is loud: whisper", "made_up", "loudness", 1)


def check_client(url: str) -> None:
    with Translator(url) as translator:
        for ask, refusal in (
            (lambda: translator.translate(TEXTS, target_language="de"), LOUD),
            (lambda: translator.score(TEXTS, ["Guten Morgen.", "Laut.", "Gute Nacht."]), LOUD),
            (
                lambda: list(translator.translate_stream("loud", target_language="de")),
                LOUD.moved(0),
            ),
        ):
            with pytest.raises(InvalidRequest) as caught:
                ask()
            assert Refusal.of(caught.value) == refusal


@pytest.mark.parametrize("door", ["http_url", "grpc_url", "engine_url"])
def test_the_client_has_its_fields(served: Served, door: str) -> None:
    check_client(str(getattr(served.server, door)))


def test_other_clients_read_them_at_the_end_of_the_message(served: Served) -> None:
    status, answer = served.generate({"text_input": TEXTS})
    assert (status, answer["error"]) == (400, str(LOUD))
    message, _, fields = answer["error"].partition(" {")
    assert message == LOUD.message
    assert json.loads("{" + fields) == {
        "kind": "made_up",
        "option": "loudness",
        "text_index": 1,
    }


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_file_is_translated_without_it(served: Served, protocol: str, tmp_path: Path) -> None:
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    source.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    refused: list[tuple[int, str]] = []
    done = getattr(served, protocol).translate_file(
        source,
        target,
        refuse=lambda number, error: refused.append((number, error.kind)),
        target_language="de",
    )
    assert (done.refused, refused) == (1, [(2, "made_up")])
    first, second, third, _ = target.read_text(encoding="utf-8").split("\n")
    assert first
    assert third
    assert not second


def test_commands_name_the_row(
    served: Served,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, rows, folder = (tmp_path / name for name in ("source.txt", "in.parquet", "out"))
    source.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    options = ("--url", served.server.grpc_url, "--target-language", "de")
    main(["translate", *options, "--json", "--input", str(source)])
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["finish_reason"] for line in lines] == ["stop", "refused", "stop"]
    assert "line 2 was refused: text 0 is loud: whisper" in caplog.text
    parquet.write_table(Table.from_pydict({"text": TEXTS}), rows)
    main(["batch", *options, "--input", str(rows), "--output", str(folder)])
    (written,) = folder.glob("*.parquet")
    errors = parquet.read_table(written).column("error").to_pylist()
    assert errors == [None, "the text is loud: whisper", None]


def test_the_client_of_a_gateway_has_its_fields(gateway: RunningGateway) -> None:
    check_client(gateway.url)


@pytest.mark.parametrize("tags", [{}, {"format": "html"}], ids=["plain", "html"])
def test_the_own_api_has_its_fields(gateway: RunningGateway, tags: dict[str, str]) -> None:
    body = {"text": TEXTS, "target_language": "de", **tags}
    error = gateway.post("/api/v1/translate", body).json["error"]
    assert error == {"code": "invalid_input", "message": LOUD.message, **LOUD.fields()}


def test_other_protocols_have_only_the_message(gateway: RunningGateway) -> None:
    body = {"q": TEXTS, "source": "en", "target": "de"}
    assert gateway.post("/translate", body).json == {"error": f"Invalid request: {LOUD.message}"}
    answer = gateway.post("/v2/translate", {"text": TEXTS, "target_lang": "DE"})
    assert answer.json == {"message": LOUD.message}


def test_rivas_protocol_has_them_in_its_metadata(gateway: RunningGateway) -> None:
    client = NeuralMachineTranslationClient(Auth(uri=gateway.riva))
    with pytest.raises(grpc.RpcError) as caught:
        client.translate(TEXTS, "", "en", "de")
    assert caught.value.details() == LOUD.message
    metadata = {field.key: field.value for field in caught.value.trailing_metadata()}
    assert json.loads(metadata["refusal"]) == LOUD.fields()


def test_a_document_is_translated_without_it(gateway: RunningGateway) -> None:
    fields = {"source_language": "en", "target_language": "de"}
    page = "".join(f"<p>{text}</p>" for text in TEXTS)
    job = gateway.upload("/api/v1/documents", "page.html", page, fields).json["id"]
    done = gateway.get(f"/api/v1/documents/{job}?wait_s=60").json
    assert done["state"] == "done"
    document = gateway.get(f"/api/v1/documents/{job}/result").body.decode()
    assert "<p>A loud text.</p>" in document
    assert "Good" not in document
