"""Writes the software bill of materials of an environment, in CycloneDX.

    python -m deploy.software_bill ENVIRONMENT/bin/python dist/dragoman-serve.cdx.json

`cyclonedx-py` lists the installed distributions with their licences. This script adds the libraries
inside wheels and the tools that built our own wheels.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from importlib.metadata import Distribution, distributions, metadata
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

BUILD_LOCK = Path(__file__).parents[1] / "locks" / "build.txt"
PYTRITON = "nvidia-pytriton"
EMBEDDED = {"0.7.0": "24.10"}
"""The Triton release in each release of nvidia-pytriton."""


def main() -> int:
    """Write the bill of an environment."""
    python, out = sys.argv[1:]
    command = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible")
    listed = run(*command, "--no-validate", python)  # it is validated below
    folder = run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'), end='')")
    bill = complete(json.loads(listed), list(distributions(path=[folder])))
    text = json.dumps(bill, indent=1)
    if fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        print(f"{out}: {fault}", file=sys.stderr)
        return 1
    Path(out).write_text(text + "\n", encoding="utf-8")
    print(out)
    return 0


def run(*command: str) -> str:
    """Run a command; returns its standard output."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def complete(bill: dict[str, Any], installed: list[Distribution]) -> dict[str, Any]:
    """Add the components that a bill of `cyclonedx-py` lacks.

    Args:
        bill: of an environment.
        installed: the distributions in the environment.
    """
    known = {canonicalize_name(distribution.name): distribution for distribution in installed}
    for component in bill["components"]:
        name = canonicalize_name(component["name"])
        if name not in known:
            continue
        for licence in known[name].metadata.get_all("License", []):
            component.setdefault("licenses", [{"license": {"name": licence.splitlines()[0]}}])
        inside = list(bundled_libraries(known[name]))
        if name == PYTRITON:
            inside.append(embedded_triton(component["version"]))
        if inside:
            component["components"] = inside
    bill["components"] += build_tools()
    return bill


def bundled_libraries(distribution: Distribution) -> list[dict[str, Any]]:
    """Third-party shared libraries in a wheel, which `auditwheel` puts into a folder."""
    return [
        {
            "type": "library",
            "name": path.name,
            "bom-ref": str(path),
            "hashes": [{"alg": "SHA-256", "content": _hexadecimal(path.hash.value)}],
        }
        for path in distribution.files or ()
        if ".libs/" in str(path) and path.hash is not None
    ]


def embedded_triton(pytriton: str) -> dict[str, Any]:
    """The Triton inside the wheel of nvidia-pytriton."""
    release = EMBEDDED[pytriton]
    return {
        "type": "application",
        "name": "triton-inference-server",
        "version": release,
        "bom-ref": f"triton-inference-server-{release}",
        "cpe": f"cpe:2.3:a:nvidia:triton_inference_server:{release}:*:*:*:*:*:*:*",
        "licenses": [{"license": {"id": "BSD-3-Clause"}}],
    }


def build_tools() -> list[dict[str, Any]]:
    """The tools that compiled and packed our wheels; they are not installed."""
    lines = BUILD_LOCK.read_text().splitlines()
    tools = [Requirement(line.rstrip("\\ ")) for line in lines if "==" in line]
    return [
        {
            "type": "application",
            "name": tool.name,
            "version": (version := next(iter(tool.specifier)).version),
            "bom-ref": f"build-{tool.name}",
            "purl": f"pkg:pypi/{tool.name}@{version}",
            "scope": "excluded",
            "licenses": [{"expression": metadata(tool.name)["License-Expression"]}],
        }
        for tool in tools
    ]


def _hexadecimal(digest: str) -> str:
    """Convert a digest from a wheel's RECORD, which is base64 without padding."""
    return base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex()


if __name__ == "__main__":
    sys.exit(main())
