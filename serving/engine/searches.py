"""Which form a search takes here."""

from __future__ import annotations

from serving.engine.native.beams import NativeBeams
from serving.engine.native.library import obstacle
from serving.engine.search import BeamSearches, GreedySearches, Searches


def begin_searches(width: int, end_id: int) -> Searches:
    """Searches of a width: greedy, or beams, compiled where they can be."""
    if width == 1:
        return GreedySearches(end_id)
    if obstacle() is None:
        return NativeBeams(width, end_id)
    return BeamSearches(end_id)
