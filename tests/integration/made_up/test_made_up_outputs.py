"""Outputs that are only lines of the table and functions of the engine are known elsewhere too."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import pytest
from dragoman_options.table import SCORE, STREAM, TRANSLATE
from pyarrow import Table, float64, parquet, string
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from tests.conftest import REPOSITORY
from tests.gateways import RunningGateway
from tests.integration.made_up.conftest import Run
from tests.servers import WAIT_S, Served

TEXTS = ["Good morning.", "I see a dog. The dog sees me!", "Good night, and good luck!"]
OPTION, NUMBER, NAMES = "return_loudness", "loudness", "moods"


def loudness(text: str) -> float:
    return len(text) / 8


def moods(text: str) -> list[str]:
    return [name for name, mark in (("calm", "."), ("loud", "!")) if mark in text]


def check(translation: dict[str, Any], text: str = "text") -> None:
    assert (translation[NUMBER], translation[NAMES]) == (
        loudness(translation[text]),
        moods(translation[text]),
    )
    assert translation[NAMES]


def test_triton_has_it_over_http(served: Served) -> None:
    for text in TEXTS:
        body = {"text_input": text, OPTION: True, "target_language": "de"}
        for answer in (served.generate(body)[1], served.events(**body)[-1]):
            translation = answer["text_output"]
            assert answer[f"{NUMBER}s"] == loudness(translation)
            assert answer[NAMES] == ",".join(moods(translation))
    status, answer = served.generate({"text_input": TEXTS[0], "target_language": "de"})
    assert (status, NAMES in answer, f"{NUMBER}s" in answer) == (200, True, False)
    pair = {"text_input": TEXTS[0], "target_input": "Guten Morgen.", OPTION: True}
    assert served.generate(pair, SCORE)[1][f"{NUMBER}s"] > 0


def test_triton_describes_it(served: Served) -> None:
    with grpc.insecure_channel(served.server.grpc_url.removeprefix("grpc://")) as channel:
        service = GRPCInferenceServiceStub(channel)
        for model in (TRANSLATE, STREAM, SCORE):
            metadata = service.ModelMetadata(service_pb2.ModelMetadataRequest(name=model))
            outputs = [(field.name, field.datatype) for field in metadata.outputs]
            assert (f"{NUMBER}s", "FP32") in outputs
            assert ((NAMES, "BYTES") in outputs) == (model != SCORE)
            assert (OPTION, "BOOL") in [(field.name, field.datatype) for field in metadata.inputs]


CLIENT = f"""
import asyncio, json, sys
from dragoman_client import AsyncTranslator, Translator
url, *texts = sys.argv[1:]
options = {{"source_language": "en", "target_language": "de", "{OPTION}": True}}

async def in_tasks():
    async with AsyncTranslator(url) as translator:
        return await translator.translate(texts, **options)

with Translator(url) as translator:
    whole = translator.translate(texts, **options)
    several = translator.translate(texts, **options, num_return_sequences=2)
    alternatives = [other for best in several for other in (best, *best.alternatives)]
    *_, last = translator.translate_stream(texts[0], **options)
    pair = translator.score(texts[0], whole[0].text, **options)
    plain = translator.translate(texts[0], target_language="de")
assert asyncio.run(in_tasks()) == whole
assert pair.{NUMBER} > 0 and plain.{NUMBER} is None and plain.{NAMES}
translations = [*whole, *alternatives, last]
fields = [vars(translation) | {{"alternatives": None}} for translation in translations]
print(json.dumps(fields))
"""


def check_client(run: Run, url: str) -> None:
    translations = json.loads(run("-c", CLIENT, url, *TEXTS))
    assert len(translations) > 2 * len(TEXTS)
    for translation in translations:
        check(translation)


@pytest.mark.parametrize("door", ["http_url", "grpc_url", "engine_url"])
def test_the_client_has_it(run: Run, served: Served, door: str) -> None:
    check_client(run, getattr(served.server, door))


def test_the_client_of_a_gateway_has_it(run: Run, gateway: RunningGateway) -> None:
    check_client(run, gateway.url)


FAKE = f"""
import sys
from dragoman_client import Translation, Translator
from dragoman_client.testing import FakeServer, FakeTransport

def translate(text):
    return Translation(text, 1, "stop", {NUMBER}=len(text) / 8, {NAMES}=("calm",))

with FakeServer(translate) as server:
    urls = server.grpc_url, server.http_url, server.gateway_url
    for target in (*({{"url": url}} for url in urls), {{"transport": FakeTransport(translate)}}):
        with Translator(**target) as translator:
            for text in sys.argv[1:]:
                answer = translator.translate(text, {OPTION}=True)
                assert (answer.{NUMBER}, answer.{NAMES}) == (len(text) / 8, ("calm",)), target
"""


def test_the_stand_ins_have_it(run: Run) -> None:
    run("-c", FAKE, *TEXTS)


def test_the_own_api_has_it(gateway: RunningGateway) -> None:
    body: dict[str, Any] = {"text": TEXTS, "target_language": "de", "source_language": "en"}
    for store in (True, True, False):  # the second one is answered from the cache
        answer = gateway.post("/api/v1/translate", {**body, OPTION: True, "store": store}).json
        for translation in answer["translations"]:
            check(translation)
        answer = gateway.post("/api/v1/translate", {**body, "store": store}).json
        for translation in answer["translations"]:
            assert translation[NAMES] == moods(translation["text"])
            assert NUMBER not in translation
    events = gateway.post("/api/v1/translate/stream", {**body, "text": TEXTS[1], OPTION: True})
    *_, last = (line for line in events.body.decode().splitlines() if line.startswith("data:"))
    check(json.loads(last.removeprefix("data:")))
    pairs = gateway.post("/api/v1/score", {**body, "target": TEXTS, OPTION: True}).json
    assert all(score[NUMBER] > 0 for score in pairs["scores"])


def test_openapi_describes_it(gateway: RunningGateway) -> None:
    shapes = gateway.get("/api/v1/openapi.json").json["components"]["schemas"]
    described = {name for name, shape in shapes.items() if NUMBER in shape.get("properties", {})}
    assert {"TranslationAnswer", "StreamEvent", "ScoredAnswer"} <= described
    shape = shapes["TranslationAnswer"]["properties"]
    assert shape[NUMBER] == {"type": "number", "description": f"how loud it is; with `{OPTION}`"}
    assert (shape[NAMES]["type"], shape[NAMES]["items"]) == ("array", {"type": "string"})
    assert all(
        OPTION in shapes[name]["properties"] for name in ("TranslateRequest", "ScoreRequest")
    )
    page = urllib.request.urlopen(f"{gateway.url}/api/v1/docs", timeout=WAIT_S).read().decode()
    assert f"<dt><code>{NUMBER}</code> number" in page


@pytest.mark.parametrize("door", ["grpc_url", "http_url"])
def test_lines_of_json_have_it(run: Run, served: Served, door: str, tmp_path: Path) -> None:
    source, pairs = tmp_path / "source.txt", tmp_path / "pairs.tsv"
    source.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    pairs.write_text("Good morning.\tGuten Morgen.\n", encoding="utf-8")
    command = ("-m", "dragoman", "--quiet")
    url = getattr(served.server, door)
    options = ("--url", url, "--target-language", "de", "--return-loudness")
    lines = run(*command, "translate", *options, "--json", "--input", str(source)).splitlines()
    assert len(lines) == len(TEXTS)
    for line in lines:
        check(json.loads(line), "translation")
    line = json.loads(run(*command, "score", *options, "--json", "--tsv", str(pairs)))
    assert line[NUMBER] > 0
    assert line["score"] < 0


def test_a_bundle_scores_it(run: Run, served: Served, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("Good morning.\tGuten Morgen.\n", encoding="utf-8")
    command = ("-m", "dragoman", "--quiet", "score", "--json", "--return-loudness")
    by_server = run(*command, "--url", served.server.grpc_url, "--tsv", str(pairs))
    bundle = str(REPOSITORY / "model_repository" / "translate" / "1" / "bundle")
    by_bundle = run(*command, bundle, "--tsv", str(pairs))
    assert json.loads(by_bundle)[NUMBER] == json.loads(by_server)[NUMBER] > 0


def test_columns_of_parquet_have_it(run: Run, served: Served, tmp_path: Path) -> None:
    parquet.write_table(Table.from_pydict({"text": TEXTS}), tmp_path / "in.parquet")
    files = ("--input", str(tmp_path / "in.parquet"), "--output", str(tmp_path / "out"))
    options = ("--field", "text", "--target-language", "de", "--return-loudness")
    url = ("--url", served.server.grpc_url)
    run("-m", "dragoman", "--quiet", "batch", *url, *files, *options)
    (written,) = (tmp_path / "out").glob("*.parquet")
    table = parquet.read_table(written)
    assert table.schema.field(NUMBER).type == float64()
    assert table.schema.field(NAMES).type == string()
    for row in table.to_pylist():
        check(row | {NAMES: json.loads(row[NAMES])}, "translation")


def test_the_documentation_has_it(run: Run) -> None:
    lines = run("-m", "dragoman_options").splitlines()
    assert [line for line in lines if "loud" in line] == [
        "| `volume` | whole number | as ever | 1 to 3 | all | how loud; not with `patience` |",
        f"| `{OPTION}` | switch | false |  | all | return how loud it is |",
        f"| `{NUMBER}s` | `{NUMBER}` | FP32 | translate, translate_stream, score | "
        f"with `{OPTION}` | how loud it is |",
    ]
