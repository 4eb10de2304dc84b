"""Downloads Firefox's translation models from Mozilla's servers, each file checked by its SHA-256.

The files of a model come from one entry of one list, so that versions are never mixed. The registry
on Google Cloud is tried first. Its entries have the digest of the main file alone; Firefox's
records, which describe the same model, have those of the others. If the registry cannot be reached,
all files come from the records.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.installation import install_command
from dragoman.kernel.manifest import sha256
from dragoman.kernel.replacement import replacing
from dragoman.kernel.settings import read_json
from dragoman_training.firefox.catalogue import (
    MODEL,
    Offer,
    Pair,
    RemoteFile,
    choose,
    has_pair,
    offers_of_records,
    offers_of_registry,
    with_digests,
)
from dragoman_training.marian.hub import Fetched, OnProgress
from dragoman_training.patience import Unavailable, download, forbidden, is_offline
from dragoman_training.secure_http import Hop, is_secure
from dragoman_training.transfer import PIECE_BYTES, PartialFile

log = logging.getLogger(__name__)

REGISTRY_URL = (
    "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data"
    "/db/models.json"
)
RECORDS_URL = (
    "https://firefox.settings.services.mozilla.com/v1/buckets/main/collections"
    "/translations-models-v2/records"
)
FILES_URL = "https://firefox-settings-attachments.cdn.mozilla.net"
LICENCE = "MPL-2.0"
_LICENCE_NOTE = (
    "the licence of the repository that held Mozilla's models until 2025, "
    "https://github.com/mozilla/firefox-translations-models; newer models state none"
)
_PREFIX = "DRAGOMAN_FIREFOX_"
_MOST_LIST_BYTES = 64 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Downloaded:
    """A folder with a model's files, as `import_student` reads it.

    In `fetched`, the digest of the model's main file stands for a commit.
    """

    folder: Path
    fetched: Fetched


@dataclass(frozen=True)
class Mozilla:
    """The servers that have the models.

    Attributes:
        registry_url: of `models.json`.
        records_url: of Firefox's records.
        files_url: where the records' files are.
        offline: refuse to download anything.

    Raises:
        UsageError: a URL is not secure.
    """

    registry_url: str = REGISTRY_URL
    records_url: str = RECORDS_URL
    files_url: str = FILES_URL
    offline: bool = False
    _lists: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("registry_url", "records_url", "files_url"):
            url = getattr(self, name)
            try:
                secure = is_secure(url)
            except ValueError:
                secure = False
            if not secure:
                raise UsageError(f"{_PREFIX}{name.upper()} is {url!r}: give one with https://")

    @classmethod
    def of_environment(cls, offline: bool = False) -> Mozilla:
        """The servers that `DRAGOMAN_FIREFOX_REGISTRY_URL` and the like name."""
        return cls(
            os.environ.get(f"{_PREFIX}REGISTRY_URL") or REGISTRY_URL,
            os.environ.get(f"{_PREFIX}RECORDS_URL") or RECORDS_URL,
            os.environ.get(f"{_PREFIX}FILES_URL") or FILES_URL,
            offline or is_offline(),
        )

    def check_online(self, word: str) -> None:
        """Check that downloads are allowed.

        Raises:
            UsageError: they are not.
        """
        if self.offline:
            raise forbidden(word)

    def find(self, word: str, pair: Pair, architecture: str | None, folder: Path) -> Offer:
        """The model for a pair, by Mozilla's lists.

        Args:
            word: as the user named it, for errors.
            pair: source and target language.
            architecture: the only one that is wanted; None: any.
            folder: for the lists; must exist.

        Raises:
            UsageError: there is no such model, or both lists are unavailable.
        """
        self.check_online(word)
        registered: list[Offer] = []
        try:
            values = self._list(self.registry_url, folder)
            registered = offers_of_registry(values, self.registry_url)
        except UsageError as error:
            log.warning("%s; trying %s", error, self.records_url)
        try:
            recorded = self._records(folder)
        except UsageError as error:
            if not registered:
                raise
            log.warning("%s; it has the digests of the smaller files", error)
            recorded = []
        if has_pair(registered, pair):
            return with_digests(choose(registered, pair, architecture, word), recorded)
        return choose(recorded or registered, pair, architecture, word)

    def fetch(self, word: str, offer: Offer, folder: Path, on_progress: OnProgress) -> Downloaded:
        """Download a model's files; from the records' servers if the registry's lack one.

        Args:
            word: as the user named it.
            offer: the model.
            folder: for its files; must exist. Those of an earlier call are kept or resumed.
            on_progress: see `OnProgress`.

        Raises:
            UsageError: a file is not available, or has another digest.
        """
        self.check_online(word)
        log.info("%s: %s", word, offer)
        log.info("%s: licence %s, %s", word, LICENCE, _LICENCE_NOTE)
        own = folder / offer.sha256[:16]
        with writing(own):
            own.mkdir(exist_ok=True)
        try:
            return _fetch_all(word, offer, own, on_progress)
        except Unavailable as error:
            same = (record for record in self._records(folder) if record.sha256 == offer.sha256)
            other = next(same, offer)
            if other.files[MODEL].url == offer.files[MODEL].url:
                raise
            log.warning("%s; trying %s", error, self.files_url)
            return _fetch_all(word, other, own, on_progress)

    def _records(self, folder: Path) -> list[Offer]:
        values = self._list(self.records_url, folder)
        return offers_of_records(values, self.files_url, self.records_url)

    def _list(self, url: str, folder: Path) -> Any:
        """A list of models; it is downloaded once."""
        if url not in self._lists:
            name = f"list-{hashlib.sha256(url.encode()).hexdigest()[:8]}.json"
            path = folder / name
            _download(url, folder / f".{name}.packed", lambda _done, _size: None)
            _unpack(folder / f".{name}.packed", path, _MOST_LIST_BYTES, url)
            self._lists[url] = read_json(path)
            path.unlink()
        return self._lists[url]


def _fetch_all(word: str, offer: Offer, folder: Path, on_progress: OnProgress) -> Downloaded:
    """Download all files of a model; the largest last, so that a missing one is noticed early."""
    if unknown := [file.name for file in offer.files.values() if file.sha256 is None]:
        log.warning("%s: no digest is published of %s", word, ", ".join(unknown))
    for role in sorted(offer.files, key=lambda role: role == MODEL):
        _fetch(offer.files[role], folder, on_progress)
    digests = {file.name: sha256(folder / file.name) for file in offer.files.values()}
    return Downloaded(folder, Fetched(offer.sha256, digests))


def _fetch(file: RemoteFile, folder: Path, on_progress: OnProgress) -> None:
    """Download, unpack and verify a file, unless it is there."""
    path, packed = folder / file.name, folder / f".{file.name}.packed"
    if file.sha256 is not None and path.exists() and sha256(path) == file.sha256:
        return
    _download(file.url, packed, lambda done, size: on_progress(file.name, done, size))
    _unpack(packed, path, file.size_bytes, file.url)
    digest = sha256(path)
    if file.sha256 is not None and digest != file.sha256:
        path.unlink()
        raise UsageError(f"{file.url}: has SHA-256 {digest}, Mozilla states {file.sha256}")


def _download(url: str, packed: Path, watch: Callable[[int, int | None], None]) -> None:
    def accept(_answers: list[Hop]) -> int | None:
        return None

    download(url, PartialFile(packed, _version_of(packed)), accept, watch)


def _unpack(packed: Path, path: Path, most_bytes: int, url: str) -> None:
    """Decompress a file, by its first bytes; the compressed file is removed."""
    size = 0
    try:
        with (
            packed.open("rb") as source,
            writing(path),
            replacing(path) as (partial,),
            partial.open("wb") as target,
        ):
            for piece in _pieces(source, url):
                size += len(piece)
                if size > most_bytes:
                    raise _Damaged(f"{url}: has more than {most_bytes} bytes")
                target.write(piece)
    except _Damaged:
        _remove_packed(packed)  # it must not be resumed
        raise
    _remove_packed(packed)


class _Damaged(UsageError):
    """A compressed file is damaged."""


def _remove_packed(packed: Path) -> None:
    for path in (packed, _version_of(packed)):
        path.unlink(missing_ok=True)


def _version_of(packed: Path) -> Path:
    return packed.with_name(f"{packed.name}.version")


def _pieces(source: IO[bytes], url: str) -> Iterator[bytes]:
    start = source.read(len(_ZSTD))
    source.seek(0)
    if start == _ZSTD:
        yield from _pieces_of_zstd(source, url)
        return
    unpacked = gzip.GzipFile(fileobj=source) if start.startswith(_GZIP) else source
    try:
        while piece := unpacked.read(PIECE_BYTES):
            yield piece
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _Damaged(f"{url}: is damaged: {error}") from error


def _pieces_of_zstd(source: IO[bytes], url: str) -> Iterator[bytes]:
    if find_spec("zstandard") is None:
        raise UsageError(f"{url}: unpacking it needs zstandard: {install_command('import')}")
    import zstandard

    try:
        reader = zstandard.ZstdDecompressor().stream_reader(source)
        while piece := reader.read(PIECE_BYTES):
            yield piece
    except zstandard.ZstdError as error:
        raise _Damaged(f"{url}: is damaged: {error}") from error
