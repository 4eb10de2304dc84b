"""Converts a model's source to a checked bundle in the cache."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman_serving.engine.compiled.cpu import exact_int8_products
from dragoman_training.firefox.catalogue import Offer, Pair
from dragoman_training.firefox.mozilla import LICENCE, Mozilla
from dragoman_training.firefox.original_student import OriginalStudent
from dragoman_training.firefox.student_importing import StudentFolder, import_student, is_student
from dragoman_training.marian.hub import Fetched, Hub, OnProgress
from dragoman_training.marian.importing import FILES, import_marian
from dragoman_training.marian.languages import Languages
from dragoman_training.marian.original import Original, OriginalMarian
from dragoman_training.run.checkpoint_folder import TGT_TOKENIZER, TOKENIZER, WEIGHTS

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest, sha256
from dragoman_export.checks import Graphs, Outcome, count_failed
from dragoman_export.graph_checks import digest, digest_outcome, fp32_tokens, verify_graphs
from dragoman_export.models.model_cache import CachedModel, ModelCache, ModelRecord
from dragoman_export.models.model_source import ModelSource
from dragoman_export.models.probe_texts import probe_texts

if TYPE_CHECKING:
    from dragoman_export.bundle import Storage

log = logging.getLogger(__name__)

PYTORCH, GRAPHS = "PyTorch", "its graphs in fp32"
_WITH_PYTORCH = 6
"""Number of sentences translated by PyTorch, which has no KV cache and also uses beam 4."""


@dataclass(frozen=True)
class Converter:
    """Converts model sources to bundles.

    Attributes:
        cache: stores them.
        on_progress: called with the progress of downloads.
        offline: download nothing.
        languages: of the model, if its files do not state them.
        exact: whether ONNX Runtime's 8-bit products are exact on this CPU.
    """

    cache: ModelCache
    on_progress: OnProgress
    offline: bool = False
    languages: Languages = field(default_factory=Languages)
    exact: bool = field(default_factory=exact_int8_products)

    @cached_property
    def _mozilla(self) -> Mozilla:
        """Mozilla's servers; their lists are read once."""
        return Mozilla.of_environment(self.offline)

    def bundle(self, source: ModelSource) -> Path:
        """The checked bundle of a source; it is made if it does not exist.

        A cached model of a hub is used as it is; a checkpoint is converted again if it changed.

        Raises:
            UsageError: the source is damaged, of another kind, or cannot be downloaded.
        """
        if source.kind == "bundle":
            assert source.path is not None
            Manifest.load(source.path)
            return source.path
        with self.cache.locked(source):
            model = self.cache.find(source)
            if model is None or self._is_outdated(source, model):
                model = self._made(source)
            else:
                self._check_for_this_cpu(model)
        return model.bundle

    def add(self, source: ModelSource) -> Path:
        """Like `bundle`, but ask the hub whether its revision is now another commit.

        Raises:
            UsageError: see `bundle`.
        """
        if source.kind == "bundle":
            return self.bundle(source)
        with self.cache.locked(source):
            model = self.cache.find(source)
            named = self.languages != Languages()
            if model is None or named or self._has_changed(source, model):
                model = self._made(source)
            else:
                self._check_for_this_cpu(model)
        return model.bundle

    def _check_for_this_cpu(self, model: CachedModel) -> None:
        """Repeat the checks of a cached model if they were made on another kind of CPU."""
        if Manifest.read(model.bundle).checked_with_exact_int8 != self.exact:
            log.info(
                "%s: was checked on another kind of CPU; checking it again", model.record.model
            )
            verify_cached(model, self.exact).log(model.record.model)

    def _has_changed(self, source: ModelSource, model: CachedModel) -> bool:
        if source.path is not None:
            return self._is_outdated(source, model)
        with self.cache.downloading(source) as folder:
            if source.pair is not None:
                commit = self._offer(source, source.pair, folder).sha256
            else:
                commit = self._hub(source).commit(source.name, folder, self.on_progress)
        return commit != model.record.commit

    def _is_outdated(self, source: ModelSource, model: CachedModel) -> bool:
        """Whether a checkpoint's files have changed since the conversion."""
        return source.path is not None and _digests(source.path) != model.record.files

    def _hub(self, source: ModelSource) -> Hub:
        return Hub.of_environment(source.revision, offline=self.offline)

    def _made(self, source: ModelSource) -> CachedModel:
        # Serving a cached model needs no onnx. If it is missing, this fails before the download.
        from dragoman_export import bundle  # noqa: F401

        begin_s = time.monotonic()
        if source.path is not None:
            fetched = Fetched(None, _digests(source.path))
            made = self._converted(source, source.path, fetched)
        else:
            with self.cache.downloading(source) as folder:
                files, fetched = self._fetched(source, folder)
                try:
                    made = self._converted(source, files, fetched)
                except UsageError as error:  # the message names the temporary folder
                    raise UsageError(str(error).replace(str(files), source.name)) from error
        log.info("%s: converted and checked in %.1f s", source, time.monotonic() - begin_s)
        return made

    def _fetched(self, source: ModelSource, folder: Path) -> tuple[Path, Fetched]:
        """Download a model's files; returns their folder."""
        if source.pair is not None:
            offer = self._offer(source, source.pair, folder)
            downloaded = self._mozilla.fetch(str(source), offer, folder, self.on_progress)
            return downloaded.folder, downloaded.fetched
        hub = self._hub(source)
        hub.check_online(source.name)
        log.info("%s: downloading from %s", source, hub.endpoint)
        fetched = hub.fetch(source.name, folder, self.on_progress)
        log.info("%s: commit %s", source, fetched.commit)
        return folder, fetched

    def _offer(self, source: ModelSource, pair: Pair, folder: Path) -> Offer:
        return self._mozilla.find(str(source), pair, source.architecture, folder)

    def _converted(self, source: ModelSource, folder: Path, fetched: Fetched) -> CachedModel:
        """Convert a folder with a checkpoint, ours or Marian's."""
        from dragoman_export.bundle import export_bundle
        from dragoman_export.models.original_check import check_original

        log.info("%s: converting", source)
        with self.cache.making(source) as scratch:
            checkpoint, bundle = folder, scratch / "bundle"
            storage: Storage = "fp16"
            original: Original | None = None
            if source.kind in ("firefox", "student"):
                checkpoint, storage = scratch / "checkpoint", "int8"
                languages = self.languages
                if source.pair is not None:
                    languages = Languages(source.pair[:1], ((source.pair[1], None),))
                import_student(folder, checkpoint, languages, source.name)
                original = OriginalStudent(folder)
            elif source.kind != "checkpoint":
                checkpoint = scratch / "checkpoint"
                name = source.name if source.kind == "hub" else None
                config = import_marian(folder, checkpoint, self.languages, name)
                original = OriginalMarian(folder, config.imported.tags if config.imported else {})
            if original is not None:
                check_original(str(source), original, checkpoint)
            manifest = export_bundle(checkpoint, bundle, storage)
            report = check(bundle, self.exact)
            report.record(manifest, bundle)
            report.log(str(source))
            record = ModelRecord(
                model=str(source),
                name=source.short_name,
                files=fetched.digests,
                reference=report.reference,
                fp32_tokens=report.fp32_tokens,
                commit=fetched.commit,
                licence=LICENCE if source.kind == "firefox" else None,
            )
            return self.cache.put(source, bundle, record)


@dataclass(frozen=True)
class Report:
    """The outcomes of a bundle's checks.

    Attributes:
        reference: what it was compared with.
        fp32_tokens: digest of what its graphs translate in fp32.
        exact: whether ONNX Runtime's 8-bit products were exact.
    """

    outcomes: tuple[Outcome, ...]
    reference: str
    fp32_tokens: str
    exact: bool

    @property
    def failures(self) -> list[Outcome]:
        """The checks that failed."""
        return [outcome for outcome in self.outcomes if outcome.failed]

    def record(self, manifest: Manifest, bundle: Path) -> None:
        """Write the outcome into the bundle's manifest; loading uses it to choose precisions."""
        manifest.record_checks(bundle, count_failed(self.outcomes), self.exact)

    def log(self, name: str) -> None:
        """Log the outcome."""
        for outcome in self.failures:
            log.warning("%s: check failed: %s: %s", name, outcome.check, outcome.detail)
        passed = [outcome.passed for outcome in self.outcomes if outcome.passed is not None]
        log.info(
            "%s: %d of %d checks passed, against %s",
            name,
            sum(passed),
            len(passed),
            self.reference,
        )


def check(bundle: Path, exact: bool, recorded: str | None = None) -> Report:
    """Compare a bundle with PyTorch if it is installed, else its graphs with each other.

    Args:
        bundle: folder of the bundle.
        exact: whether ONNX Runtime's 8-bit products are exact on this CPU.
        recorded: earlier digest of what its graphs translate in fp32, if known.

    Raises:
        UsageError: the bundle is damaged.
    """
    manifest = Manifest.load(bundle)
    tokenizer = manifest.open_tokenizer(bundle)
    texts = probe_texts(manifest, tokenizer)
    sources = [tokenizer.encode_source(text, target) for text, target in texts]
    most = manifest.limits.max_source_tokens
    sources = [ids for ids in sources if len(ids) <= most]
    graphs = Graphs(bundle, manifest)
    tokens = fp32_tokens(graphs, sources)
    if find_spec("torch") is None:
        outcomes, reference = verify_graphs(graphs, sources, tokens, exact), GRAPHS
    else:
        from dragoman_export.parity import verify

        outcomes, reference = verify(bundle, texts[:_WITH_PYTORCH], exact, graphs), PYTORCH
    all_outcomes = list(outcomes)
    if recorded is not None:
        all_outcomes.append(digest_outcome(tokens, recorded))
    return Report(tuple(all_outcomes), reference, digest(tokens), exact)


def verify_cached(model: CachedModel, exact: bool) -> Report:
    """Check a cached model again, and record the outcome; see `check`.

    Raises:
        UsageError: it is damaged.
    """
    report = check(model.bundle, exact, model.record.fp32_tokens)
    report.record(Manifest.read(model.bundle), model.bundle)  # `check` has checked its files
    return report


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of the files of a checkpoint, ours, Marian's or Firefox's."""
    if is_student(folder):
        return {path.name: sha256(path) for path in StudentFolder.of(folder).all}
    names = dict.fromkeys((*FILES, WEIGHTS, TOKENIZER, TGT_TOKENIZER))
    return {name: sha256(folder / name) for name in names if (folder / name).is_file()}
