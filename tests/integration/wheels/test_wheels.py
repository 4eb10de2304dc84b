"""The wheels: their contents, and in an empty environment outside any checkout, without a compiler.

They are one file, so that one process builds them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.kernel.replacement import KEPT_PREFIX
from tests import debian
from tests.conftest import REPOSITORY
from tests.exchanges import send
from tests.integration.wheels.conftest import Installed, installing
from tests.servers import ServeCommand

ELF_MACHINE, AARCH64 = 18, b"\xb7\0"
"""Where ELF names a library's machine, and its value."""
RELAY = "dragoman_serving/relay/_relay.so"
KERNELS = "dragoman_serving/engine/compiled/_kernels_{}.so"
ROUNDS = 5_000
SENTENCE = {"text_input": "Good morning.", "target_language": "de"}


def test_everything_is_compiled(wheels: Path) -> None:
    """There are no warnings; the kernels are optional, so a failure would not stop the build."""
    (server,) = wheels.glob("dragoman-*.whl")
    names = zipfile.ZipFile(server).namelist()
    assert RELAY in names
    assert {KERNELS.format(name) for name in ("avx512vnni", "avxvnni", "avx2", "c")} < {*names}


def test_every_wheel_has_its_licence(wheels: Path) -> None:
    for path in wheels.iterdir():
        assert any(name.endswith("licenses/LICENSE") for name in zipfile.ZipFile(path).namelist())


def test_files_that_engines_cache_are_in_no_wheel(wheels: Path) -> None:
    for path in wheels.iterdir():
        assert not [name for name in zipfile.ZipFile(path).namelist() if KEPT_PREFIX in name]


def test_platforms_are_named_and_pythons_are_not(wheels: Path) -> None:
    names = sorted(path.name for path in wheels.iterdir())
    assert [re.sub(r"-\d[\w.]*-", "-", name, count=1) for name in names] == [
        f"dragoman-py3-none-manylinux_2_28_{os.uname().machine}.whl",
        "dragoman_client-py3-none-any.whl",
        "dragoman_load_test-py3-none-any.whl",
        "dragoman_model-py3-none-any.whl",
    ]


@pytest.mark.thorough
def test_another_machine_has_its_libraries(aarch64_wheel: Path) -> None:
    assert re.fullmatch(r"dragoman-\S+-py3-none-manylinux_2_28_aarch64.whl", aarch64_wheel.name)
    with zipfile.ZipFile(aarch64_wheel) as wheel:
        libraries = [name for name in wheel.namelist() if name.endswith(".so")]
        assert sorted(libraries) == [KERNELS.format("c"), KERNELS.format("neon"), RELAY]
        for library in libraries:
            assert wheel.read(library)[ELF_MACHINE : ELF_MACHINE + 2] == AARCH64


@pytest.mark.thorough
def test_the_relay_runs_on_another_machine(aarch64_wheel: Path, tmp_path: Path) -> None:
    """The wheel's library, emulated, with the campaign's fuzzer as an imitation of Triton.

    It passes valid and damaged frames both ways, and counts what is released and sent.
    """
    with zipfile.ZipFile(aarch64_wheel) as wheel:
        wheel.extract(RELAY, tmp_path)
    library = (tmp_path / RELAY).rename(tmp_path / "_relay.so")
    fuzzer = _compile_fuzzer(tmp_path, library)
    system = debian.unpack(tmp_path / "system", "qemu-user-static", "libc6-arm64-cross") / "usr"
    emulator = [system / "bin/qemu-aarch64-static", "-L", system / "aarch64-linux-gnu"]
    done = subprocess.run(
        [*map(str, emulator), str(fuzzer), str(ROUNDS), "1", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    assert counted["frames"] > ROUNDS
    assert counted["requests"] == counted["released"] > 0
    assert counted["responses"] == counted["sent"] > 0


def _compile_fuzzer(folder: Path, library: Path) -> Path:
    """A program for aarch64, linked with the relay's library."""
    tests = REPOSITORY / "tests"
    sources = [tests / "campaigns/relay/fuzz.c", tests / "relay/imitation.c"]
    flags = ["-O1", "-std=gnu11", "-rdynamic", "-pthread", "-Wl,-rpath,$ORIGIN"]
    include = [f"-I{REPOSITORY / 'serving/dragoman_serving/relay'}", f"-I{tests / 'relay'}"]
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        "aarch64-linux-gnu.2.28",
        *flags,
        *include,
    ]
    program = folder / "fuzz"
    subprocess.run([*command, *map(str, sources), str(library), "-o", str(program)], check=True)
    return program


@pytest.fixture(scope="module")
def installed(
    python: str, wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    with installing(tmp_path_factory.mktemp("empty"), wheels, "serve", python) as installed:
        yield installed


@pytest.fixture(scope="module")
def server(installed: Installed) -> Iterator[ServeCommand]:
    with installed.serving() as server:
        yield server


def test_the_shipped_model_is_served(installed: Installed, server: ServeCommand) -> None:
    answer = send(f"{server.http}/v2/models/translate/generate", SENTENCE)
    assert answer.json["text_output"] == "Guten Morgen."
    done = installed.dragoman(
        "translate", "--url", server.grpc, "--target-language", "de", "Good morning."
    )
    assert (done.returncode, done.stdout) == (0, "Guten Morgen.\n")
    log = server.log.splitlines()
    kept, first, loaded, *others = log
    assert kept == "dragoman: the model's 8-bit weights are kept for later starts"
    assert first.startswith("dragoman: model en-de-fr: int8 (native, ")
    assert loaded.startswith("dragoman: model en-de-fr: loaded in ")
    assert [line.partition(" ")[0] for line in others] == ["settings:", "the", "ready:"], log


def test_the_compiled_libraries_are_found(installed: Installed) -> None:
    done = installed.dragoman("doctor")
    assert "the relay between Triton and the engine is compiled" in done.stdout + done.stderr


def test_a_bundle_is_published(installed: Installed) -> None:
    (bundle,) = installed.folder.glob("v/lib/*/site-packages/dragoman_model/translate/1/bundle")
    assert installed.dragoman("publish", str(bundle), "--to", "mine").returncode == 0
    assert (installed.folder / "mine" / "translate" / "config.pbtxt").is_file()


@pytest.mark.parametrize(
    ("words", "module", "extra"),
    [
        (("load-test", "--url", "URL", "--windows", "1"), "dragoman_load_test", "load-test"),
        (("train", "--text", "a", "b", "--out", "run"), "torch", "train"),
    ],
)
def test_a_missing_extra_is_named(
    installed: Installed, server: ServeCommand, words: tuple[str, ...], module: str, extra: str
) -> None:
    done = installed.dragoman(*(server.grpc if word == "URL" else word for word in words))
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"dragoman {words[0]}: {module} is not installed: pip install 'dragoman[{extra}]'"
    )
