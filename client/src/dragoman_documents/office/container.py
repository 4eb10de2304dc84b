"""ZIP archives: checked when opened, and written with other content of some members.

All other bytes of an archive stay as they are: members, their order, and their headers.

While a document is translated, its new content is a stream of frames, each with the index of a
member and a piece of its content. So a translation can be written in portions, and be resumed; the
archive is put together when all frames are there.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO, Final

MOST_CONTENT_BYTES: Final = 1 << 30
"""Maximum size of all members, decompressed."""
MOST_RATIO: Final = 200
"""Maximum ratio of compression of a member that is read and larger than `_ANY_RATIO_BYTES`."""
_ANY_RATIO_BYTES = 1 << 23
_MOST_MEMBERS = 65_534
"""More need other records, as archives of more than 4 GB do."""
_MOST_ARCHIVE_BYTES = 0xFFFFFFFE
_CHUNK_BYTES = 1 << 16

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_EXTRA = struct.Struct("<HH")
_LOCAL_MARK, _CENTRAL_MARK, _END_MARK = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_WIDE_EXTRA = 1
"""Extra field with sizes of more than 4 GB."""
_ENCRYPTED, _HAS_DESCRIPTOR = 1, 1 << 3
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_FRAME = struct.Struct(">HI")


@dataclass(frozen=True)
class _Entry:
    """A member as the directory lists it.

    Attributes:
        info: the entry, as `zipfile` reads it.
        fields: its fields.
        rest: its name, extra fields and comment.
    """

    info: zipfile.ZipInfo
    fields: tuple[int, ...]
    rest: bytes


@dataclass(frozen=True)
class MemberBegin:
    """In the parts of a document: those after it are of another member.

    Attributes:
        index: index of the member.
    """

    index: int


class Container:
    """A ZIP archive that was checked.

    Attributes:
        names: names of its members, as the directory lists them.
        order: for each, its position in the archive.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Read the directory.

        Args:
            file: the archive; it must be possible to seek in it.

        Raises:
            ValueError: the archive is damaged, or refused; the message says why.
        """
        self._file = file
        try:
            self._archive = zipfile.ZipFile(file)
            self._entries = self._directory()
        except (zipfile.BadZipFile, struct.error, OverflowError, NotImplementedError) as error:
            raise ValueError(f"a damaged or incomplete ZIP archive: {error}") from error
        self.names = [entry.info.filename for entry in self._entries]
        self._indices = {name: index for index, name in enumerate(self.names)}
        self._sorted = sorted(range(len(self.names)), key=self._begin)
        self.order = [0] * len(self.names)
        for position, index in enumerate(self._sorted):
            self.order[index] = position
        self._check()

    def index(self, name: str) -> int | None:
        """Returns the index of a member, or None."""
        return self._indices.get(name)

    def read(self, index: int, most_bytes: int) -> bytes:
        """Returns the content of a small member.

        Raises:
            ValueError: the member is damaged, or larger than `most_bytes`.
        """
        size = self._entries[index].info.file_size
        if size > most_bytes:
            raise ValueError(f"{size} bytes, more than {most_bytes}")
        return b"".join(self.chunks(index))

    def chunks(self, index: int) -> Iterator[bytes]:
        """Yield the content of a member.

        Raises:
            ValueError: the member is damaged, or cannot be decompressed.
        """
        info = self._entries[index].info
        if info.compress_type not in _METHODS:
            raise ValueError(f"compressed by method {info.compress_type}, not by deflate")
        if info.file_size > max(_ANY_RATIO_BYTES, MOST_RATIO * info.compress_size):
            raise ValueError(f"compressed more than {MOST_RATIO}:1")
        try:
            with self._archive.open(info) as member:
                while chunk := member.read(_CHUNK_BYTES):
                    yield chunk
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise ValueError(f"damaged: {error}") from error

    def with_content(self, frames: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the archive with other content of some members.

        A member whose content is the same is copied with its compression.

        Args:
            frames: chunks of frames, in the order of the members.

        Raises:
            ValueError: the frames are not of this archive.
        """
        pieces = _pieces(frames)
        piece = next(pieces, None)
        order = self._sorted
        offset = begin = self._begin(order[0]) if order else self._archive.start_dir
        yield from self._copied(0, begin)
        directory: dict[int, bytes] = {}
        for position, index in enumerate(order):
            begin = self._begin(index)
            end = self._begin(order[position + 1]) if position + 1 < len(order) else None
            written = self._copied(begin, self._archive.start_dir if end is None else end)
            fields: tuple[int, ...] | None = None
            if piece is not None and piece[0] == index:
                draft = _Draft(self._entries[index])
                while piece is not None and piece[0] == index:
                    draft.add(piece[1])
                    piece = next(pieces, None)
                if draft.is_changed:
                    fields, written = draft.finished(self._extra(index))
            directory[index] = _directory_entry(self._entries[index], offset, fields)
            for chunk in written:
                offset += len(chunk)
                yield chunk
        if piece is not None:
            raise ValueError("the translation belongs to another document")
        entries = b"".join(directory[index] for index in range(len(self._entries)))
        yield entries
        number, comment = len(self._entries), self._archive.comment
        yield _END.pack(_END_MARK, 0, 0, number, number, len(entries), offset, len(comment))
        yield comment

    def _directory(self) -> list[_Entry]:
        infos, position = self._archive.infolist(), self._archive.start_dir
        if len(infos) > _MOST_MEMBERS:
            raise zipfile.BadZipFile(f"more than {_MOST_MEMBERS} members")
        entries = []
        for info in infos:
            head = self._bytes(position, _CENTRAL.size)
            _, *fields = _CENTRAL.unpack(head)
            rest = self._bytes(position + _CENTRAL.size, sum(fields[9:12]))
            if rest[fields[9] :] != info.extra + info.comment:  # it ends after the directory
                raise zipfile.BadZipFile("an entry of its directory is damaged")
            entries.append(_Entry(info, tuple(fields), rest))
            position += _CENTRAL.size + len(rest)
        return entries

    def _check(self) -> None:
        seen: set[str] = set()
        for name, entry in zip(self.names, self._entries, strict=True):
            shown = repr(name[:80])
            if "\\" in name or name.startswith("/") or ".." in name.split("/"):
                raise ValueError(f"the member {shown} lies outside of the archive")
            if name.lower() in seen:
                raise ValueError(f"the member {shown} is there twice")
            seen.add(name.lower())
            if entry.info.flag_bits & _ENCRYPTED:
                raise ValueError(f"the member {shown} is encrypted: save it without a password")
        size = sum(entry.info.file_size for entry in self._entries)
        if size > MOST_CONTENT_BYTES:
            raise ValueError(f"its members have {size} bytes, more than {MOST_CONTENT_BYTES}")
        reached = 0
        for index in self._sorted:
            if self._begin(index) < reached:
                raise ValueError(f"the member {self.names[index][:80]!r} overlaps another one")
            head = self._bytes(self._begin(index), _LOCAL.size)
            if len(head) < _LOCAL.size or not head.startswith(_LOCAL_MARK):
                raise ValueError(f"the member {self.names[index][:80]!r} is not in the archive")
            *_, name_bytes, extra_bytes = _LOCAL.unpack(head)
            reached = self._begin(index) + _LOCAL.size + name_bytes + extra_bytes
            reached += self._entries[index].info.compress_size
        if max(reached, self._archive.start_dir) > _MOST_ARCHIVE_BYTES:
            raise ValueError("the archive has more than 4 GB")
        if reached > self._archive.start_dir:
            raise ValueError("a member overlaps the archive's directory")

    def _begin(self, index: int) -> int:
        return self._entries[index].info.header_offset

    def _extra(self, index: int) -> bytes:
        """Returns the extra fields of a member's own header."""
        begin = self._begin(index)
        *_, name_bytes, extra_bytes = _LOCAL.unpack(self._bytes(begin, _LOCAL.size))
        return self._bytes(begin + _LOCAL.size + name_bytes, extra_bytes)

    def _copied(self, begin: int, end: int) -> Iterator[bytes]:
        while begin < end:
            chunk = self._bytes(begin, min(end - begin, _CHUNK_BYTES))
            if not chunk:
                raise ValueError("the document has changed meanwhile")
            begin += len(chunk)
            yield chunk

    def _bytes(self, begin: int, size: int) -> bytes:
        self._file.seek(begin)
        return self._file.read(size)


class _Draft:
    """The new content of a member, compressed as the old one."""

    def __init__(self, entry: _Entry) -> None:
        self._entry = entry
        is_stored = entry.info.compress_type == zipfile.ZIP_STORED
        deflater = None if is_stored else zlib.compressobj(wbits=-zlib.MAX_WBITS)
        self._compress: Callable[[bytes], bytes] = deflater.compress if deflater else bytes
        self._flush: Callable[[], bytes] = deflater.flush if deflater else bytes
        self._chunks: list[bytes] = []
        self._crc = self._size = 0

    def add(self, content: bytes) -> None:
        self._crc = zlib.crc32(content, self._crc)
        self._size += len(content)
        if chunk := self._compress(content):
            self._chunks.append(chunk)

    @property
    def is_changed(self) -> bool:
        """Whether the content is not the old one."""
        info = self._entry.info
        return (self._crc, self._size) != (info.CRC, info.file_size)

    def finished(self, extra: bytes) -> tuple[tuple[int, ...], Iterator[bytes]]:
        """Returns the fields of its directory entry, and the member with its header."""
        chunks = [*self._chunks, self._flush()]
        flags = self._entry.fields[2] & ~_HAS_DESCRIPTOR
        sizes = (self._crc, sum(map(len, chunks)), self._size)
        fields = (*self._entry.fields[:2], flags, *self._entry.fields[3:6], *sizes)
        name, extra = self._entry.rest[: self._entry.fields[9]], _without_wide(extra)
        head = _LOCAL.pack(_LOCAL_MARK, *fields[1:], len(name), len(extra)) + name + extra
        return fields, chain((head,), chunks)


def frame(index: int, content: bytes) -> bytes:
    """Returns a piece of the new content of a member."""
    return _FRAME.pack(index, len(content)) + content


def _pieces(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the index and content of each frame."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        position = 0
        while len(held) - position >= _FRAME.size:
            index, size = _FRAME.unpack_from(held, position)
            end = position + _FRAME.size + size
            if end > len(held):
                break
            yield index, bytes(held[position + _FRAME.size : end])
            position = end
        del held[:position]
    if held:
        raise ValueError("the translation is not complete")


def _directory_entry(entry: _Entry, offset: int, fields: tuple[int, ...] | None) -> bytes:
    """Returns a directory entry for another position, and perhaps other content."""
    info, name_bytes, extra_bytes = entry.info, entry.fields[9], entry.fields[10]
    if fields is None:
        sizes = (info.CRC, info.compress_size, info.file_size)
        if offset == entry.fields[15] and sizes == entry.fields[6:9]:
            return _CENTRAL.pack(_CENTRAL_MARK, *entry.fields) + entry.rest
        fields = (*entry.fields[:6], *sizes)
    name = entry.rest[:name_bytes]
    extra = _without_wide(entry.rest[name_bytes : name_bytes + extra_bytes])
    comment = entry.rest[name_bytes + extra_bytes :]
    lengths = (len(name), len(extra), len(comment))
    others = (0, *entry.fields[13:15], offset)
    return _CENTRAL.pack(_CENTRAL_MARK, *fields, *lengths, *others) + name + extra + comment


def _without_wide(extra: bytes) -> bytes:
    """Returns extra fields without the one of large sizes."""
    kept, position = b"", 0
    while position + _EXTRA.size <= len(extra):
        kind, size = _EXTRA.unpack_from(extra, position)
        end = position + _EXTRA.size + size
        if kind != _WIDE_EXTRA:
            kept += extra[position:end]
        position = end
    return kept + extra[position:]
