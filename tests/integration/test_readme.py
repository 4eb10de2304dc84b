"""The examples of the README and of other pages, run against the shipped model unchanged."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from dragoman_client.protoset import protoset
from dragoman_load_test.requests.messages import INFER
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from tritonclient.grpc import service_pb2

from dragoman.kernel.manifest import Manifest
from tests.conftest import REPOSITORY, CommandLine
from tests.doc_examples import blocks_with, run, run_code
from tests.servers import Served


def here(code: str, served: Served) -> str:
    """An example with this server's ports instead of the usual ones."""
    ports = served.server.ports
    return code.replace("localhost:8000", f"localhost:{ports.http}").replace(
        "localhost:8001", f"localhost:{ports.grpc}"
    )


def printed_by(language: str, code: str, served: Served) -> str:
    """What an example prints with this server."""
    return run_code(language, here(code, served))


def in_shell(code: str, folder: Path, served: Served) -> str:
    """Run commands in a folder, with this server as the default one."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return run(["bash", "-ec", code], folder, PATH=path, DRAGOMAN_URL=served.server.grpc_url)


@pytest.fixture
def in_process(
    shipped: Served, tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], str]:
    """Runs lines of `dragoman` commands like `in_shell`, but imports what they need only once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGOMAN_URL", shipped.server.grpc_url)

    def run_lines(code: str) -> str:
        commands = [shlex.split(line) for line in code.splitlines()]
        assert all(command[0] == "dragoman" for command in commands)
        return "".join(cli.prints(*words) for _, *words in commands)

    return run_lines


def test_python(shipped: Served) -> None:
    (code,) = blocks_with("python", "Translator", "README.md")
    printed = printed_by("python", code, shipped).splitlines()
    assert len(printed) == 3
    assert printed[1].endswith("stop")


def test_curl(shipped: Served) -> None:
    for code in blocks_with("sh", "localhost:8000", "docs/triton.md"):
        answer = json.loads(printed_by("sh", code, shipped))
        assert answer["text_output"]
        assert answer["finish_reason"]


def test_scoring(shipped: Served) -> None:
    """The examples of docs/scoring.md."""
    commands = blocks_with("sh", "", "docs/scoring.md")
    assert len(commands) == 2
    for code in commands:
        assert json.loads(printed_by("sh", code, shipped))["confidences"] < 0
    own, given = blocks_with("python", "", "docs/scoring.md")
    tokens, links = printed_by("python", own, shipped).splitlines()
    assert tokens.startswith("('▁G', 'uten', ")
    assert links.endswith(" 0-0 1-1 2-2")
    printed = printed_by("python", given, shipped).splitlines()
    morning, evening = ([float(word) for word in line.split()] for line in printed)
    for score, confidence, perplexity in (morning, evening):
        assert score < confidence < 0
        assert perplexity == pytest.approx(math.exp(-confidence), rel=1e-5)
    assert morning[1] > evening[1]  # "Guten Abend." is no translation of "Good morning."


def test_markup(shipped: Served) -> None:
    """The examples of docs/markup.md, with their output."""
    text = (REPOSITORY / "docs" / "markup.md").read_text(encoding="utf-8")
    (code,) = blocks_with("python", "", "docs/markup.md")
    assert f"```\n{printed_by('python', code, shipped).strip()}\n```" in text
    (command,) = blocks_with("sh", "", "docs/markup.md")
    assert json.loads(json.loads(printed_by("sh", command, shipped))["codes"])["codes"]


def test_options(shipped: Served) -> None:
    """The examples of docs/options.md."""
    for code in blocks_with("sh", "", "docs/options.md"):
        texts = json.loads(printed_by("sh", code, shipped))["text_output"]
        if "seed" in code:
            again = json.loads(printed_by("sh", code, shipped))["text_output"]
            assert texts == again != ""
        else:
            assert [text.split()[0] for text in texts] == ["Ich"] * 3
            assert len({text.split()[1] for text in texts}) == 3
    for code in blocks_with("python", "", "docs/options.md"):
        printed = printed_by("python", code, shipped).splitlines()
        assert "Kamillentee" in printed[0]
        assert "{name}" in printed[1]
        assert len(printed) == 5


def test_attention(shipped: Served, tmp_path: Path, in_process: Callable[[str], str]) -> None:
    """The commands and the example of docs/attention.md."""
    (code,) = blocks_with("console", "--out attention.html", "docs/attention.md")
    in_process(code)
    assert "▁animal" in (tmp_path / "attention.html").read_text(encoding="utf-8")
    (example,) = blocks_with("python", "dragoman_client", "docs/attention.md")
    printed = printed_by("python", example, shipped)
    assert printed.startswith("('<2de>', '▁Good', ")
    bundle = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"
    sizes = Manifest.load(bundle).dimensions
    assert printed.rstrip().endswith(f"({sizes.decoder_layers}, {sizes.heads}, 5, 5)")
    (code,) = blocks_with("console", "--figure positions", "docs/attention.md")
    printed = in_process(code.replace("my-bundle", str(bundle)))
    assert printed.split() == ["house.svg", "all.pdf", "positions.svg", "architecture.svg"]


def test_translate_command(shipped: Served, tmp_path: Path) -> None:
    (code,) = blocks_with("sh", "dragoman translate", "README.md")
    (tmp_path / "german.txt").write_text("Ich habe Hunger.\n\nGute Nacht.\n", encoding="utf-8")
    assert len(in_shell(code, tmp_path, shipped).splitlines()) == 2
    hungry, blank, _ = (tmp_path / "english.txt").read_text(encoding="utf-8").splitlines()
    assert (hungry, blank) == ("I'm hungry.", "")


def test_files_with_ids(shipped: Served, tmp_path: Path) -> None:
    (code,) = blocks_with("console", "--format jsonl", "docs/translate.md")
    (tmp_path / "english.jsonl").write_text('{"id": 7, "text": "Good morning."}\n')
    in_shell(code, tmp_path, shipped)
    row = json.loads((tmp_path / "german.jsonl").read_text(encoding="utf-8"))
    assert (row["id"], row["translation"]) == (7, shipped.grpc.translate("Good morning.").text)
    assert "Morgen" in row["translation"]


def test_books(shipped: Served, tmp_path: Path) -> None:
    (code,) = blocks_with("console", "--format document", "docs/translate.md")
    (tmp_path / "book.txt").write_text("# Hello.\n\n  I'm hungry.\n")
    in_shell(code, tmp_path, shipped)
    translated = (tmp_path / "german.txt").read_text(encoding="utf-8")
    assert translated.endswith("\n\n  Ich habe Hunger.\n")
    assert translated.startswith("# ")


def test_load_test(tmp_path: Path, in_process: Callable[[str], str]) -> None:
    (code,) = blocks_with("console", "--html report.html", "docs/load-test.md")
    (tmp_path / "english.txt").write_text("Good morning.\n")
    briefly = "--warm-up-s 0.1 --window-s 0.15 --windows 2 --metrics-url none"
    printed = in_process(f"{code.splitlines()[0]} {briefly}")
    assert printed.count("concurrency") == 3
    assert "<svg" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_grpcurl(shipped: Served, tmp_path: Path) -> None:
    """The example is run if grpcurl is installed; otherwise only its message is sent."""
    (code,) = blocks_with("console", "grpcurl", "client/README.md")
    if shutil.which("grpcurl"):
        answer = json.loads(in_shell(here(code, shipped), tmp_path, shipped))
        raw = base64.b64decode(answer["rawOutputContents"][0])
    else:
        files = descriptor_pb2.FileDescriptorSet.FromString(protoset())
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        (service,) = files.file[1].service
        assert f"{files.file[1].package}.{service.name}/ModelInfer" in code
        kind = pool.FindMessageTypeByName("inference.ModelInferRequest")
        message = message_factory.GetMessageClass(kind)()
        json_format.Parse(code[code.index("{") : code.rindex("}") + 1], message)
        with grpc.insecure_channel(shipped.server.grpc_url.removeprefix("grpc://")) as channel:
            call = channel.unary_unary(INFER)
            raw = service_pb2.ModelInferResponse.FromString(
                call(message.SerializeToString())
            ).raw_output_contents[0]
    assert raw[4:].decode() == shipped.grpc.translate("Good morning.").text
    assert b"Morgen" in raw


@pytest.mark.parametrize("target", ["serve", "test", "demo", "docs", "help"])
def test_make_has_the_targets(target: str) -> None:
    assert f"make {target}" in (REPOSITORY / "README.md").read_text(encoding="utf-8")
    printed = run(["make", "-C", str(REPOSITORY), "help"])
    assert re.search(rf"^{target}\s+\S", printed, re.MULTILINE)
