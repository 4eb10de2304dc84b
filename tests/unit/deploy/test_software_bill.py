"""What the software bill adds to the list of distributions, and their licences."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
from base64 import urlsafe_b64encode
from importlib.metadata import Distribution, metadata
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from deploy.software_bill import EMBEDDED, PYTRITON, build_tools, complete, main
from tests.unit.test_locks import versions

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SERVED = versions("serve.txt", PYTHON, platform.machine())
ALLOWED = re.compile(r"Apache|BSD|\bCMU|\bISC\b|\bMIT\b|MPL|Mozilla|PSF|Python Software|Zope|ZPL")


@pytest.mark.parametrize("name", SERVED)
def test_no_served_package_is_under_the_gpl(name: str) -> None:
    """The licences come from the metadata of the distributions."""
    headers = metadata(name)
    fields = [headers.get_all(f, []) for f in ("License-Expression", "License", "Classifier")]
    declared = [*fields[0], *(word[:80] for word in fields[1])]
    declared += [word for word in fields[2] if word.startswith("License")]
    text = "; ".join(declared)
    assert ALLOWED.search(text), text
    assert "GPL" not in text
    assert "GNU" not in text


def distribution(folder: Path, name: str, *lines: str, record: str = "") -> Distribution:
    """An installed distribution."""
    info = folder / f"{name}.dist-info"
    info.mkdir()
    head = ["Metadata-Version: 2.4", f"Name: {name}", "Version: 0.7.0", *lines]
    (info / "METADATA").write_text("\n".join(head) + "\n")
    (info / "RECORD").write_text(record)
    return Distribution.at(info)


def test_libraries_inside_a_wheel_are_listed(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"library")
    base64 = urlsafe_b64encode(digest.digest()).decode().rstrip("=")
    record = f"a/code.so,sha256={base64},7\na.libs/libssl.so.3,sha256={base64},7\n"
    installed = [
        distribution(tmp_path, "nvidia_pytriton", "License: Apache 2.0", record=record),
        distribution(tmp_path, "other", "License: Apache 2.0"),
    ]
    known = [{"license": {"id": "MIT"}}]
    listed = [
        {"name": "nvidia-pytriton", "version": "0.7.0"},
        {"name": "other", "version": "0.7.0", "licenses": known},
        {"name": "editable", "version": "1"},
    ]
    pytriton, other, editable, *tools = complete({"components": listed}, installed)["components"]
    library, triton = pytriton["components"]
    assert (library["name"], library["hashes"][0]["content"]) == (
        "libssl.so.3",
        digest.hexdigest(),
    )
    assert (triton["name"], triton["version"]) == ("triton-inference-server", "24.10")
    assert pytriton["licenses"] == [{"license": {"name": "Apache 2.0"}}]
    assert (other["licenses"], "components" in other) == (known, False)
    assert editable == {"name": "editable", "version": "1"}
    assert tools == build_tools()


@pytest.mark.thorough
def test_the_bill_of_an_environment_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command exits with 1 if CycloneDX's schema is violated."""
    monkeypatch.setattr(sys, "argv", ["software_bill", sys.executable, str(tmp_path / "bill")])
    assert main() == 0
    listed = {
        component["name"]: component
        for component in json.loads((tmp_path / "bill").read_text())["components"]
    }
    inside = {component["name"] for component in listed[PYTRITON]["components"]}
    assert "triton-inference-server" in inside
    assert any(name.startswith("libtritonserver") for name in inside)
    assert {canonicalize_name(name) for name in listed} >= SERVED.keys()


def test_build_tools_are_listed_as_not_installed() -> None:
    tools = {tool["name"]: tool for tool in build_tools()}
    assert {name: tool["version"] for name, tool in tools.items()} == versions("build.txt", PYTHON)
    assert {tool["scope"] for tool in tools.values()} == {"excluded"}
    assert all(tool["licenses"] == [{"expression": "MIT"}] for tool in tools.values())


def test_the_embedded_triton_of_the_locked_wheel_is_known() -> None:
    assert SERVED[PYTRITON] in EMBEDDED
