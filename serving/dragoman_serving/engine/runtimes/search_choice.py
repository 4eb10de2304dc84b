"""Which form a search takes here."""

from __future__ import annotations

from dragoman_serving.engine.compiled.compiled_ranking import rank
from dragoman_serving.engine.compiled.compiled_searches import NativeSearches
from dragoman_serving.engine.compiled.library import MOST_BEST, obstacle
from dragoman_serving.engine.search.mixed_searches import MixedSearches
from dragoman_serving.engine.search.plain_search import BeamSearches, GreedySearches, Searches


def begin_searches(width: int, end_id: int) -> MixedSearches:
    """Searches of a width, compiled where they can be."""
    plain: Searches
    if obstacle() is None and 2 * width <= MOST_BEST:
        plain = NativeSearches(width, end_id)
    else:
        plain = GreedySearches(end_id) if width == 1 else BeamSearches(end_id)
    return MixedSearches(plain, width, end_id, rank)
