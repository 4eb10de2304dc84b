"""Settings of the gateway: a flag, a variable and a name in the file for each dataclass field.

`dragoman_gateway.core.settings` needs only the standard library. Therefore `dragoman serve` has
these settings even if the gateway's requirements are not installed.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import logging
import re
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from dragoman.commands.shared.serve_settings import SETTINGS, Setting
from dragoman.kernel.errors import UsageError

if TYPE_CHECKING:
    from dragoman_gateway.core.settings import GatewaySettings

_log = logging.getLogger(__name__)

PREFIX = "gateway_"
PREFIX_OF_VARIABLES = "DRAGOMAN_GATEWAY_"
REQUIRED = (
    *("httptools", "msgspec", "prometheus_client", "python_multipart"),
    *("starlette", "uvicorn", "uvloop", "wsproto"),
)
"""Modules that the gateway needs; its extra installs them."""
_SECRET = ("limits_url",)
_VERY_SIMILAR = 0.9
"""A ratio of difflib; our other variables, such as DRAGOMAN_URL, are below it."""
OF_TRITON, OF_TRACING = ("triton", "triton_http"), ("otlp", "trace_rate")
"""Fields that `dragoman serve` sets itself, or has its own settings for."""


@functools.cache
def gateway_settings() -> tuple[Setting, ...]:
    """Returns a setting for each field of `GatewaySettings`, in the order of the fields."""
    from dragoman_gateway.core.settings import GatewaySettings

    types = typing.get_type_hints(GatewaySettings)
    helps = _described(inspect.getdoc(GatewaySettings) or "")
    settings = []
    for field in fields(GatewaySettings):
        kind, is_list = _kind(types[field.name])
        default = field.default
        if default is MISSING:
            assert field.default_factory is not MISSING
            default = field.default_factory()
        settings.append(
            Setting(
                name=PREFIX + field.name,
                help=helps.get(field.name, ""),
                kind=list if is_list else kind,
                default=[*default] if is_list else default,
                short_flag=f"--{field.name.replace('_', '-')}",
                is_secret=field.name in _SECRET,
            )
        )
    return tuple(settings)


def of_serve() -> tuple[Setting, ...]:
    """Returns the settings that `dragoman serve` takes."""
    others = [PREFIX + name for name in OF_TRITON + OF_TRACING]
    return tuple(setting for setting in gateway_settings() if setting.name not in others)


def as_settings(values: Mapping[str, Any]) -> GatewaySettings:
    """Returns the settings of the gateway; the folder defaults to `default_folder()`.

    Args:
        values: values of all settings, by name.

    Raises:
        UsageError: a value is not valid.
    """
    from dragoman_gateway.core.settings import GatewaySettings, default_folder

    field_values: dict[str, Any] = {}
    for setting in gateway_settings():
        value = values[setting.name]
        field_values[setting.name.removeprefix(PREFIX)] = (
            tuple(value) if setting.kind is list else value
        )
    if field_values["folder"] is None:
        field_values["folder"] = default_folder()
    try:
        return GatewaySettings(**field_values)
    except ValueError as error:
        raise UsageError(str(error)) from error


def refuse_passwords(arguments: argparse.Namespace) -> None:
    """Refuse a password on the command line, where every user of the machine can read it.

    Raises:
        UsageError: the URL of Redis has a password.
    """
    if _has_password(arguments.gateway_limits_url or ""):
        raise UsageError(
            "a password on the command line can be read by every user of the machine: give the "
            f"URL of Redis in {PREFIX_OF_VARIABLES}LIMITS_URL or in a settings file"
        )


def _has_password(url: str) -> bool:
    """Whether a URL of Redis has, or may have, a password before its host or in its query."""
    _, _, query = url.partition("?")
    names = (name for name, _ in parse_qsl(query, keep_blank_values=True, separator="&"))
    return "@" in url or any("pass" in name.lower() for name in names)


def warn_of_misspelled(environment: Mapping[str, str]) -> None:
    """Log a warning for each variable whose name is very similar to a setting's."""
    known = [setting.variable for setting in (*SETTINGS, *gateway_settings())]
    for name in environment:
        is_of_kubernetes = name.endswith("_SERVICE_PORT")  # of a Service of this name
        if name.startswith("DRAGOMAN_") and name not in known and not is_of_kubernetes:
            for close in get_close_matches(name, known, n=1, cutoff=_VERY_SIMILAR):
                _log.warning("%s is not a setting: did you mean %s?", name, close)


def as_environment(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns environment variables from which `dragoman gateway` reads the same values.

    Args:
        values: values of settings, by name; other settings than the gateway's are left out.
    """
    variables = {}
    for setting in gateway_settings():
        value = values.get(setting.name)
        if isinstance(value, list):
            variables[setting.variable] = " ".join(value)
        elif isinstance(value, bool):
            variables[setting.variable] = str(value).lower()
        elif value is not None:
            variables[setting.variable] = str(value)
    return variables


def settings_table() -> str:
    """Returns all settings as the Markdown table of docs/gateway.md."""
    lines = ["| flag of `dragoman gateway` | default | what it is |", "|---|---|---|"]
    for setting in gateway_settings():
        default = " ".join(setting.default) if setting.kind is list else setting.default
        shown = "" if default in (None, "") else f"`{str(default).lower()}`"
        lines.append(f"| `{setting.short_flag}` | {shown} | {setting.help} |")
    return "\n".join(lines)


def _kind(hint: Any) -> tuple[type, bool]:
    """The type of a value, and whether there may be several values."""
    if typing.get_origin(hint) in (typing.Union, UnionType):
        (hint,) = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    if typing.get_origin(hint) is tuple:
        return typing.get_args(hint)[0], True
    assert hint in (str, int, float, bool, Path), hint
    return hint, False


def _described(docstring: str) -> dict[str, str]:
    """The descriptions in the section `Attributes` of a docstring, one line each."""
    _, _, section = docstring.partition("Attributes:\n")
    attributes = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".") for name, text in attributes}


if __name__ == "__main__":
    print(settings_table())
