"""Making Triton model repositories out of bundles; needs neither torch nor onnx."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import FILE_NAME, Manifest
from dragoman_export.triton_configs import graph_configs

_LANGUAGES = re.compile(r'(key: "languages" value: \{ string_value: )"[^"]*"')


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
    config = partial / "translate" / "config.pbtxt"
    config.write_text(_with_languages(config, manifest.languages), encoding="utf-8")
    for path, text in graph_configs(manifest).items():
        (partial / path).parent.mkdir(exist_ok=True)
        (partial / path).write_text(text, encoding="utf-8")
    os.replace(partial, repository)


def _with_languages(config: Path, languages: Sequence[str]) -> str:
    """The model's configuration, with its comments, that names these languages."""
    text = config.read_text(encoding="utf-8")
    named, count = _LANGUAGES.subn(rf'\g<1>"{",".join(languages)}"', text)
    if count != 1:
        raise UsageError(f"{config}: has no parameter 'languages' to write the bundle's into")
    return named
