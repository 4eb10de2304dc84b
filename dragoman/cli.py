"""The `dragoman` command line: parses the arguments, runs a subcommand, reports errors."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from dragoman import __version__
from dragoman.kernel.errors import DragomanError
from dragoman.kernel.installation import install_command

COMMANDS = (
    "corpora",
    "clean",
    "link-words",
    "train",
    "distill",
    "evaluate",
    "import-marian",
    "export",
    "align-heads",
    "shortlist",
    "verify",
    "publish",
    "models",
    "serve",
    "gateway",
    "keys",
    "translate",
    "batch",
    "score",
    "attention",
    "load-test",
    "demo",
    "doctor",
)

_OF_EXTRAS = {
    *("torch", "tensorboard", "sacrebleu", "safetensors", "fasttext", "google"),  # protobuf
    *("onnx", "ml_dtypes", "onnxruntime", "pytriton", "matplotlib"),
    *("dragoman_client", "dragoman_options", "dragoman_load_test", "tritonclient", "grpc"),
    *("aiohttp", "hdrh", "jinja2", "prometheus_client", "pydantic"),
    *("babel", "httptools", "msgspec", "multipart", "python_multipart", "redis"),
    *("starlette", "uvicorn", "uvloop", "pyarrow", "ray"),
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
    words = sys.argv[1:] if words is None else words
    # Only this command's flags are declared: other commands may need packages that are missing.
    command = next((word for word in words if word in COMMANDS), "")
    arguments = argparse.Namespace()
    try:
        arguments, run = _read(words, command)
        logging.basicConfig(
            level=logging.WARNING if arguments.quiet else logging.INFO,
            format="%(asctime)s %(message)s",
            datefmt="%H:%M:%S",
            stream=sys.stderr,
        )
        return run(arguments)
    except DragomanError as error:
        print(f"dragoman {command}: {error}", file=sys.stderr)
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


def _read(
    words: Sequence[str], command: str
) -> tuple[argparse.Namespace, Callable[[argparse.Namespace], int]]:
    """The parsed arguments, and the function that runs the command."""
    parser = argparse.ArgumentParser(prog="dragoman", description=__doc__)
    parser.add_argument("--version", action="version", version=f"dragoman {__version__}")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    modules = {}
    for name in COMMANDS:
        module = modules[name] = _module(name)
        subparser = subparsers.add_parser(name, help=module.HELP, description=module.HELP)
        if name == command:
            module.configure(subparser)
    arguments = parser.parse_args(words)
    run: Callable[[argparse.Namespace], int] = modules[arguments.command].run
    return arguments, run


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"dragoman.commands.{command.replace('-', '_')}")
