"""Reads a Triton model repository, and checks whether it can be served here."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dragoman_options.table import SCORE, STREAM, TRANSLATE
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import FILE_NAME, Manifest
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.models.footprint import check_memory
from dragoman_serving.models.loading import Layout, choose_layout
from dragoman_serving.models.routes import (
    IN_REPOSITORY,
    Bundle,
    Routes,
    check_names,
    read_bundles,
)
from dragoman_serving.service.configuration import engine_settings, request_rules
from dragoman_serving.service.model_config import BACKEND, config_text
from dragoman_serving.service.models_to_serve import ModelsToServe

MODEL = TRANSLATE
FURTHER_MODELS = (STREAM, SCORE)
"""More models, which use the engine of `translate`."""
_NO_PARAMETERS: Mapping[str, str] = {}


class Repository:
    """A checked repository.

    Attributes:
        path: its folder.
        models: names of the models to load.
        backends: names of the Triton backends of these models.
        layout: layout of the engine for the bundle; None if the model has another backend.
        parameters: settings of the engine, and rules for requests.
        to_serve: the bundle, and the engine's settings for models.
    """

    def __init__(
        self,
        path: Path,
        more_models: Sequence[str] = (),
        config: str | None = None,
        parameters: Mapping[str, str] = _NO_PARAMETERS,
        to_serve: ModelsToServe | None = None,
    ) -> None:
        """Check the repository for errors that Triton would only report in its log.

        Args:
            path: folder of the repository.
            more_models: models to load besides those that translate.
            config: name of the configurations to use, for models that have it.
            parameters: parameters that override those in the configuration of `translate`.
            to_serve: the engine's settings for models, with which its bundle is served.

        Raises:
            UsageError: a model is missing, its configuration or bundle is damaged, or its settings
                are not available on this machine.
        """
        self.path, self._config = path, config
        if not (path / MODEL / "config.pbtxt").is_file():
            raise UsageError(
                f"{path}: holds no model {MODEL!r} ({MODEL}/config.pbtxt is missing); "
                "make a repository with: dragoman publish BUNDLE --to DIR"
            )
        for name in more_models:
            if not self._has(name):
                raise UsageError(f"{path}: holds no model {name!r} to load")
        if config is not None and not any(
            (path / name / "configs" / f"{config}.pbtxt").is_file() for name in more_models
        ):
            raise UsageError(f"none of the models to load has configs/{config}.pbtxt")
        self._bundle = path / MODEL / "1" / IN_REPOSITORY
        if not self._bundle.is_dir():
            raise UsageError(f"{self._bundle}: no model here; make one with: dragoman publish")
        # Streaming and scoring are optional in a repository.
        self.models = [MODEL, *filter(self._has, FURTHER_MODELS)]
        self.models += [name for name in more_models if name not in self.models]
        self.backends = frozenset(map(self._backend, self.models))
        own = self._read_config(MODEL).parameters
        self.parameters = {name: entry.string_value for name, entry in own.items()}
        self.parameters |= parameters
        bundles = (str(self._bundle.absolute()),)
        self.to_serve = replace(to_serve or ModelsToServe(), bundles=bundles)
        self._seen = self._stamp()
        self.layout = self._choose_layout()
        if self.layout is not None:
            _check(self.to_serve, read_bundles([self._bundle]), self._engine_settings())

    def layout_has_changed(self) -> bool:
        """Whether the bundle can run with another layout now, such as newly built TensorRT plans.

        False if the bundle cannot be read, for example while it is being written.
        """
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        self._seen = stamp
        try:
            return self._choose_layout() != self.layout
        except UsageError:
            return False

    def _choose_layout(self) -> Layout | None:
        manifest = Manifest.load(self._bundle)
        if self._backend(MODEL) != BACKEND:
            return None
        return choose_layout(self._engine_settings(), self._bundle, manifest)

    def _engine_settings(self) -> EngineSettings:
        request_rules(self.parameters)
        return engine_settings(self.parameters)

    def _backend(self, model: str) -> str:
        backend: str = self._read_config(model).backend
        if not backend:
            path = self._config_path(model)
            raise UsageError(f'{path}: names no backend; add a line such as backend: "onnxruntime"')
        return backend

    def _read_config(self, model: str) -> ModelConfig:
        return read_config(self._config_path(model))

    def _config_path(self, model: str) -> Path:
        """The configuration of a model that Triton will use."""
        path = self.path / model / "configs" / f"{self._config}.pbtxt"
        if self._config is None or not path.is_file():
            path = self.path / model / "config.pbtxt"
        return path

    def _has(self, model: str) -> bool:
        return (self.path / model / "config.pbtxt").is_file()

    def _stamp(self) -> int:
        """A number that changes with the manifest."""
        try:
            return (self._bundle / FILE_NAME).stat().st_mtime_ns
        except OSError:
            return 0


class BundleList:
    """Checked bundles, which are served without a repository of their own.

    It has the same attributes as `Repository`.
    """

    path = None
    models: Sequence[str] = (MODEL, *FURTHER_MODELS)
    backends = frozenset((BACKEND,))

    def __init__(self, to_serve: ModelsToServe, parameters: Mapping[str, str]) -> None:
        """Check the bundles for errors that would otherwise occur in the engine process.

        Args:
            to_serve: the bundles.
            parameters: parameters of the engine.

        Raises:
            UsageError: there are no bundles, two have the same name, one is damaged, or the
                settings are not available on this machine.
        """
        self.parameters, self.to_serve = parameters, to_serve
        request_rules(parameters)
        bundles = read_bundles([Path(folder) for folder in to_serve.bundles])
        if not bundles:
            raise UsageError("no models to serve: name bundles")
        settings = engine_settings(parameters)
        layouts = [choose_layout(settings, bundle.folder, bundle.manifest) for bundle in bundles]
        self.layout: Layout | None = layouts[0]
        _check(to_serve, bundles, settings)

    @staticmethod
    def layout_has_changed() -> bool:
        """Always false: the engine process itself watches its bundles."""
        return False


def _check(to_serve: ModelsToServe, bundles: Sequence[Bundle], settings: EngineSettings) -> None:
    """Check that bundles can be served as requested."""
    check_names(Routes(bundles, to_serve.pivot), to_serve.pivot, to_serve.preload)
    if to_serve.memory_bytes is not None:
        check_memory(to_serve.memory_bytes, bundles, settings)


def shipped_repository() -> Path:
    """Returns the repository of the shipped model, from a checkout or from `dragoman-model`.

    Raises:
        UsageError: there is neither.
    """
    here = Path("model_repository")
    if here.is_dir():
        return here
    installed = importlib.util.find_spec("dragoman_model")
    if installed is None or installed.origin is None:
        raise UsageError(
            "no model: install dragoman-model, or name a repository with --repository; "
            "make one with: dragoman publish BUNDLE --to DIR"
        )
    return Path(installed.origin).parent


def lay_out(folder: Path, models: Sequence[str]) -> None:
    """Make a repository of the engine's models, without bundles."""
    for model in models:
        (folder / model / "1").mkdir(parents=True)
        (folder / model / "config.pbtxt").write_text(config_text(model), encoding="utf-8")


def read_config(path: Path) -> ModelConfig:
    """Read a model's `config.pbtxt` as Triton reads it.

    Raises:
        UsageError: it cannot be read, or is not valid.
    """
    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), ModelConfig())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not a Triton configuration: {error}") from error
