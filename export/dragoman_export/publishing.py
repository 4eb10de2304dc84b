"""Making Triton model repositories out of bundles; needs neither torch nor onnx."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import FILE_NAME, Manifest
from dragoman_export.triton_configs import graph_configs


def publish(bundle: Path, repository: Path, skeleton: Path) -> None:
    """Make a Triton model repository that serves a bundle.

    Args:
        bundle: a bundle.
        repository: folder to make.
        skeleton: the project's own model repository, for its configurations.

    Raises:
        UsageError: `repository` exists, or the bundle is not whole.
    """
    if repository.exists():
        raise UsageError(f"{repository}: exists already; name another folder, or remove it")
    manifest = Manifest.load(bundle)
    partial = repository.with_name(f".{repository.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    left_behind = shutil.ignore_patterns("bundle", "__pycache__")
    shutil.copytree(skeleton, partial, ignore=left_behind)
    target = partial / "translate" / "1" / "bundle"
    target.mkdir(parents=True)
    for name in (*manifest.files, *(plan.file for plan in manifest.plans), FILE_NAME):
        shutil.copyfile(bundle / name, target / name)
    for path, text in graph_configs(manifest).items():
        (partial / path).parent.mkdir(exist_ok=True)
        (partial / path).write_text(text, encoding="utf-8")
    os.replace(partial, repository)
