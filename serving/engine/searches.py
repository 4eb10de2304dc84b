"""Which form a search takes here."""

from __future__ import annotations

from serving.engine.mixed_searches import MixedSearches
from serving.engine.native.library import MOST_BEST, obstacle
from serving.engine.native.searches import NativeSearches
from serving.engine.search import BeamSearches, GreedySearches, Searches


def begin_searches(width: int, end_id: int) -> Searches:
    """Searches of a width, compiled where they can be."""
    plain: Searches
    if obstacle() is None and 2 * width <= MOST_BEST:
        plain = NativeSearches(width, end_id)
    else:
        plain = GreedySearches(end_id) if width == 1 else BeamSearches(end_id)
    return MixedSearches(plain, width, end_id)
