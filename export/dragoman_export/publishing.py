"""Makes Triton model repositories from bundles; needs neither torch nor onnx."""

from __future__ import annotations

import shutil
from pathlib import Path

from dragoman_options.table import SCORE, STREAM, TRANSLATE
from dragoman_serving.service.model_config import config_text

from dragoman.kernel.manifest import Manifest
from dragoman.kernel.replacement import check_folder, replace_folder
from dragoman_export.triton_configs import GRAPHS, graph_configs

_GRAPH_CONFIG = """\
# The bundle's graph of this name, for a decoding loop of your own; loaded only on request:
#   dragoman serve --load encoder decoder
# Its inputs and outputs are those in the bundle's manifest.
name: "{name}"
backend: "python"
instance_group [ {{ count: 1 kind: KIND_CPU }} ]
"""
_GRAPH_MODEL = '''\
"""Triton's entry to the bundle's graph of the model's name."""

from dragoman_serving.relay.graph_model import graph_model

TritonPythonModel = graph_model(__file__)
'''


def publish(bundle: Path, repository: Path, force: bool = False) -> None:
    """Make a Triton model repository that serves a bundle.

    Args:
        bundle: a bundle.
        repository: folder to create.
        force: replace a repository that this function wrote.

    Raises:
        UsageError: `repository` exists and may not be replaced, or the bundle is incomplete.
    """
    check_folder(repository, force, _own_files)
    manifest = Manifest.load(bundle)
    partial = repository.with_name(f".{repository.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for path, text in repository_files(manifest).items():
        (partial / path).parent.mkdir(parents=True, exist_ok=True)
        (partial / path).write_text(text, encoding="utf-8")
    target = partial / TRANSLATE / "1" / "bundle"
    target.mkdir(parents=True)
    for name in manifest.own_files:
        shutil.copyfile(bundle / name, target / name)
    replace_folder(partial, repository)


def repository_of(bundle: Path) -> Path | None:
    """The repository that contains a bundle, or None."""
    model = bundle.resolve().parent.parent
    is_part = (model / "config.pbtxt").is_file() and bundle.resolve() == model / "1" / "bundle"
    return model.parent if is_part else None


def _own_files(repository: Path) -> list[str]:
    """The files that `publish` wrote into a repository; see `replacement.OwnFiles`."""
    bundle = repository / TRANSLATE / "1" / "bundle"
    manifest = Manifest.load(bundle)
    of_bundle = [str((bundle / name).relative_to(repository)) for name in manifest.own_files]
    return [*repository_files(manifest), *of_bundle]


def repository_files(manifest: Manifest) -> dict[str, str]:
    """The files of a repository except the bundle, by their paths in it."""
    served = (TRANSLATE, STREAM, SCORE)
    return {
        **{f"{model}/config.pbtxt": config_text(model) for model in served},
        # Triton requires a folder for each version.
        **{f"{model}/1/.gitkeep": "" for model in served if model != TRANSLATE},
        **{f"{graph}/config.pbtxt": _GRAPH_CONFIG.format(name=graph) for graph in GRAPHS},
        **{f"{graph}/1/model.py": _GRAPH_MODEL for graph in GRAPHS},
        **graph_configs(manifest),
    }
