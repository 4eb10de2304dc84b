"""Downloads corpora of the registry and writes them as text, complete or not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman_training.public_text.corpora import Corpus, FetchedText
from dragoman_training.public_text.download import (
    LOCK,
    Download,
    RemoteFile,
    discard,
    fetch,
    remember,
)
from dragoman_training.public_text.unpacking import Damaged, write_text
from dragoman_training.text.parallel_text import other_forms
from dragoman_training.transfer import Watch

log = logging.getLogger(__name__)

_DOWNLOADS = ".downloads"


def fetch_corpora(
    corpora: Sequence[Corpus],
    data_dir: Path,
    watch: Callable[[str], Watch] = lambda _what: lambda _done, _total: None,
) -> Iterator[tuple[str, int]]:
    """Download corpora and write their texts, one file for each side.

    Existing texts are left as they are. A corpus's downloads are removed once it is written.

    Args:
        corpora: what to download.
        data_dir: where the texts' prefixes start.
        watch: returns the progress callback for a URL or for a text's prefix.

    Yields:
        The prefix of each text that was written, and its number of pairs.

    Raises:
        UsageError: a download fails or is not as expected, the disk cannot be written, or an
            existing file in another form would hide the new one.
    """
    downloads = data_dir / _DOWNLOADS
    fetched: dict[RemoteFile, Download] = {}
    try:
        for number, corpus in enumerate(corpora):
            missing = [text for text in corpus.texts if not _is_written(text, data_dir)]
            for source in corpus.sources if missing else ():
                if source not in fetched:
                    what = (source, downloads, data_dir / LOCK, watch(source.url))
                    fetched[source] = fetch(*what)
            files = [fetched[source] for source in corpus.sources if missing]
            for text in missing:
                yield from _write(text, files, data_dir, watch(text.prefix)).items()
            later = set(chain.from_iterable(corpus.sources for corpus in corpora[number + 1 :]))
            for source in set(corpus.sources) - later:
                (downloads / source.name).unlink(missing_ok=True)
                fetched.pop(source, None)
    finally:
        if downloads.is_dir() and not any(downloads.iterdir()):
            downloads.rmdir()


def _is_written(text: FetchedText, data_dir: Path) -> bool:
    """Whether the text exists; a side in another form would hide the written one."""
    paths = text.files(data_dir)
    if all(path.exists() for path in paths):
        return True
    for path in paths:
        for other in other_forms(path):
            raise UsageError(f"{path}: {other} exists, and one would hide the other; remove it")
    return False


def _write(
    text: FetchedText, downloads: Sequence[Download], data_dir: Path, watch: Watch
) -> dict[str, int]:
    """Write a text and record its downloads, or remove a damaged download."""
    try:
        counts = write_text(text, [download.path for download in downloads], data_dir, watch)
    except Damaged as error:
        for download in downloads:
            if download.path == error.file:
                discard(download, data_dir / LOCK)
        raise UsageError(f"{error}; it has been removed, run it again to download it") from error
    for download in downloads:
        remember(download, data_dir / LOCK)
    total = sum(counts.values())
    if text.pairs not in (None, total):
        log.warning("%s: has %d pairs, the registry says %d", text.prefix, total, text.pairs)
    return counts
