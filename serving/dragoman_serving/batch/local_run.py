"""Translates chunks in this process, several in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from dragoman_serving.batch.chunks import Chunk
from dragoman_serving.batch.tally import Tally


def run_here(
    chunks: Iterable[Chunk], do: Callable[[Chunk], Tally], concurrency: int
) -> Iterator[Tally]:
    """Translate chunks, and yield the tally of each as soon as it is finished.

    Args:
        chunks: chunks to translate.
        do: translates one chunk.
        concurrency: number of parallel chunks; with several, the next one starts while the last
            rows of another are translated.

    Raises:
        Exception: an error of `do`; running chunks are finished first.
    """
    under_way: set[Future[Tally]] = set()
    with ThreadPoolExecutor(concurrency, thread_name_prefix="dragoman-chunks") as pool:
        for chunk in chunks:
            if len(under_way) == concurrency:
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
            under_way.add(pool.submit(do, chunk))
        for future in under_way:
            yield future.result()
