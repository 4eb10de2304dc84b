"""A server and gateways with options, outputs and a refusal that no release has.

Their lines are inserted into the table when a process imports it, so that also the classes that the
table makes have them. Clients and commands that must know them therefore run in processes of their
own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.gateways import RunningGateway, run_gateway
from tests.servers import WAIT_S, Served, processes_run_first, serving

DECLARATION = """
import importlib.abc, importlib.machinery, sys

OPTIONS = '''        Option(
            "volume", "whole number", "how loud", range=Range(1, 3), unset="as ever", scores=True,
            not_with=("patience",),
        ),
        Option(
            "return_loudness", "switch", "return how loud it is", default=False, scores=True,
            output="loudnesss",
        ),
'''
OF_SCORES = '''    loudness: Annotated[
        float | None, Output("how loud it is", name="loudnesss")
    ] = None
'''
OF_TRANSLATIONS = '''    moods: Annotated[
        tuple[str, ...], Output("how it sounds", if_any=True, join="union")
    ] = ()
'''

def declare(module, spec, load):
    source = spec.loader.get_source(spec.name)
    for lines, before in (
        (OPTIONS, '        Option(\\n            "return_bundle",'),
        (OF_SCORES, "    bundle: Annotated["),
        (OF_TRANSLATIONS, "    codes: Annotated["),
    ):
        assert source.count(before) == 1
        source = source.replace(before, lines + before)
    exec(compile(source, spec.origin, "exec"), module.__dict__)

def implement(module, spec, load):
    load(module)
    module.VALUES["loudnesss"] = lambda one: len(one.text) / 8
    module.VALUES["moods"] = lambda one: tuple(
        name for name, mark in (("calm", "."), ("loud", "!")) if mark in one.text
    )
    module.OF_ASSESSMENTS["loudnesss"] = lambda one: len(one.tokens) / 8

def refuse(module, spec, load):
    load(module)
    check = module.check_length

    def check_length(index, text, what="text"):
        if "loud" in text:
            raise module.InvalidRequest(
                f"{what} {index} is loud: whisper", "made_up", "loudness", index
            )
        check(index, text, what)

    module.check_length = check_length

CHANGES = {
    "dragoman_options.table": declare,
    "dragoman_serving.service.answers": implement,
    "dragoman_serving.translation.source_texts": refuse,
}

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in CHANGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        load = spec.loader.exec_module
        spec.loader.exec_module = lambda module: CHANGES[name](module, spec, load)
        return spec

sys.meta_path.insert(0, Finder())
"""

Run = Callable[..., str]


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs Python in a process that has them; returns its output, or its error if it has a code."""

    def run(*words: str, code: int = 0) -> str:
        command = [sys.executable, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    with processes_run_first(DECLARATION, tmp_path_factory.mktemp("declared")):
        yield run


@pytest.fixture(scope="package")
def served(run: Run) -> Iterator[Served]:  # noqa: ARG001 - it makes new processes have them
    with serving() as running:
        yield running


@pytest.fixture(scope="package", params=["engine_url", "grpc_url"])
def gateway(served: Served, request: pytest.FixtureRequest) -> Iterator[RunningGateway]:
    server = served.server
    triton = getattr(server, request.param)
    with run_gateway(triton, server.http_url, riva_port=0, timeout_s=WAIT_S) as running:
        yield running
