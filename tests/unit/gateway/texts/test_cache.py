"""Cached translations: keys, and the memory limit."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

from dragoman_client import LanguagePair, ServerInfo, TokenScores, Translation
from dragoman_gateway.texts.cache import Cache, CacheKeys, fingerprint
from dragoman_options.table import OPTIONS
from hypothesis import given, settings
from hypothesis import strategies as st

SMALL = st.text("a|:,\"'{}[]=\\ä", max_size=4)
REQUESTS = st.tuples(
    st.binary(max_size=2),
    SMALL,
    st.dictionaries(
        st.sampled_from(sorted(OPTIONS)),
        st.one_of(st.integers(0, 2), SMALL, st.booleans(), st.tuples(SMALL, SMALL)),
        max_size=2,
    ),
    SMALL,
    st.tuples(SMALL, SMALL),
    st.dictionaries(SMALL, SMALL, max_size=2),
    st.one_of(st.none(), SMALL),
)


def key_of(request: tuple[Any, ...]) -> bytes:
    server, owner, options, text, direction, terms, prefix = request
    return CacheKeys(server, owner, options).key(text, direction, terms, prefix)


def form(request: tuple[Any, ...]) -> str:
    """Differences between requests; 1 and True are not the same option."""
    server, owner, options, *others, terms, prefix = request
    return repr((server, owner, sorted(options.items()), others, sorted(terms.items()), prefix))


@given(REQUESTS, REQUESTS)
@settings(max_examples=200)
def test_different_requests_have_different_keys(
    first: tuple[Any, ...], other: tuple[Any, ...]
) -> None:
    assert (key_of(first) == key_of(other)) == (form(first) == form(other))


@given(REQUESTS, st.integers(0, 6), st.data())
def test_each_part_of_a_request_counts(
    request: tuple[Any, ...], index: int, data: st.DataObject
) -> None:
    """Keys of requests that are equal except for one part."""
    changed = (*request[:index], data.draw(REQUESTS)[index], *request[index + 1 :])
    assert (key_of(request) == key_of(changed)) == (form(request) == form(changed))


def test_the_fingerprint_depends_on_what_runs_a_bundle() -> None:
    def server(version: str = "1", via: str | None = None, **bundle: Any) -> bytes:
        known = {"identity": "x", "precision": "int8", **bundle}
        info = ServerInfo(
            version,
            (),
            (),
            (),
            (known,),
            {},
            {"max_beam_width": 8},
            None,
            (LanguagePair("de", "fr", ("a", "b"), via),),
        )
        return fingerprint(info)

    assert (
        len(
            {
                server(),
                server("2"),
                server(identity="y"),
                server(precision="fp32"),
                server(via="en"),
            }
        )
        == 5
    )
    assert server() == server()


def test_the_least_recently_used_is_dropped() -> None:
    cache = Cache(3000)
    for number in range(4):
        cache.put(bytes([number]), Translation("x", 1, "stop"))
    held = cache.counts.entries
    for number in range(4, 100):
        cache.put(bytes([number]), Translation("x", 1, "stop"))
        assert cache.get(bytes([3])) is not None
        assert cache.counts.size_bytes <= 3000
    assert cache.get(bytes([0])) is None
    assert cache.counts.entries == held or cache.counts.entries > 1
    assert (cache.counts.hits, cache.counts.misses) == (96, 1)


def test_entries_larger_than_the_limit_are_not_kept() -> None:
    for most_bytes in (0, 500):
        cache = Cache(most_bytes)
        cache.put(b"k", Translation("x" * 1000, 1, "stop"))
        assert cache.counts.entries == cache.counts.size_bytes == 0


def test_an_entry_that_is_put_again_counts_once() -> None:
    cache = Cache(10_000)
    for _ in range(3):
        cache.put(b"k", Translation("x", 1, "stop"))
    once = cache.counts.size_bytes
    cache.put(b"k", Translation("xy", 1, "stop"))
    assert (cache.counts.entries, cache.counts.size_bytes) == (1, once + 1)


def test_memory_stays_within_the_limit() -> None:
    """The test compares the size that Python measures."""
    gc.collect()
    tracemalloc.start()
    try:
        cache = Cache(2 << 20)
        for number in range(20_000):
            text = f"Sätze, {number}, die länger sind " * (number % 5)
            scores = None
            if not number % 10:
                scores = TokenScores((f"a{number}", "b"), (number / 7, 0.1))
            translation = Translation(text, 300 + number, "stop", token_scores=scores)
            cache.put(number.to_bytes(32), translation)
        del translation, text, scores
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.counts.size_bytes > 1.9 * (1 << 20)
    assert taken < 1.1 * (2 << 20)
