"""What a server says of itself: its version, languages, options and limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dragoman_options.table import INFO

from dragoman_client.errors import ServerError
from dragoman_client.tensors import Array

_DAMAGED = (AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading something else raises."""


@dataclass(frozen=True)
class LanguagePair:
    """A direction of a server.

    Attributes:
        source: language.
        target: language.
        models: names of the bundles that translate it, the preferred one first; with `via`, that of
            each leg.
        via: the pivot language; None: the direction is a direct one.
    """

    source: str
    target: str
    models: tuple[str, ...]
    via: str | None = None


@dataclass(frozen=True)
class ServerInfo:
    """What a server says of itself.

    Attributes:
        version: of Dragoman.
        models: Triton's models, such as "translate".
        languages: between which it translates, such as "en" and "de".
        directions: pairs of source and target language, direct ones first.
        bundles: the models that translate: each one's `name`, which the option `model` takes,
            `identity`, `precision`, `runtime`, `instruction_set` and `directions`.
        options: what a request may ask, by name: its `type`, `range`, `default`, `help`, and more.
        limits: numbers by name, such as `request_sentences`.
        metrics_port: of Triton's metrics; None: unknown.
        pairs: the directions, in the same order, with the models that translate them. A server that
            is older than they are has direct ones alone, and does not name the models.
    """

    version: str
    models: tuple[str, ...]
    languages: tuple[str, ...]
    directions: tuple[tuple[str, str], ...]
    bundles: tuple[Mapping[str, Any], ...]
    options: Mapping[str, Mapping[str, Any]]
    limits: Mapping[str, float]
    metrics_port: int | None
    pairs: tuple[LanguagePair, ...] = ()

    @classmethod
    def of(cls, outputs: Mapping[str, Array | None]) -> Self:
        """Read the answer of the model `info`.

        Args:
            outputs: tensors by name: `info` object, of UTF-8 bytes with JSON.

        Raises:
            ServerError: it is something else.
        """
        try:
            written = outputs[INFO]
            assert written is not None
            found = json.loads(written.reshape(-1)[0])
            return cls(
                version=str(found["version"]),
                models=tuple(map(str, found["models"])),
                languages=tuple(map(str, found["languages"])),
                directions=tuple((str(src), str(tgt)) for src, tgt in found["directions"]),
                pairs=_pairs(found),
                bundles=tuple(map(dict, found["bundles"])),
                options={str(one["name"]): dict(one) for one in found["options"]},
                limits=dict(found["limits"]),
                metrics_port=found["metrics_port"],
            )
        except _DAMAGED as error:
            raise ServerError(f"the server does not say what it is: {error!r}") from error


def _pairs(found: Mapping[str, Any]) -> tuple[LanguagePair, ...]:
    if "pairs" in found:
        return tuple(map(_pair, found["pairs"]))
    return tuple(LanguagePair(str(src), str(tgt), ()) for src, tgt in found["directions"])


def _pair(found: Mapping[str, Any]) -> LanguagePair:
    via = found["via"]
    return LanguagePair(
        str(found["source"]),
        str(found["target"]),
        tuple(map(str, found["models"])),
        None if via is None else str(via),
    )
