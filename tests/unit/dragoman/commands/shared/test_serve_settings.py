from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from dragoman.commands.shared.serve_settings import SETTINGS, Resolved, declare, read_bytes, resolve
from dragoman.kernel.errors import UsageError


def resolved(*words: str, **environment: str) -> Resolved:
    parser = argparse.ArgumentParser()
    declare(parser, SETTINGS)
    return resolve(parser.parse_args(words), environment, SETTINGS)


def test_without_settings_all_are_the_default() -> None:
    settings = resolved(DRAGOMAN_URL="grpc://elsewhere", DRAGOMAN_TOKEN="secret")
    assert settings.values == {setting.name: setting.default for setting in SETTINGS}
    assert settings.parameters == {}
    assert settings.description == ""


def test_flags_override_the_environment_and_that_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(
        'http_port = 1\ngrpc_port = 2\nworkers = 3\nload = ["encoder"]\nverbose = true\n'
    )
    environment = {"DRAGOMAN_HTTP_PORT": "10", "DRAGOMAN_GRPC_PORT": "20"}
    settings = resolved("--settings", str(file), "--http-port", "100", **environment)
    ports = [settings.values[f"{name}_port"] for name in ("http", "grpc", "metrics")]
    assert ports == [100, 20, 8002]
    assert settings.parameters == {"workers": "3"}
    assert settings.description == (
        f"http_port 100 (--http-port), grpc_port 20 (DRAGOMAN_GRPC_PORT), workers 3 ({file}), "
        f"load ['encoder'] ({file}), verbose True ({file})"
    )


def test_an_explicit_default_overrides_the_repositorys_configuration() -> None:
    assert resolved("--precision", "auto").parameters == {"precision": "auto"}
    assert resolved(DRAGOMAN_ALLOW_PRIORITY="true").parameters == {"allow_priority": "true"}


def test_switches_may_be_switched_off() -> None:
    assert resolved(DRAGOMAN_VERBOSE="true").values["verbose"] is True
    assert resolved("--no-verbose", DRAGOMAN_VERBOSE="true").values["verbose"] is False
    assert resolved("--no-gateway").description == "gateway False (--no-gateway)"
    assert resolved(DRAGOMAN_LOAD="encoder decoder").values["load"] == ["encoder", "decoder"]


def test_models_are_words_or_come_from_the_environment() -> None:
    environment = {"DRAGOMAN_MODELS": "owner/a owner/b@v2"}
    assert resolved(**environment).values["models"] == ["owner/a", "owner/b@v2"]
    settings = resolved("--http-port", "1", "c", "d", **environment)
    assert settings.values["models"] == ["c", "d"]
    assert settings.description.startswith("models ['c', 'd'] (MODELS), ")
    assert resolved(DRAGOMAN_MODELS="").values["models"] == []


def test_an_implied_value_is_described_with_its_origin() -> None:
    implied = resolved().implying("pivot", "en", "Firefox's models")
    assert implied.values["pivot"] == "en"
    assert implied.description == "pivot en (Firefox's models)"
    assert resolved().values["pivot"] is None


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('http_port = "a"', "http_port is 'a': give a whole number"),
        ("http_port = true", "http_port is True: give a whole number"),
        ("verbose = 1", "verbose is 1: give true or false"),
        ('on_failure = "panic"', "on_failure is 'panic': give one of exit, restart"),
        ("address = 1", "address is 1: give text"),
        ("load = 1", "load is 1: give names"),
        ("http_prot = 1", "unknown setting 'http_prot'; did you mean http_port?"),
        ("x = 1", "unknown setting 'x'; known: models, offline, repository, triton, address"),
        ("=", "cannot be read: Invalid"),
    ],
)
def test_a_wrong_line_of_the_file_is_named(tmp_path: Path, written: str, message: str) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(written)
    with pytest.raises(UsageError) as caught:
        resolved("--settings", str(file))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("DRAGOMAN_HTTP_PORT", "x", "DRAGOMAN_HTTP_PORT is 'x': give a whole number"),
        ("DRAGOMAN_ENGINE_TIMEOUT", "soon", "DRAGOMAN_ENGINE_TIMEOUT is 'soon': give a number"),
        ("DRAGOMAN_VERBOSE", "yes", "DRAGOMAN_VERBOSE is 'yes': give true or false"),
    ],
)
def test_a_wrong_variable_is_named(name: str, value: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolved(**{name: value})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"--settings .*none\.toml: cannot be read: No such file or directory$"
    ):
        resolved("--settings", str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(
            ("4GB", 4_000_000_000),
            ("4 GiB", 4 << 30),
            ("512MiB", 512 << 20),
            ("1.5G", 1_500_000_000),
        ),
        *(("800k", 800_000), ("123456", 123_456), ("1TB", 10**12)),
    ],
)
def test_bytes_have_units(text: str, size: int) -> None:
    assert read_bytes("--memory", text) == size


@pytest.mark.parametrize("text", ["", "much", "-1GB", "0", "4GB!", "GB", "1e9"])
def test_an_invalid_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="give bytes, such as 4GB or 512MiB"):
        read_bytes("--memory", text)
