from __future__ import annotations

from pathlib import Path

import pytest
from dragoman_serving.launch import backends
from dragoman_serving.launch.backends import Installation, find_relay, lay_out_backends

from dragoman.kernel.errors import UsageError


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """An installation like the wheel's, in which the stub is in another folder."""
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
    """A file in place of the compiled relay."""
    library = tmp_path / "_relay.so"
    library.write_text("compiled")
    monkeypatch.setattr(backends, "find_relay", lambda: library)
    return library


@pytest.mark.usefixtures("compiled")
def test_only_backends_that_models_name_are_installed(
    installation: Installation, scratch: Path
) -> None:
    folder = lay_out_backends(installation, OURS | {"identity", "missing"}, scratch)
    assert names(folder) == {"identity", "dragoman"}
    assert (folder / "identity" / "libtriton_identity.so").read_text() == "identity"


@pytest.mark.usefixtures("compiled")
def test_the_python_backend_is_installed_for_a_model_that_names_it(
    installation: Installation, scratch: Path
) -> None:
    folder = lay_out_backends(installation, OURS | {"python"}, scratch)
    assert names(folder / "python") == {"libtriton_python.so", "triton_python_backend_stub"}
    # Triton resolves links, and refuses a library that is elsewhere.
    library = folder / "python" / "libtriton_python.so"
    assert library.resolve() == folder.resolve() / "python" / "libtriton_python.so"


@pytest.mark.usefixtures("compiled")
def test_our_backend_is_the_compiled_relay(installation: Installation, scratch: Path) -> None:
    folder = lay_out_backends(installation, OURS, scratch)
    assert names(folder) == {"dragoman"}
    assert names(folder / "dragoman") == {"libtriton_dragoman.so"}
    assert (folder / "dragoman" / "libtriton_dragoman.so").read_text() == "compiled"


def test_a_relay_that_was_not_compiled_is_named(
    installation: Installation, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "find_relay", lambda: None)
    with pytest.raises(UsageError, match=r"^Triton's backend dragoman is not compiled: .*ziglang"):
        lay_out_backends(installation, OURS, scratch)


@pytest.mark.usefixtures("compiled")
def test_a_container_keeps_its_stub_beside_the_backend(
    installation: Installation, scratch: Path
) -> None:
    own = installation.backends / "python" / "triton_python_backend_stub"
    own.write_text("the container's")
    container = Installation(installation.binary, installation.backends, None, (), embedded=False)
    folder = lay_out_backends(container, OURS | {"python"}, scratch)
    assert (folder / "python" / own.name).read_text() == "the container's"


def test_the_relay_was_compiled_at_installation() -> None:
    assert find_relay() is not None
