"""Makes the uploads for a training on a rented GPU without a network, in the folder `.gpu/`.

Every step whose result is there is skipped; to repeat a step, remove its result.
"""

from __future__ import annotations

import argparse
import logging
import lzma
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dragoman_training.config import RunConfig, resolve
from dragoman_training.run.run_text import RunText
from dragoman_training.steps.processes import join

from dragoman.kernel.manifest import FILE_NAME, Manifest
from lab.gpu import packing
from lab.gpu.remote import FOLDER, RECIPES, STUDENT, TEACHER, recipe

LIMIT_BYTES = 54 << 20
SHIPPED = Path("model_repository/translate/1/bundle")
GENERAL = RECIPES / "en-de-fr-general.toml"
_ENCODED, _TOKENIZER = "encoded-text", "tokenizer.model"
_ARCHITECTURE = 90
"""Compute capability 9.0: H100, H200."""
_ONNX_RUNTIME = "onnxruntime-gpu"
_LEFT_OUT = ("onnxruntime/transformers", "onnxruntime/quantization", "onnxruntime/tools")
_PACKAGES = (
    *("absl-py", "tensorboard", "hypothesis", "sortedcontainers", "pytest"),
    *("pluggy", "iniconfig", "rich", "markdown-it-py", "mdurl", "pygments"),
)
"""Packages that a machine for training may lack; without what they require themselves."""
_KERNELS = Path("serving/dragoman_serving/engine/compiled")

log = logging.getLogger("prepare")


def clean(corpora: Path, eflomal: Path) -> None:
    """Clean the corpora, and link their words."""
    linked, text = FOLDER / "corpora", FOLDER / "text"
    if text.exists():
        return
    linked.mkdir(exist_ok=True)
    for folder in corpora.iterdir():
        if folder.is_dir() and not (linked / folder.name).exists():
            (linked / folder.name).symlink_to(folder.resolve())
    partial = FOLDER / "text.partial"
    words: tuple[object, ...] = ("--config", GENERAL, "--force", "--data-dir")
    if not (partial / "cleaning.json").exists():
        _python("lab.quality.everyday_phrases", "--write", linked)
        _python("dragoman", "clean", *words, linked, "--out", partial)
    _python("dragoman", "link-words", *words, partial, "--eflomal", eflomal)
    partial.rename(text)


def encode(run: Path, recipes: Sequence[Path]) -> None:
    """Encode the text of recipes that share it, with the shipped model's vocabulary."""
    if run.exists():
        return
    partial = run.with_name(f"{run.name}.partial")
    partial.mkdir(exist_ok=True)
    shutil.copy(SHIPPED / _TOKENIZER, partial)
    configs = [resolve(path, []) for path in recipes]
    first, *others = (_text_of(config) for config in configs)
    if any(other != first for other in others):
        raise SystemExit(f"{' and '.join(map(str, recipes))} have different data.train")
    RunText(configs[0], FOLDER / "text", partial, partial / _TOKENIZER, join())
    partial.rename(run)


def _text_of(config: RunConfig) -> object:
    """All of the settings that determines the encoded text; the weights do not."""
    corpora = [replace(corpus, weight=1.0) for corpus in config.data.train]
    return corpora, config.data.max_length_tokens, config.alignment.weight is None


def pack_text(run: Path, config: RunConfig, python_version: str) -> None:
    """Pack the encoded corpora into `run-a`, with all else that a run needs, and `run-b`."""
    uploads = [FOLDER / f"run-{letter}.tar.xz" for letter in "ab"]
    if all(upload.exists() for upload in uploads):
        return
    base = FOLDER / "base"
    base.mkdir(exist_ok=True)
    shutil.copy(run / _TOKENIZER, base)
    _copy_kernels(base / "kernels")
    _install(base / "site", python_version)
    for corpus in config.data.valid:
        for language in corpus.languages or config.data.languages:
            (text_file,) = (FOLDER / "text").glob(f"{corpus.prefix}.{language}*")
            target = base / "text" / text_file.relative_to(FOLDER / "text")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(text_file, target)
    parts = [_compress(FOLDER / "base.tar.xz", {path: path.name for path in base.iterdir()})]
    for number, corpus in enumerate(config.data.train):
        name = f"{_ENCODED}/{number}"
        shrunk = FOLDER / "packed" / name
        shutil.copytree(run / name, shrunk, dirs_exist_ok=True)
        packing.shrink_ends(shrunk)
        parts.append(_compress(FOLDER / f"text-{number}.tar.xz", {shrunk: name}))
        print(f"{parts[-1].stat().st_size / 2**20:8.1f} MiB  {corpus.prefix}")
    # The largest first, each into the smaller upload.
    packed: tuple[list[Path], list[Path]] = [parts.pop(0)], []
    for part in sorted(parts, key=_size, reverse=True):
        min(packed, key=lambda members: sum(map(_size, members))).append(part)
    for upload, members in zip(uploads, packed, strict=True):
        with upload.open("wb") as file:
            for member in members:  # one after the other, xz and tar are one archive
                file.write(member.read_bytes())


def _size(path: Path) -> int:
    return path.stat().st_size


def _copy_kernels(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for library in _KERNELS.glob("*.so"):
        shutil.copy(library, folder)


def _install(site: Path, version: str) -> None:
    words = ("-q", "--no-deps", "--no-compile", "--upgrade", "--target", site, *_PACKAGES)
    _python("pip", "install", *words, "--python-version", version, "--only-binary=:all:")
    for pattern in ("*.js", "webfiles.zip"):  # TensorBoard's page
        for path in site.rglob(pattern):
            path.unlink()


def pack_onnx_runtime(python_version: str) -> None:
    """Download ONNX Runtime for CUDA, drop other GPUs' machine code, compress it in two parts."""
    if len(list(FOLDER.glob("ort.tar.xz.*"))) == 2:
        return
    folder = FOLDER / "ort"
    shutil.rmtree(folder / "site", ignore_errors=True)
    if not list(folder.glob("*.whl")):
        words = ("--no-deps", "-q", "-d", folder, _ONNX_RUNTIME, "--only-binary=:all:")
        _python("pip", "download", *words, "--python-version", python_version)
    (wheel,) = folder.glob("*.whl")
    shutil.unpack_archive(wheel, folder / "site", "zip")
    for name in _LEFT_OUT:
        shutil.rmtree(folder / "site" / name, ignore_errors=True)
    (provider,) = (folder / "site").rglob("libonnxruntime_providers_cuda.so")
    kept, zeroed = packing.zero_other_architectures(provider, _ARCHITECTURE)
    print(f"machine code: {kept / 1e6:.0f} MB kept, {zeroed / 1e6:.0f} MB of other GPUs dropped")
    members = {path: path.name for path in (folder / "site").iterdir()}
    packing.split(_compress(folder / "ort.tar.xz", members), FOLDER, LIMIT_BYTES)


def _compress(archive: Path, members: dict[Path, str]) -> Path:
    """Write files into an archive, compressed by xz with one thread."""
    if not archive.exists():
        partial = archive.with_suffix(".partial")
        with (
            lzma.open(partial, "wb", preset=6) as file,
            tarfile.open(fileobj=file, mode="w|") as tar,
        ):
            for path, name in members.items():
                tar.add(path, name)
        partial.rename(archive)
    return archive


def _python(module: str, *words: object) -> None:
    log.info("python -m %s %s", module, " ".join(map(str, words)))
    subprocess.run([sys.executable, "-m", module, *map(str, words)], check=True)


def main() -> int:
    """Make everything, print the sizes; exit code 1 if an upload is too large."""
    parser = argparse.ArgumentParser(prog="lab/gpu/prepare.sh", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--eflomal", type=Path, required=True, help="the program eflomal-align")
    parser.add_argument("--python-version", default="3.12", help="of the GPU's machine")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    FOLDER.mkdir(exist_ok=True)
    clean(arguments.data_dir, arguments.eflomal)
    run, recipes = FOLDER / "run", [recipe(TEACHER), recipe(STUDENT)]
    encode(run, recipes)
    pack_text(run, resolve(recipes[0], []), arguments.python_version)
    pack_onnx_runtime(arguments.python_version)
    oracle = FOLDER / "oracle.json"
    if not oracle.exists():
        words = ("--data-dir", arguments.data_dir, "--write-oracle", oracle)
        _python("lab.gpu.gpu_check", *words)
    shipped = FOLDER / "shipped.tar"
    with tarfile.open(shipped, "w") as tar:
        # The manifest comes last: once it is there, so is all.
        for name in (*Manifest.load(SHIPPED).files, FILE_NAME):
            tar.add(SHIPPED / name, f"shipped/{name}")
    uploads = [
        shipped,
        *sorted(FOLDER.glob("run-?.tar.xz")),
        *sorted(FOLDER.glob("ort.tar.xz.?")),
        oracle,
    ]
    return 0 if packing.check_sizes(uploads, LIMIT_BYTES) else 1


if __name__ == "__main__":
    sys.exit(main())
