"""The options for each leg of a request through a pivot language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dragoman_options.table import OPTIONS

from dragoman.kernel.errors import InvalidRequest
from dragoman_serving.request.checks import check_options


class Legs(NamedTuple):
    """Options by name: into the pivot language, and from it into the target language."""

    first: dict[str, Any]
    last: dict[str, Any]


def legs_of(given: Mapping[str, Any], languages: Sequence[str], model: str) -> Legs:
    """Returns the options of both legs.

    Args:
        given: options of the request.
        languages: source, pivot and target language.
        model: name of the Triton model.

    Raises:
        InvalidRequest: an option is not valid, or not available through a pivot language.
    """
    source, pivot, target = languages
    options: dict[str, Any] = {**check_options(given, model, None)}
    for name in options:
        if OPTIONS[name].legs == "none":
            raise InvalidRequest(
                f"{name}: not through a pivot language, but from {source!r} into {target!r} this "
                f"server translates only through {pivot!r}",
                "unsupported",
                name,
            )
    both = {name: value for name, value in options.items() if OPTIONS[name].legs == "both"}
    return Legs(
        both | {"source_language": source, "target_language": pivot},
        options | {"source_language": pivot, "target_language": target},
    )
