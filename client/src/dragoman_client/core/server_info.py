"""Information about a server: its version, languages, options and limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dragoman_options.table import INFO

from dragoman_client.core.errors import ServerError
from dragoman_client.core.tensors import Values

_DAMAGED = (AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions from parsing an answer of another form."""


@dataclass(frozen=True)
class LanguagePair:
    """A translation direction of a server.

    Attributes:
        source: source language.
        target: target language.
        models: names of the bundles for this direction, the preferred one first; with `via`, one
            for each of the two steps.
        via: the pivot language; None for a direct translation.
    """

    source: str
    target: str
    models: tuple[str, ...]
    via: str | None = None


@dataclass(frozen=True)
class ServerInfo:
    """Information about a server.

    Attributes:
        version: version of Dragoman.
        models: Triton's models, such as "translate".
        languages: languages that the server translates between, such as "en" and "de".
        directions: pairs of source and target language, direct ones first.
        bundles: the translation models, each with its `name` (a value of the option `model`),
            `identity`, `precision`, `runtime`, `instruction_set` and `directions`.
        options: the options of a request by name, each with its `type`, `range`, `default`, `help`
            and more.
        limits: limits by name, such as `request_sentences`; `sentence_tokens`: longer sentences
            are cut.
        metrics_port: port of Triton's metrics; None: unknown.
        pairs: the directions, in the same order, with their models. For an older server that does
            not send them: the direct ones, without models.
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
    def of(cls, outputs: Mapping[str, Values | None]) -> Self:
        """Parse the answer of the model `info`.

        Args:
            outputs: elements by name; `info` has JSON in UTF-8 bytes.

        Raises:
            ServerError: the answer does not have this form.
        """
        try:
            written = outputs[INFO]
            assert written is not None
            info = json.loads(written[0])
            return cls(
                version=str(info["version"]),
                models=tuple(map(str, info["models"])),
                languages=tuple(map(str, info["languages"])),
                directions=tuple((str(src), str(tgt)) for src, tgt in info["directions"]),
                pairs=_pairs(info),
                bundles=tuple(map(dict, info["bundles"])),
                options={str(option["name"]): dict(option) for option in info["options"]},
                limits=dict(info["limits"]),
                metrics_port=info["metrics_port"],
            )
        except _DAMAGED as error:
            raise ServerError(f"the server does not say what it is: {error!r}") from error


def _pairs(info: Mapping[str, Any]) -> tuple[LanguagePair, ...]:
    if "pairs" in info:
        return tuple(map(_pair, info["pairs"]))
    return tuple(LanguagePair(str(src), str(tgt), ()) for src, tgt in info["directions"])


def _pair(pair: Mapping[str, Any]) -> LanguagePair:
    via = pair["via"]
    return LanguagePair(
        str(pair["source"]),
        str(pair["target"]),
        tuple(map(str, pair["models"])),
        None if via is None else str(via),
    )
