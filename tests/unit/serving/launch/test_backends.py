from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dragoman_serving.launch import backends
from dragoman_serving.launch.backends import (
    Installation,
    RelayForm,
    compiled_relay,
    lay_out_backends,
)

from dragoman.kernel.errors import UsageError


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """As the wheel has it: the stub lies elsewhere."""
    server = tmp_path / "server"
    for name in ("python", "identity"):
        (server / "backends" / name).mkdir(parents=True)
        (server / "backends" / name / f"libtriton_{name}.so").write_text(name)
    stub = server / "stubs" / "triton_python_backend_stub"
    stub.parent.mkdir()
    stub.write_text("stub")
    return Installation(server / "tritonserver", server / "backends", stub, (), embedded=True)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


OURS = frozenset({"dragoman"})


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As where the relay was compiled."""
    library = tmp_path / "_relay.so"
    library.write_text("compiled")
    monkeypatch.setattr(backends, "compiled_relay", lambda: library)
    return library


@pytest.mark.usefixtures("compiled")
def test_only_the_backends_that_models_name_are_there(
    installation: Installation, scratch: Path
) -> None:
    folder = lay_out_backends(installation, OURS | {"identity", "missing"}, None, scratch)
    assert names(folder) == {"identity", "dragoman"}
    assert (folder / "identity" / "libtriton_identity.so").read_text() == "identity"


@pytest.mark.usefixtures("compiled")
def test_the_python_backend_is_there_for_a_model_that_names_it(
    installation: Installation, scratch: Path
) -> None:
    folder = lay_out_backends(installation, OURS | {"python"}, None, scratch)
    assert names(folder / "python") == {"libtriton_python.so", "triton_python_backend_stub"}
    # Triton resolves links, and refuses a library that lies elsewhere.
    library = folder / "python" / "libtriton_python.so"
    assert library.resolve() == folder.resolve() / "python" / "libtriton_python.so"


@pytest.mark.parametrize(
    ("is_compiled", "asked", "laid_out"),
    [
        (True, None, "libtriton_dragoman.so"),
        (True, "native", "libtriton_dragoman.so"),
        (True, "python", "model.py"),
        (False, None, "model.py"),
        (False, "python", "model.py"),
    ],
)
def test_the_compiled_relay_is_used_where_there_is_one(
    installation: Installation,
    scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
    compiled: Path,
    is_compiled: bool,
    asked: RelayForm | None,
    laid_out: str,
) -> None:
    monkeypatch.setattr(backends, "compiled_relay", lambda: compiled if is_compiled else None)
    folder = lay_out_backends(installation, OURS, asked, scratch)
    ours = folder / "dragoman"
    assert names(ours) == {laid_out}
    assert (ours / laid_out).read_text()
    assert (folder / "python").exists() == (laid_out == "model.py")


def test_a_relay_that_was_not_compiled_cannot_be_asked_for(
    installation: Installation, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "compiled_relay", lambda: None)
    with pytest.raises(UsageError, match="there is no compiled relay"):
        lay_out_backends(installation, OURS, "native", scratch)


def test_a_container_keeps_its_stub_beside_the_backend(
    installation: Installation, scratch: Path
) -> None:
    own = installation.backends / "python" / "triton_python_backend_stub"
    own.write_text("the container's")
    container = Installation(installation.binary, installation.backends, None, (), embedded=False)
    folder = lay_out_backends(container, OURS, "python", scratch)
    assert (folder / "python" / own.name).read_text() == "the container's"


def test_the_relay_is_compiled_where_it_could_be() -> None:
    """Else the slower one would be served, and nobody would know."""
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    assert compiled_relay() is not None
