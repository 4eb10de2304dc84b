from __future__ import annotations

import argparse
import os
from dataclasses import fields
from pathlib import Path

import pytest
from dragoman_gateway.core.settings import GatewaySettings, default_folder
from dragoman_serving.launch.gateway_process import GatewayOptions

from dragoman.commands import serve
from dragoman.commands.shared.gateway_settings import (
    REQUIRED,
    as_environment,
    as_settings,
    gateway_settings,
    of_serve,
    settings_table,
    warn_of_misspelled,
)
from dragoman.commands.shared.serve_settings import SETTINGS, declare, resolve
from dragoman.kernel.errors import UsageError
from tests.conftest import REPOSITORY


def read(*words: str, **environment: str) -> GatewaySettings:
    parser = argparse.ArgumentParser()
    declare(parser, gateway_settings(), short=True)
    resolved = resolve(parser.parse_args(words), environment, gateway_settings(), known=SETTINGS)
    return as_settings(resolved.values)


def test_every_field_is_a_setting_with_a_help_text() -> None:
    assert [f"gateway_{field.name}" for field in fields(GatewaySettings)] == [
        setting.name for setting in gateway_settings()
    ]
    assert [setting.name for setting in gateway_settings() if len(setting.help) < 5] == []
    assert not {setting.name for setting in SETTINGS} & {
        setting.name for setting in gateway_settings()
    }


def test_without_settings_all_are_the_default() -> None:
    assert read() == GatewaySettings(folder=default_folder())


def test_flags_variables_and_a_file_that_serve_reads_too(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(
        'http_port = 1\ngateway_port = 2\ngateway_folder = "state"\ngateway_timeout_s = 3\n'
        'gateway_trusted_proxies = ["10.0.0.0/8", "::1"]\n'
    )
    settings = read(
        "--settings",
        str(file),
        "--cache-bytes",
        "0",
        "--allowed-origins",
        "*",
        DRAGOMAN_GATEWAY_ALLOWED_HOSTS="a.example b.example",
        DRAGOMAN_GATEWAY_CACHE_BYTES="7",
    )
    assert (settings.port, settings.folder, settings.timeout_s) == (2, Path("state"), 3.0)
    assert settings.trusted_proxies == ("10.0.0.0/8", "::1")
    assert (settings.cache_bytes, settings.allowed_origins) == (0, ("*",))
    assert settings.allowed_hosts == ("a.example", "b.example")


def test_the_environment_carries_all_to_another_process() -> None:
    words = ("--port=7", "--allowed-origins", "https://a", "https://b", "--timeout-s=2.5")
    settings = read(*words, "--folder=/a b")
    values = {f"gateway_{field.name}": getattr(settings, field.name) for field in fields(settings)}
    lists = {name: [*value] for name, value in values.items() if isinstance(value, tuple)}
    assert read(**as_environment({**values, **lists})) == settings


def test_a_variable_whose_name_is_almost_a_setting_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    others = (
        *("URL", "ISA", "API_KEY", "TOKEN", "TLS", "CI", "PORT", "TRITON_PORT", "LOCAL_PORT"),
        *(
            "ENGINE_SOCKETS",
            "SERVICE_PORT_HTTP",
            "GATEWAY_SERVICE_PORT",
        ),  # Kubernetes sets the last two
        *("HTTP_PORT", "GATEWAY_TRITON"),
    )
    environment = {"HTTP_PORT": "1", "HTTP_PRT": "1"} | {f"DRAGOMAN_{name}": "" for name in others}
    warn_of_misspelled(environment)
    assert caplog.messages == []
    warn_of_misspelled({**environment, "DRAGOMAN_HTTP_PRT": "9000", "DRAGOMAN_GATEWAY_PROT": "1"})
    assert caplog.messages == [
        "DRAGOMAN_HTTP_PRT is not a setting: did you mean DRAGOMAN_HTTP_PORT?",
        "DRAGOMAN_GATEWAY_PROT is not a setting: did you mean DRAGOMAN_GATEWAY_PORT?",
    ]


def test_the_docs_have_the_table_of_settings() -> None:
    assert settings_table() in (REPOSITORY / "docs" / "gateway.md").read_text(encoding="utf-8")


def test_serve_knows_where_triton_is() -> None:
    names = {setting.name for setting in of_serve()}
    assert "gateway_port" in names
    assert not names & {"gateway_triton", "gateway_triton_http", "gateway_otlp"}


def test_serve_passes_tracing_settings_to_its_gateway() -> None:
    options = options_of_serve("--otlp=http://collector:4318", "--trace-rate=0.5")
    assert options is not None
    settings = read(**options.environment)
    assert (settings.otlp, settings.trace_rate) == ("http://collector:4318", 0.5)
    silent = options_of_serve()
    assert silent is not None
    assert read(**silent.environment).otlp is None


def options_of_serve(*words: str) -> GatewayOptions | None:
    parser = argparse.ArgumentParser()
    serve.configure(parser)
    settings = (*SETTINGS, *of_serve())
    return serve._gateway(resolve(parser.parse_args(words), {}, settings))


def test_serve_runs_without_the_requirements_of_the_gateway(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert options_of_serve() is not None
    assert options_of_serve("--no-gateway") is None
    assert not capsys.readouterr().err
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == REQUIRED[3] else os)
    assert options_of_serve() is None
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"no gateway: {REQUIRED[3]} is not installed: ")
    assert "[gateway]'" in line
    with pytest.raises(UsageError, match="is not installed"):
        options_of_serve("--gateway")


def test_the_url_of_redis_is_never_printed() -> None:
    parser = argparse.ArgumentParser()
    declare(parser, of_serve())
    for url in ("redis://localhost?password=pa55word", "redis://h", "redis://:pa55word@h"):
        variable = {"DRAGOMAN_GATEWAY_LIMITS_URL": url}
        resolved = resolve(parser.parse_args([]), variable, of_serve(), known=SETTINGS)
        assert resolved.values["gateway_limits_url"] == url
        assert resolved.description == "gateway_limits_url *** (DRAGOMAN_GATEWAY_LIMITS_URL)"


def test_the_help_names_the_type_of_a_value() -> None:
    shown = {
        setting.name.removeprefix("gateway_"): setting.metavar for setting in gateway_settings()
    }
    assert shown["anonymous_requests_per_minute"] == shown["glossaries_per_owner"] == "NUMBER"
    assert shown["document_bytes_per_caller"] == shown["body_bytes"] == "BYTES"
    assert (shown["timeout_s"], shown["riva_port"]) == ("SECONDS", "PORT")
    assert (shown["folder"], shown["public_url"]) == ("FOLDER", "URL")
