"""The parts of the command line that other tests do not run: evaluation, verification, errors."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import shutil
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import dragoman_client
import pytest
from dragoman_client import Translation
from dragoman_client.retrying import DEFAULT_RETRIES
from dragoman_serving.engine.compiled.cpu import exact_int8_products
from dragoman_serving.launch import launcher, stop_signals

from dragoman.cli import COMMANDS, GROUPS, main
from dragoman.commands.shared.options import read_terms
from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from tests.conftest import REPOSITORY, CommandLine
from tests.toy import reverse_pairs, write_pairs

SHIPPED = REPOSITORY / "model_repository/translate/1/bundle"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    write_pairs(tmp_path / "held", reverse_pairs(6, seed=5), ("en", "de"))
    return tmp_path


def test_evaluate_reports_both_directions(
    text: Path, random_checkpoint: Callable[[str], Path], cli: CommandLine
) -> None:
    words = ["evaluate", str(random_checkpoint("post")), "--data-dir", str(text), "--test", "held"]
    rows = cli.rows(*words, "--json", "--out", text / "out")
    assert [row["direction"] for row in rows] == ["en-de", "de-en"]
    assert all(row["sentences"] == 6 and row["bleu_signature"] for row in rows)
    assert len((text / "out" / "held.de-en.txt").read_text().splitlines()) == 6
    assert "held en-de: BLEU" in cli.prints(*words, "--beam-width", "1")


def test_evaluate_uses_the_directions_of_model_and_text(
    tmp_path: Path, three_languages: Path, cli: CommandLine
) -> None:
    write_pairs(tmp_path / "en-de", reverse_pairs(3, seed=5), ("en", "de"))
    write_pairs(tmp_path / "all", reverse_pairs(3, seed=5), ("en", "de"))
    write_pairs(tmp_path / "all", reverse_pairs(3, seed=5), ("fr", "de"))
    words = ["evaluate", str(three_languages), "--data-dir", str(tmp_path), "--json"]
    words += ["--beam-width", "1", "--test", "en-de", "--test", "all"]

    def evaluated(*more: str) -> list[tuple[str, str]]:
        rows = cli.rows(*words, *more)
        return [(row["test"], row["direction"]) for row in rows]

    both = [("en-de", "en-de"), ("en-de", "de-en")]
    whole = [("all", name) for name in ("en-de", "de-en", "de-fr", "fr-de")]
    assert evaluated("--runtime", "engine") == evaluated() == [*both, *whole]
    assert evaluated("--direction", "de-en") == [("en-de", "de-en"), ("all", "de-en")]
    assert "--direction en-fr: the model knows en-de, de-en" in cli.refuses(
        *words, "--direction", "en-fr"
    )
    assert "none.de, ...: give the name without the language" in cli.refuses(
        *words, "--test", "none"
    )


def test_verify_compares_every_direction(
    tmp_path: Path, three_languages: Path, cli: CommandLine
) -> None:
    for name, languages in (("en-de", ("en", "de")), ("de-fr", ("de", "fr"))):
        write_pairs(tmp_path / name, reverse_pairs(3, seed=5), languages)
    words = ["verify", str(three_languages), "--data-dir", str(tmp_path), "--sentences", "4"]
    assert "sentences: 8 compared" in cli.prints(*words, "--test", "en-de", "--test", "de-fr")


def test_both_runtimes_give_the_same_evaluation(text: Path, cli: CommandLine) -> None:
    words = ["evaluate", str(SHIPPED), "--data-dir", str(text), "--test", "held", "--json"]
    words += ["--precision", "fp32"]
    printed = []
    for runtime in ("torch", "engine"):
        printed.append(cli.prints(*words, "--runtime", runtime))
    assert printed[0] == printed[1]


def test_text_that_the_engine_refuses_is_reported_before_the_work(
    text: Path, random_bundle: Path, cli: CommandLine
) -> None:
    words = ["evaluate", str(random_bundle), "--data-dir", str(text), "--runtime", "engine"]
    pairs = reverse_pairs(3, seed=5)
    write_pairs(text / "long", [*pairs, ("red " * 1000, "blue")], ("en", "de"))
    assert "long: sentence 4 in 'en' has " in cli.refusal(
        *words, "--test", "held", "--test", "long"
    )


def test_an_unwritable_result_of_evaluate_is_reported_in_one_line(
    text: Path, random_bundle: Path, tmp_path: Path, cli: CommandLine
) -> None:
    words = ["evaluate", str(random_bundle), "--data-dir", str(text), "--test", "held"]
    words += ["--first", "1", "--beam-width", "1", "--out", str(text)]
    (text / "held.en-de.txt").mkdir()
    assert "held.en-de.txt is a folder: name a file" in cli.refusal(*words)
    (text / "held.en-de.txt").rmdir()
    (text / "held.en-de.txt").write_text("precious")
    assert "held.en-de.txt exists: give --force to replace it" in cli.refusal(*words)
    assert (text / "held.en-de.txt").read_text() == "precious"
    assert main([*words, "--force"]) == 0
    assert (text / "held.en-de.txt").read_text() != "precious"
    bundle = shutil.copytree(random_bundle, tmp_path / "bundle")
    (bundle / ".manifest.json.partial").mkdir()
    before = Manifest.load(bundle)
    with pytest.raises(UsageError, match="bundle: cannot be written: Is a directory"):
        before.record(bundle, {"BLEU": 1.0})
    assert Manifest.load(bundle) == before


def test_verify_prints_each_check_and_passes(
    text: Path, random_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = shutil.copytree(random_bundle, tmp_path / "bundle")
    words = ["verify", str(bundle), "--data-dir", str(text), "--test", "held"]
    assert main([*words, "--record"]) == 0
    recorded = Manifest.load(bundle)
    assert recorded.measured["verify: failed checks"] == 0.0
    assert recorded.checked_with_exact_int8 == exact_int8_products()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 32
    skipped = [line for line in lines if not line.startswith("ok ")]
    assert len(skipped) == (0 if exact_int8_products() else 4)
    assert all(line.startswith("skip") and "not comparable on this CPU" in line for line in skipped)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "--test", ""], "'.' names no text"),
        (["evaluate", "--test", "held", "--first", "0"], "--first 0: give 1 or more"),
        (["evaluate", "--test", "held", "--out", "held.en/x"], "held.en is a file"),
        (["evaluate", "--test", "held", "--out", "/proc/x"], "--out /proc/x: cannot be written"),
        (["evaluate", "--test", "held", "--record", "--first", "2"], "leave out --first"),
        (["evaluate", "--test", "held", "--record", "--length-penalty", "1"], "leave out --length"),
        (["evaluate", "--test", "en-fr"], "en-fr: is in en, fr, which none of en-de, de-en"),
        (["verify", "--test", "en-fr"], "en-fr: is in en, fr, which none of en-de, de-en"),
        (["verify", "--test", "blank"], "blank: every pair has an empty side"),
        (["verify", "--test", "held", "--sentences", "0"], "--sentences 0: give 1 or more"),
    ],
)
def test_unusable_text_and_numbers_are_refused(
    words: list[str],
    message: str,
    text: Path,
    three_languages: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: CommandLine,
) -> None:
    write_pairs(text / "en-fr", reverse_pairs(3, seed=5), ("en", "fr"))
    write_pairs(text / "blank", [("one", " "), ("", "two")], ("en", "de"))
    monkeypatch.chdir(text)
    before = (three_languages / "manifest.json").read_bytes()
    assert message in cli.refusal(words[0], str(three_languages), *words[1:])
    assert (three_languages / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "none", "--test", "x"],
        ["export", "onnx", "none", "--out", "y"],
        ["verify", "none", "--test", "x"],
        ["publish", "none", "--to", "y"],
        ["serve", "--repository", "none"],
        ["serve", "--engines", "0"],
        ["demo", "--repository", "none"],
        ["translate", "--url", "ftp://nonsense", "text"],
    ],
)
def test_a_users_error_is_reported_in_one_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.refusal(*words).startswith(f"dragoman {words[0]}: ")


@dataclasses.dataclass(frozen=True)
class Served:
    """A server, and a client of it, for a model with these directions."""

    directions: tuple[tuple[str, str], ...]
    http_url = "http://server"
    grpc_url = "grpc://server"

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def info(self) -> Served:
        return self

    def translate(
        self, texts: Sequence[str], source_language: str, target_language: str
    ) -> list[Translation]:
        return [Translation(f"{source_language}-{target_language}", 1, "stop") for _ in texts]


def demonstrate(monkeypatch: pytest.MonkeyPatch, served: Served) -> int:
    monkeypatch.setattr(stop_signals, "stop_on_signals", lambda: None)
    monkeypatch.setattr(launcher, "TritonServer", lambda _options: served)
    monkeypatch.setattr(dragoman_client, "Translator", lambda _url: served)
    return main(["demo", "--repository", "mine"])


def test_a_demonstration_shows_the_directions_for_which_it_has_sentences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served = Served((("it", "en"), ("en", "it"), ("de", "en")))
    assert demonstrate(monkeypatch, served) == 0
    printed = capsys.readouterr().out.splitlines()
    shown = [line.strip() for line in printed if not line.startswith("  ") or line[2:4] == "  "]
    lines = ["en-it"] * 10 + ["de-en"] * 10
    assert shown == ["", served.http_url, *lines, "", served.grpc_url, *lines]


@pytest.mark.parametrize("direction", [("it", "es"), ("it", "en")])
def test_a_demonstration_without_sentences_is_refused_in_one_line(
    direction: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There may be no sentences in the model's languages, or only in target languages."""
    assert demonstrate(monkeypatch, Served((direction,))) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "dragoman demo: mine: the model translates none of this command's sentences (en, de, fr): "
        "give your own to dragoman translate\n"
    )


@pytest.mark.parametrize(
    "written",
    ['{"tea": "Tee"}', '\n {\n\t"tea": "Tee"\n}\n', "tea\tTee\n", "tea,Tee", '"tea";Tee\r\n'],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_glossary_is_json_or_a_file(tmp_path: Path, written: str, encoding: str) -> None:
    file = tmp_path / "terms"
    file.write_text(written, encoding=encoding)
    assert read_terms(str(file), "--glossary") == {"tea": "Tee"}
    if "{" in written:
        assert read_terms(written, "--glossary") == {"tea": "Tee"}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('{"tea": "Tee"', "terms: not valid JSON: "),
        ("{" * 100_000, "terms: not valid JSON: "),
        ("tea\tTee\ntea", "terms: line 2: not a source term, a tab and a target term"),
        ('["tea"]', "terms: line 1: not a source term, a comma and a target term"),
        ("tea,Tee\ntea,Tea", "terms: line 2: 'tea' has two target terms: remove one"),
    ],
)
def test_an_invalid_glossary_is_named(tmp_path: Path, written: str, message: str) -> None:
    file = tmp_path / "terms"
    file.write_text(written)
    with pytest.raises(UsageError, match=re.escape(message)):
        read_terms(str(file), "--glossary")
    with pytest.raises(UsageError, match="--glossary nowhere: cannot be read"):
        read_terms("nowhere", "--glossary")


def test_a_byte_order_mark_is_not_scored(
    tmp_path: Path, random_bundle: Path, cli: CommandLine
) -> None:
    rows = []
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / encoding).write_text("red\tblue\ngreen\tpink\n", encoding=encoding)
        words = ["score", random_bundle, "--tsv", tmp_path / encoding, "--target-language", "de"]
        rows.append(cli.rows(*words, "--json"))
    assert rows[0] == rows[1]
    assert [row["source"] for row in rows[1]] == ["red", "green"]


def test_pairs_with_an_empty_side_are_named_and_the_others_scored(
    tmp_path: Path,
    random_bundle: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "pairs").write_text("red\tblue\ngreen\t\n\t\n \tpink\n", encoding="utf-8")
    words = ["score", str(random_bundle), "--tsv", str(tmp_path / "pairs"), "--batch-size", "2"]
    assert main(words) == 1
    lines = capsys.readouterr().out.split("\n")
    assert [bool(line.strip()) for line in lines] == [True, False, True, False, False]
    assert {line.count("\t") for line in lines[:-1]} == {2}
    assert "line 2: the target is empty, so it has no score" in caplog.text
    assert "line 4: the source is empty, so it has no score" in caplog.text
    assert "2 of 4 pairs have an empty side and were not scored" in caplog.text
    assert main([*words, "--json"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row.get("error") for row in rows] == [
        *(None, "the target is empty", None, "the source is empty")
    ]
    assert ["score" in row for row in rows] == [True, False, True, False]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_text(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert "--help" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tranlate", "x"], "dragoman: unknown command tranlate: did you mean translate?"),
        (["xyz"], "dragoman: unknown command xyz: `dragoman -h` lists the commands"),
        (
            ["translate", "--target-langage=de", "x"],
            "dragoman translate: unknown option --target-langage: did you mean --target-language?",
        ),
        (
            ["export", "onnx", "x", "--out", "y", "--storge", "fp16"],
            "dragoman export: unknown option --storge: did you mean --storage?",
        ),
        (
            ["translate", "--language", "de", "x"],
            "dragoman translate: unknown option --language: "
            "did you mean --source-language or --target-language?",
        ),
        (
            ["serve", "--host", "0.0.0.0"],
            "dragoman serve: unknown option --host: did you mean --address or --gateway-address?",
        ),
        (
            ["gateway", "--gateway-port", "80"],
            "dragoman gateway: unknown option --gateway-port: did you mean --port?",
        ),
        (["doctor", "--xyz"], "dragoman doctor: unknown option --xyz: see --help"),
        (
            ["attention", "Good", "morning.", "--out", "x.html"],
            "dragoman attention: unexpected argument 'morning.': put quotes around",
        ),
    ],
)
def test_a_misspelt_word_is_named_with_a_suggestion(
    words: list[str], message: str, cli: CommandLine
) -> None:
    assert cli.refuses(*words).startswith(message)


@pytest.mark.parametrize("scheme", ["", "http://", "grpc://"])
@pytest.mark.parametrize("command", ["translate", "load-test"])
def test_a_missing_server_is_named_with_a_fix(
    command: str, scheme: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"{scheme}127.0.0.1:{taken.getsockname()[1]}"
    words = {"translate": ["x", "--retries", "0"], "load-test": ["--target-language", "de"]}
    assert main([command, *words[command], "--url", url]) == 1
    message = f"dragoman {command}: no Dragoman server at {url}: start one with `dragoman serve`"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("words", [["publish"], ["export", "tensorrt"]])
def test_a_checkpoint_in_place_of_a_bundle_is_recognized(
    words: list[str], tmp_path: Path, cli: CommandLine
) -> None:
    (tmp_path / "model.safetensors").touch()
    rest = ["--to", str(tmp_path / "out")] if words == ["publish"] else []
    message = f"{tmp_path} is a checkpoint, not a bundle: run `dragoman export onnx {tmp_path}"
    assert message in cli.refusal(*words, str(tmp_path), *rest)


def test_the_help_lists_every_command_by_group(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert all(f"\n  {name} " in printed for name in COMMANDS)
    assert all(f"\n{title}, such as: dragoman " in printed for title in GROUPS)


def test_the_output_is_utf_8_in_every_locale(
    tmp_path: Path, random_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pairs").write_text("Good morning.\tGrüß Gott", encoding="utf-8")
    written = io.BytesIO()
    with io.TextIOWrapper(written, encoding="ascii") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        words = ["score", str(random_bundle), "--tsv", str(tmp_path / "pairs"), "--json"]
        assert main(words) == 0
        stdout.flush()
        assert json.loads(written.getvalue().decode("utf-8"))["target"] == "Grüß Gott"


def test_an_output_that_is_switched_off_is_not_printed(
    tmp_path: Path, random_bundle: Path, capsys: pytest.CaptureFixture[str], cli: CommandLine
) -> None:
    (tmp_path / "pairs").write_text("red\tblue\n")
    words = ["score", str(random_bundle), "--tsv", str(tmp_path / "pairs"), "--json"]
    for flags, names in (
        ((), {"token_scores"}),
        (("--no-return-token-scores", "--no-return-bundle"), set()),
        (("--return-bundle", "--return-alignments", "soft"), {"token_scores", "bundle"}),
    ):
        code = main([*words, *flags])
        printed = capsys.readouterr()
        if "soft" in flags:  # the bundle names no alignment heads
            assert code == 2
            assert "return_alignments: the bundle has no alignment heads" in printed.err
            continue
        row = json.loads(printed.out)
        assert set(row) - {"source", "target", "score", "confidence", "perplexity"} == names
    assert "--return-bundle: only --json shows it" in cli.refusal(*words[:-1], "--return-bundle")
    assert main([*words[:-1], "--no-return-bundle"]) == 0


@pytest.mark.parametrize("command", ["translate", "batch"])
def test_the_help_names_the_default_of_retries(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert f"server is available (default: {DEFAULT_RETRIES})" in printed


def test_an_empty_cache_of_models_says_how_to_fill_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["models", "list"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "no cached models; add one with dragoman models add NAME\n"
