"""Settings of `dragoman serve`, from flags, environment variables and a TOML file.

Flags override variables, and variables override the file. The gateway's settings are included;
`dragoman gateway` takes the same ones.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dragoman.commands.shared.hub_models import MODEL_HELP, OFFLINE_HELP
from dragoman.kernel.errors import UsageError
from dragoman.kernel.tracing import DEFAULT_RATE

_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class Setting:
    """A setting, with a flag such as `--some-name` and a variable such as `DRAGOMAN_SOME_NAME`.

    `kind` is its type; a list holds words. With `of_engine` it is a parameter of the engine's
    models, which the repository's `config.pbtxt` may set too. `short_flag` is the flag for
    `dragoman gateway`, which has only the gateway's settings. A value with `is_secret` is not
    printed.
    """

    name: str
    help: str
    kind: type = str
    default: Any = None
    choices: tuple[str, ...] = ()
    of_engine: bool = False
    short_flag: str | None = None
    is_secret: bool = False
    is_positional: bool = False
    """Whether it is given as positional arguments, without a flag."""

    @property
    def flag(self) -> str:
        """The name on the command line."""
        if self.is_positional:
            return self.name.upper()
        return f"--{self.name.replace('_', '-')}"

    @property
    def metavar(self) -> str:
        """Placeholder in the help: the unit of a number, otherwise the last word of the name."""
        words = self.name.split("_")
        if self.of_engine:
            return "VALUE"
        if self.kind not in (int, float) or words[-1] == "port":
            return words[-1].upper()
        if words[-1] == "s":
            return "SECONDS"
        return "BYTES" if "bytes" in words else "NUMBER"

    @property
    def variable(self) -> str:
        """The name in the environment."""
        return f"DRAGOMAN_{self.name.upper()}"

    def read(self, value: Any, where: str) -> Any:
        """Converts and checks a value of a file, or of the environment, where it is text.

        Raises:
            UsageError: the value is not of the setting's type, or not one of the choices.
        """
        if isinstance(value, str) and self.kind is not str:
            value = self._parsed(value)
        if self.kind is float and type(value) is int:
            value = float(value)
        if self.of_engine and type(value) in (int, bool):
            value = str(value).lower()  # as `config.pbtxt` has it
        if self.kind is Path and isinstance(value, str):
            value = Path(value)
        if not isinstance(value, self.kind) or (self.kind is int and isinstance(value, bool)):
            raise UsageError(f"{where} is {value!r}: give {_EXPECTED[self.kind]}")
        if self.choices and value not in self.choices:
            raise UsageError(f"{where} is {value!r}: give one of {', '.join(self.choices)}")
        return value

    def _parsed(self, text: str) -> Any:
        if self.kind is bool:
            return _TRUTH.get(text, text)
        if self.kind is list:
            return text.split()
        try:
            return self.kind(text)
        except ValueError:
            return text


_EXPECTED = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "names",
    Path: "a path",
}


def _of_engine(name: str, what: str, default: str = "auto") -> Setting:
    return Setting(name, what, default=default, of_engine=True)


SETTINGS = (
    Setting("models", f"{MODEL_HELP} (default: --repository)", list, [], is_positional=True),
    Setting("offline", OFFLINE_HELP, bool, False),
    Setting(
        "repository",
        "Triton model repository (default: ./model_repository if it is there, else the installed "
        "dragoman-model)",
        Path,
    ),
    Setting(
        "triton",
        "whether to start Triton, for clients of its HTTP and gRPC protocols; without it, there is "
        "only the gateway",
        bool,
        True,
    ),
    Setting("address", "IP address to listen on", default="127.0.0.1"),
    Setting("http_port", "port of Triton's HTTP API; 0: any free port", int, 8000),
    Setting("grpc_port", "port of Triton's gRPC API; 0: any free port", int, 8001),
    Setting("metrics_port", "port of Triton's metrics; 0: any free port", int, 8002),
    Setting(
        "engines",
        "number of engine processes, which share the workers and --memory; more use many cores "
        "better (default: one for every 2 cores, at least one)",
        int,
    ),
    _of_engine("precision", "int8 or fp32 on a CPU, fp16, bf16 or fp32 on a GPU"),
    _of_engine("runtime", "library that runs the model, such as native or onnxruntime"),
    _of_engine("workers", "threads of all engine processes together: a number, or auto"),
    _of_engine("max_rows", "largest batch of a worker, in rows: a number, or auto"),
    _of_engine("max_waiting", "sentences that may wait in the queue", "40000"),
    _of_engine("deadline_s", "longest time for any request, in seconds", "300"),
    _of_engine("allow_priority", "whether requests may set queue_priority", "false"),
    Setting(
        "memory",
        "memory limit of the engine processes for all models together, such as 4GB; the least used "
        "models are unloaded, and loaded again when needed (default: no limit)",
    ),
    Setting(
        "preload",
        "models, or directions such as en-de, to load at startup; others are loaded at first use",
        list,
        [],
    ),
    Setting(
        "pivot",
        "pivot language, such as en: directions without a model are translated in two steps "
        "through it (default: none; with Firefox's models, en)",
    ),
    Setting(
        "on_failure",
        "what to do when Triton or the engine crashes, or the engine hangs",
        default="restart",
        choices=("exit", "restart"),
    ),
    Setting(
        "engine_timeout",
        "timeout of the heartbeats of the engine, Triton and the gateway, in seconds; one that "
        "sends none for longer is killed",
        float,
        10.0,
    ),
    Setting(
        "triton_growth",
        "MiB of memory by which Triton may grow before it is restarted",
        int,
        1024,
    ),
    Setting(
        "follow_bundle",
        "restart when the bundle of a repository gets TensorRT engines that fit this machine",
        bool,
        False,
    ),
    Setting("load", "more models of the repository to load, such as encoder, decoder", list, []),
    Setting(
        "config",
        "name of the configuration, such as tensorrt: models that have a configs/NAME.pbtxt use it",
    ),
    Setting(
        "expose_unpatched_server",
        "let the embedded Triton 24.10, which has known remote vulnerabilities, listen beyond "
        "loopback",
        bool,
        False,
    ),
    Setting(
        "grpc_connection_age",
        "seconds after which gRPC clients are asked to reconnect, so that connections are balanced "
        "across new servers too (default: never)",
        int,
    ),
    Setting(
        "otlp",
        "URL of an OpenTelemetry collector, such as http://localhost:4318, for traces of requests "
        "(default: no tracing)",
    ),
    Setting(
        "trace_rate",
        "share of the requests to trace, from 0 to 1; the trace context of a request overrides it",
        float,
        DEFAULT_RATE,
    ),
    Setting("verbose", "show Triton's own log", bool, False),
    Setting(
        "gateway",
        "whether to start the gateway too: REST, the web page, keys and documents",
        bool,
        True,
    ),
)
"""The server's settings, in the order of the help."""


@dataclass(frozen=True)
class Resolved:
    """The value of each setting by name, and the origin of each value that was given."""

    settings: Sequence[Setting]
    values: Mapping[str, Any]
    origins: Mapping[str, str]

    def implying(self, name: str, value: Any, origin: str) -> Resolved:
        """Returns a copy with a value that others imply."""
        return replace(
            self, values={**self.values, name: value}, origins={**self.origins, name: origin}
        )

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the engine's models that were given."""
        given = (
            setting.name
            for setting in self.settings
            if setting.of_engine and setting.name in self.origins
        )
        return {name: self.values[name] for name in given}

    @property
    def description(self) -> str:
        """One line with the settings that differ from the default; empty if there are none."""
        return ", ".join(
            f"{setting.name} {self._shown(setting)} ({self.origins[setting.name]})"
            for setting in self.settings
            if self.values[setting.name] != setting.default
        )

    def _shown(self, setting: Setting) -> Any:
        value = self.values[setting.name]
        has_password = isinstance(value, str) and "@" in value  # a URL
        return "***" if setting.is_secret or has_password else value


def declare(
    parser: argparse.ArgumentParser, settings: Sequence[Setting], short: bool = False
) -> None:
    """Declare a flag for each setting, and the flag of the settings file.

    Args:
        parser: of the command.
        settings: settings that the command takes.
        short: whether to use the short flags.
    """
    for setting in settings:
        how: dict[str, Any] = {"type": setting.kind, "metavar": setting.metavar}
        if setting.choices:
            how = {"choices": setting.choices}
        elif setting.kind is bool:
            how = {"action": argparse.BooleanOptionalAction}
        elif setting.kind is list:
            how = {"nargs": "+", "metavar": "NAME"}
        shown = setting.default not in (None, [], "", False)
        default = f" (default: {setting.default})" if shown else ""
        flag = setting.short_flag if short and setting.short_flag else setting.flag
        # argparse expands a `%`.
        text = (setting.help + default).replace("%", "%%")
        if setting.is_positional:
            parser.add_argument(setting.name, nargs="*", default=[], metavar="MODEL", help=text)
            continue
        parser.add_argument(flag, dest=setting.name, default=None, help=text, **how)
    parser.add_argument(
        "--settings",
        type=Path,
        metavar="FILE",
        help="settings in TOML, such as http_port = 9000 or gateway_port = 80; environment "
        "variables, such as DRAGOMAN_HTTP_PORT=9000, override the file, and flags override both",
    )


def resolve(
    arguments: argparse.Namespace,
    environment: Mapping[str, str],
    settings: Sequence[Setting],
    known: Sequence[Setting] = (),
) -> Resolved:
    """Reads the settings of a command line, an environment and a file.

    Args:
        arguments: of the command line.
        environment: environment variables.
        settings: settings that the command takes.
        known: more settings that the file may hold, for another command.

    Raises:
        UsageError: the file cannot be read, or a setting is unknown or has a wrong value.
    """
    file = arguments.settings
    names = [setting.name for setting in (*settings, *known)]
    from_file = {} if file is None else _read(file, names)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in settings:
        value, origin = getattr(arguments, setting.name), setting.flag
        if value is False:
            origin = f"--no-{setting.flag.removeprefix('--')}"
        if setting.is_positional and not value:
            value = None
        if value is None and setting.variable in environment:
            origin = setting.variable
            value = setting.read(environment[setting.variable], origin)
        if value is None and setting.name in from_file:
            origin = str(file)
            value = setting.read(from_file[setting.name], f"{file}: {setting.name}")
        values[setting.name] = setting.default if value is None else value
        if value is not None:
            origins[setting.name] = origin
    return Resolved(settings, values, origins)


def read_bytes(name: str, text: str) -> int:
    """Parses a number of bytes, such as 4GB or 512 MiB.

    Args:
        name: of the setting, for the message.
        text: of the command line.

    Raises:
        UsageError: the text is no number of bytes, or 0.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kMGT]?)(i?)B?", text.strip())
    if match is None or not (size := float(match[1])):
        raise UsageError(f"{name} {text}: give bytes, such as 4GB or 512MiB")
    return int(size * (1024 if match[3] else 1000) ** " kMGT".index(match[2] or " "))


def _read(file: Path, known: Sequence[str]) -> dict[str, Any]:
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--settings {file}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--settings {file}: cannot be read: {error}") from error
    for name in settings:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
            raise UsageError(f"{file}: unknown setting {name!r}; {hint}")
    return settings
