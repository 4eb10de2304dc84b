"""The `dragoman` command line: parses the arguments, runs a subcommand, reports errors."""

from __future__ import annotations

import argparse
import difflib
import gc
import importlib
import io
import logging
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import NoReturn

from dragoman import __version__
from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.installation import install_command

GROUPS = {
    "Use a server": ("translate", "memory", "batch", "score", "attention"),
    "Operate a server": (
        *("serve", "gateway", "keys", "models", "load-test", "doctor", "demo"),
        *("publish", "shortlist"),
    ),
    "Train and import models": (
        *("train", "evaluate", "export", "verify", "align-heads", "import-marian"),
        *("corpora", "clean", "link-words", "distill"),
    ),
}
"""The commands by what they are for, in the order of the help."""

COMMANDS = tuple(name for names in GROUPS.values() for name in names)

_EXAMPLES = {
    "Use a server": 'dragoman translate "Good morning." --target-language de',
    "Operate a server": "dragoman serve",
    "Train and import models": "dragoman train --text my.en my.de --out runs/mine",
}

_GARBAGE = 10_000
"""New objects before a garbage collection."""

_OTHER_NAMES = {"--host": "address"}
"""Our names of flags, by the flags of other programs."""

_OF_EXTRAS = {
    *("torch", "tensorboard", "sacrebleu", "safetensors", "fasttext", "google"),  # protobuf
    *("onnx", "ml_dtypes", "onnxruntime", "pytriton", "matplotlib"),
    *("dragoman_client", "dragoman_documents", "dragoman_options", "dragoman_load_test"),
    *("tritonclient", "grpc", "aiohttp", "hdrh", "jinja2", "prometheus_client", "pydantic"),
    *("httptools", "msgspec", "multipart", "python_multipart", "rapidfuzz", "redis"),
    *("starlette", "uvicorn", "uvloop", "wsproto", "pyarrow", "ray", "turbohtml", "yaml"),
}
"""Modules that may be missing. A command's requirements are installed by the extra named `EXTRA` in
its module, unless `extra` of its arguments names another."""


def main(words: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Args:
        words: command-line arguments without the program name; None: from `sys.argv`.

    Returns:
        0 done, 1 a check or the work failed, 2 usage.
    """
    words = (sys.argv[1:] if words is None else words) or ["--help"]
    # Only this command's flags are declared: other commands may need packages that are missing.
    command = next((word for word in words if not word.startswith("-")), "")
    arguments = argparse.Namespace()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale says
    try:
        if command and command not in COMMANDS:
            raise UsageError(_unknown_command(command))
        arguments, run = _read(words, command)
        logging.basicConfig(
            level=logging.WARNING if arguments.quiet else logging.INFO,
            format="%(asctime)s %(message)s",
            datefmt="%H:%M:%S",
            stream=sys.stderr,
        )
        return run(arguments)
    except DragomanError as error:
        program = f"dragoman {command}" if command in COMMANDS else "dragoman"
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_EXTRAS:
            raise
        extra = getattr(arguments, "extra", None) or _module(command).EXTRA
        message = f"{error.name} is not installed: {install_command(extra)}"
        print(f"dragoman {command}: {message}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader closed our output; this prevents a second error message at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def program() -> int:
    """Run `main` in a process of its own, which ends with it.

    Most objects of a short command are modules, which stay. Searching them for garbage, while they
    are imported and at the end, would take a quarter of its processor time.
    """
    gc.set_threshold(_GARBAGE)
    try:
        return main()
    finally:
        gc.freeze()


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the list of all options."""

    def error(self, message: str) -> NoReturn:
        """See `argparse`."""
        self.exit(2, f"{self.prog}: {message}: see {self.prog} --help\n")


def _read(
    words: Sequence[str], command: str
) -> tuple[argparse.Namespace, Callable[[argparse.Namespace], int]]:
    """The parsed arguments, and the function that runs the command."""
    parser = _Parser(
        prog="dragoman",
        usage="dragoman [-h] [--version] [--quiet] COMMAND ...",
        description=None if command else _overview(),
        epilog="`dragoman COMMAND --help` lists the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dragoman {__version__}")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    # The description lists the commands, by group. A command line needs the parser of its own one.
    subparsers = parser.add_subparsers(
        dest="command", required=True, prog="dragoman", metavar="COMMAND", help=argparse.SUPPRESS
    )
    if command:
        module = _module(command)
        module.configure(subparsers.add_parser(command, description=module.HELP))
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        raise UsageError(_unknown_argument(unknown[0], subparsers.choices[command]))
    run: Callable[[argparse.Namespace], int] = module.run
    return arguments, run


def _unknown_command(word: str) -> str:
    close = difflib.get_close_matches(word, COMMANDS, 1)
    hint = f"did you mean {close[0]}?" if close else "`dragoman -h` lists the commands"
    return f"unknown command {word}: {hint}"


def _unknown_argument(word: str, parser: argparse.ArgumentParser) -> str:
    if not word.startswith("-"):
        return f"unexpected argument {word!r}: put quotes around a text with spaces"
    flag = word.partition("=")[0]
    flags = [
        name
        for part in _parts(parser)
        for action in part._actions
        for name in action.option_strings
    ]
    name = _OTHER_NAMES.get(flag, flag.lstrip("-"))
    # `--port` is no typo of `--pivot`: it lacks the first word of `--http-port` and others.
    close = [candidate for candidate in flags if candidate.endswith(f"-{name}")]
    # The flags of `dragoman gateway` are those of `dragoman serve` without this prefix.
    short = f"--{name.removeprefix('gateway-')}"
    if name.startswith("gateway-") and short in flags:
        close = [short]
    close = close or difflib.get_close_matches(flag, flags, 1)
    hint = f"did you mean {' or '.join(close)}?" if close else "see --help"
    return f"unknown option {flag}: {hint}"


def _parts(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its subcommands; argparse has no public list of them."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                yield from _parts(part)


def helps(command: str) -> Iterator[str]:
    """The help of a command, then those of its subcommands."""
    module = _module(command)
    parser = argparse.ArgumentParser(prog=f"dragoman {command}", description=module.HELP)
    module.configure(parser)
    for part in _parts(parser):
        yield part.format_help()


def _overview() -> str:
    """What the program does, and its commands by group."""
    lines = ["Translates text: trains models, serves them, and translates through a server."]
    indent = max(map(len, COMMANDS)) + 4
    for title, names in GROUPS.items():
        lines += ["", f"{title}, such as: {_EXAMPLES[title]}"]
        for name in names:
            first = f"  {name}".ljust(indent)
            help_ = _module(name).HELP
            lines += textwrap.wrap(
                help_, width=79, initial_indent=first, subsequent_indent=" " * indent
            )
    return "\n".join(lines)


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"dragoman.commands.{command.replace('-', '_')}")
