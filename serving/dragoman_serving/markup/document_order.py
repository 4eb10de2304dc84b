"""The document order of placed codes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from dragoman_options.markup import Span


def document_order(parents: Sequence[int | None], spans: Sequence[Span]) -> list[int]:
    """Returns the indices of codes in the order in which they begin, each after its parent.

    Args:
        parents: for each code, the index of the code that encloses it.
        spans: the span of each code; the codes of one parent do not overlap.
    """
    children: dict[int | None, list[int]] = defaultdict(list)
    for index, parent in enumerate(parents):
        children[parent].append(index)

    def backwards(parent: int | None) -> list[int]:
        return sorted(children[parent], key=lambda index: (spans[index], index), reverse=True)

    order: list[int] = []
    waiting = backwards(None)
    while waiting:
        order.append(waiting.pop())
        waiting += backwards(order[-1])
    return order
