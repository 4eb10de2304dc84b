"""The order of codes once they are placed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from dragoman_options.markup import Span


def document_order(parents: Sequence[int | None], spans: Sequence[Span]) -> list[int]:
    """Indices of codes in the order in which they begin, each behind its parent.

    Args:
        parents: of each code, the index of the one that encloses it.
        spans: of each code; those of one parent do not overlap.
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
