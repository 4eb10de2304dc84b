"""Chooses the bundle's TensorRT plans that fit this machine."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest, PlanEntry, sha256

BUILD = "dragoman export tensorrt"
PlanKey = tuple[str, int | None]
"""A graph, and its cache length if that is fixed."""


@dataclass(frozen=True)
class Target:
    """The library, GPU and precision that plans must have been built for."""

    library: str
    version: str
    compute_capability: str
    precision: str


def fitting_plans(bundle: Path, manifest: Manifest, target: Target) -> dict[PlanKey, PlanEntry]:
    """Returns the plans to load, with checked files.

    Raises:
        UsageError: there are no plans, they were built for another TensorRT, GPU, precision or
            other weights, or a file was changed; the message gives the reason.
    """
    if all(plan.plain for plan in manifest.plans):
        raise UsageError(f"{bundle}: has no TensorRT plans: run {BUILD} {bundle}")
    of_engine = [plan for plan in manifest.plans if not plan.plain]
    plans = {(p.graph, p.cache_tokens): p for p in of_engine if not _misfits(p, target)}
    if not plans:
        reasons = sorted({"; ".join(_misfits(plan, target)) for plan in of_engine})
        raise UsageError(f"{bundle}: no TensorRT plan fits: {reasons[0]}: run {BUILD} {bundle}")
    for plan in plans.values():
        _check(bundle, manifest, plan)
    missing = set(manifest.decoding_graphs) - {graph for graph, _ in plans}
    if missing:
        raise UsageError(f"{bundle}: has no plan of {sorted(missing)[0]}: run {BUILD} {bundle}")
    return plans


def cache_lengths(plans: Iterable[PlanKey]) -> tuple[int, ...]:
    """Returns the cache lengths of the decoders, in ascending order."""
    return tuple(sorted(tokens for _, tokens in plans if tokens is not None))


def most_rows(plans: Mapping[PlanKey, PlanEntry]) -> int:
    """Returns the maximum rows that every decoder can take."""
    return min(
        profile["input_ids"][-1][0]
        for (graph, _), plan in plans.items()
        if graph == "decoder"
        for profile in plan.profiles[:1]
    )


def fitting_profile(plan: PlanEntry, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Returns the first profile that takes inputs of these shapes.

    Raises:
        UsageError: no profile takes them.
    """
    for index, profile in enumerate(plan.profiles):
        if all(
            all(
                low <= size <= high
                for low, size, high in zip(smallest, shape, largest, strict=True)
            )
            for name, shape in shapes.items()
            for smallest, _, largest in (profile[name],)
        ):
            return index
    raise UsageError(f"{plan.file}: was built for smaller shapes than {dict(shapes)}")


def _misfits(plan: PlanEntry, target: Target) -> list[str]:
    here = f"{platform.system()}-{platform.machine()}".lower()
    compared = (
        ("precision", plan.precision, target.precision),
        ("library", plan.library, target.library),
        (f"{plan.library} version", plan.version, target.version),
        ("GPU's compute capability", plan.compute_capability, target.compute_capability),
        ("platform", plan.platform, here),
    )
    return [
        f"{what}: built for {built}, here is {actual}"
        for what, built, actual in compared
        if built != actual
    ]


def _check(bundle: Path, manifest: Manifest, plan: PlanEntry) -> None:
    for name, digest in plan.built_from.items():
        if manifest.files.get(name) != digest:
            raise UsageError(
                f"{bundle / plan.file}: was built from another {name}: run {BUILD} {bundle}"
            )
    try:
        actual = sha256(bundle / plan.file)
    except OSError as error:
        raise UsageError(f"{bundle / plan.file}: cannot be read: {error.strerror}") from error
    if actual != plan.sha256:
        raise UsageError(f"{bundle / plan.file}: is not the file that was built (SHA-256 differs)")
