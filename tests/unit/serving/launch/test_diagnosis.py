from __future__ import annotations

import socket
from pathlib import Path

import pytest
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.cpu import exact_int8_products, has_instruction_set
from dragoman_serving.launch import diagnosis

from dragoman.cli import main
from tests.conftest import CommandLine


def test_missing_requirements_are_reported_with_the_fix() -> None:
    both = diagnosis._runtime("1.31.1", "1.31.1")
    assert (both.severity, "overwrite" in both.text) == ("missing", True)
    assert "pip uninstall" in both.fix
    assert diagnosis._runtime(None, None).severity == "missing"
    assert diagnosis._runtime("1.31.1", None).severity == "ok"
    assert diagnosis._glibc(("glibc", "2.31")).severity == "missing"
    assert diagnosis._glibc(("glibc", "2.35")).severity == "ok"
    assert diagnosis._glibc(("", "")).severity == "missing"


def test_the_processor_is_read_from_its_flags(tmp_path: Path) -> None:
    def cpuinfo(flags: str) -> Path:
        path = tmp_path / flags  # a processor's flags do not change
        path.write_text(f"flags : fpu {flags}\n")
        return path

    assert not exact_int8_products(tmp_path / "missing")
    assert not exact_int8_products(cpuinfo("avx512f avx2"))
    assert exact_int8_products(cpuinfo("avx512_vnni"))
    names = ("avx512vnni", "avxvnni", "avx2", "neon", "c")
    has = [has_instruction_set(name, cpuinfo("avx2 fma f16c avx_vnni")) for name in names]
    assert has == [False, True, True, False, True]


@pytest.mark.parametrize(
    ("chosen", "severity", "text"),
    [
        ("avx2", "ok", "the engine is compiled for this CPU: avx2"),
        ("c", "slow", "not for this CPU's vector instructions"),
        (None, "missing", "the engine's compiled code"),
    ],
)
def test_the_instruction_set_is_named(
    chosen: str | None, severity: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "choose_instruction_set", lambda: chosen)
    finding = diagnosis._native()
    assert finding.severity == severity
    assert text in finding.text


def test_an_unusable_instruction_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_ISA", "sse9")
    finding = diagnosis._native()
    assert finding.severity == "missing"
    assert finding.text == "DRAGOMAN_ISA is 'sse9': give one of avx512vnni, avxvnni, avx2, neon, c"


def test_the_relay_must_be_compiled() -> None:
    relay = diagnosis._relay(compiled=False)
    assert (relay.severity, "compiler" in relay.fix) == ("missing", True)
    assert diagnosis._relay(compiled=True).severity == "ok"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ports", "70000"], "port 70000: give 1 to 65535"),
        (["--address", "192.0.2.1"], "192.0.2.1, port 8000: "),
    ],
)
def test_an_unusable_address_is_not_reported_as_a_port_in_use(
    words: list[str], message: str, cli: CommandLine
) -> None:
    assert message in cli.refusal("doctor", *words)


def test_the_command_prints_one_line_for_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["doctor", "--ports", port]) == 1
    printed = capsys.readouterr().out
    assert f"busy     port {port} is in use on 127.0.0.1: stop the program" in printed
    assert len(printed.splitlines()) == 8
