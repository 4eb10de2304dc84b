"""Shared fixtures: a small vocabulary, random models, bundles made from them.

Fixtures import what trains and exports, so that a test that needs neither starts without torch.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dragoman.cli import main
from dragoman.kernel.text import Tokenizer

if TYPE_CHECKING:
    from tests.browser import Page

REPOSITORY = Path(__file__).parents[1]
CORPORA = Path(os.environ.get("DRAGOMAN_CORPORA", REPOSITORY.parent / "shared" / "corpora"))

PROCESS_LIFE = {
    "integration/test_restart.py": "kills, stops and fills processes of a dozen servers",
    "integration/test_serve_command.py": "ten starts of the command, ended by signals",
    "integration/test_faults.py": "its engine hangs, its client vanishes",
    "integration/test_client_deadlines.py": "its engine hangs in every other test",
    "integration/test_memory.py": "memory before, during and after a burst, and a long idle time",
    "integration/test_several_engines.py": "ends and hangs one of several engines, and all of them",
    "integration/test_models_served.py": "a start of the command for each model of a hub",
    "integration/gateway/test_readiness.py": "servers that stop and start behind a gateway",
    "integration/wheels/test_wheels.py": "builds wheels, and installs them in new environments",
    "unit/training/run/test_several_processes.py": "several processes train one model",
}
"""Files below this folder that `make test-all` runs and `make test` does not, and why."""
TESTS_AT_ONCE = 16
"""Tests without a fixture in common that a process runs before it takes others."""

# For tensors of a few rows, threads cost more than they gain: here, and in commands of tests.
os.environ["OMP_NUM_THREADS"] = "1"
# jsonschema would compile a grammar of IRIs, which takes a second and which no schema needs.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests of `PROCESS_LIFE`, and group tests that run in one process of `make test`.

    All tests that need a server share one. Tests of a module's own fixtures stay together; others
    are spread, so that no process has to run a long file alone at the end.
    """
    numbers: Counter[str] = Counter()
    for item in items:
        path = item.nodeid.partition("::")[0]
        if path.removeprefix("tests/") in PROCESS_LIFE:
            item.add_marker("process_life")
        if not config.pluginmanager.hasplugin("xdist"):
            continue
        fixtures = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
        scopes = {of[-1].scope for of in fixtures.values()}
        if fixtures.keys() & {"shipped", "shipped_fp32"}:
            group = "server"
        elif "package" in scopes:
            group = path.rpartition("/")[0]
        elif scopes & {"class", "module"}:
            group = path
        else:
            group = f"{path} {numbers[path] // TESTS_AT_ONCE}"
            numbers[path] += 1
        item.add_marker(pytest.mark.xdist_group(group))


class CommandLine:
    """`dragoman`, run in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def prints(self, *words: object) -> str:
        """What a command prints that succeeds."""
        assert main([*map(str, words)]) == 0
        return self._capsys.readouterr().out

    def rows(self, *words: object) -> list[Any]:
        """The lines of JSON that a command prints that succeeds."""
        return [json.loads(line) for line in self.prints(*words).splitlines()]

    def refuses(self, *words: object, code: int = 2) -> str:
        """What a command writes on stderr that ends with this code."""
        assert main([*map(str, words)]) == code
        return self._capsys.readouterr().err

    def refusal(self, *words: object) -> str:
        """The line on stderr of a command that prints nothing else, and ends with code 2."""
        self._capsys.readouterr()
        assert main([*map(str, words)]) == 2
        printed = self._capsys.readouterr()
        assert printed.out == ""
        (line,) = printed.err.splitlines()
        return line


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where gateways keep their state by default: not in the user's home."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def tokenizer_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary of the toy task's words, for the languages `en` and `de`."""
    from tests.small_bundles import make_vocabulary

    return make_vocabulary(tmp_path_factory.mktemp("vocabulary"), ("en", "de"))


@pytest.fixture(scope="session")
def tokenizer(tokenizer_path: Path) -> Tokenizer:
    """The toy vocabulary."""
    return Tokenizer(tokenizer_path)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """An empty page in a browser."""
    from tests.browser import browsing, find_chromium
    from tests.npm_packages import skip_without

    chromium = find_chromium()
    if chromium is None:
        skip_without("Chromium")
    with browsing(chromium, tmp_path_factory.mktemp("profile")) as page:
        yield page


@contextmanager
def files_no_larger_than(size_bytes: int) -> Iterator[None]:
    """Make writing fail as on a full disk, once a file has reached its size."""
    former, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (former, hard))


MakeBundle = Callable[[str], Path]


@pytest.fixture(scope="session")
def random_checkpoint(tmp_path_factory: pytest.TempPathFactory, tokenizer_path: Path) -> MakeBundle:
    """Writes a checkpoint of a random model; takes the position of the norm."""
    from tests.small_bundles import save_checkpoint
    from tests.tiny_models import tiny_model

    def make(norm: str) -> Path:
        folder = tmp_path_factory.mktemp("checkpoint") / norm
        return save_checkpoint(folder, tiny_model(norm), tokenizer_path)

    return make


@pytest.fixture(scope="session")
def random_bundle(tmp_path_factory: pytest.TempPathFactory, random_checkpoint: MakeBundle) -> Path:
    """A bundle of a random post-norm model."""
    from dragoman_export.bundle import export_bundle

    bundle = tmp_path_factory.mktemp("bundle") / "random"
    export_bundle(random_checkpoint("post"), bundle)
    return bundle


@pytest.fixture(scope="session")
def elaborate_bundle(tmp_path_factory: pytest.TempPathFactory, tokenizer_path: Path) -> Path:
    """A bundle of a random model with every feature that only imported models have."""
    from tests.small_bundles import make_bundle
    from tests.tiny_models import random_elaborate_model

    folder = tmp_path_factory.mktemp("elaborate")
    return make_bundle(folder, random_elaborate_model(), tokenizer_path, storage="fp16")


@pytest.fixture(scope="session")
def ssru_bundle(tmp_path_factory: pytest.TempPathFactory, tokenizer_path: Path) -> Path:
    """A bundle of a random model with an SSRU decoder."""
    from tests.small_bundles import make_bundle
    from tests.tiny_models import random_ssru_model

    return make_bundle(tmp_path_factory.mktemp("ssru"), random_ssru_model(), tokenizer_path)


@pytest.fixture(scope="session")
def three_languages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a random model for English and German, German and French."""
    from dragoman_training.config import CorpusConfig, DataConfig

    from tests.small_bundles import LANGUAGES, make_bundle, make_vocabulary
    from tests.tiny_models import tiny_model

    folder = tmp_path_factory.mktemp("three")
    corpora = (CorpusConfig("a", ("en", "de")), CorpusConfig("b", ("de", "fr")))
    data = DataConfig(languages=LANGUAGES, train=corpora)
    return make_bundle(folder, tiny_model(), make_vocabulary(folder, LANGUAGES), data)
