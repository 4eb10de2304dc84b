"""The registry of public parallel corpora: URLs, licences and contents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path, PurePosixPath

from dragoman.kernel.errors import UsageError
from dragoman.kernel.settings import from_mapping, read_toml
from dragoman_training.public_text.download import RemoteFile

REGISTRY = Path(__file__).with_name("corpora.toml")

_HELD_OUT = ("valid", "test")
_LANGUAGE = re.compile(r"[A-Za-z0-9][\w-]*")


@dataclass(frozen=True)
class SideFile:
    """Where one side of a text is within the downloaded files."""

    member: str = ""
    """Name within an archive; empty if the download is the text itself."""
    source: int = 0
    """Index of the corpus's source, from 0."""
    column: int | None = None
    """Column of tab-separated lines, from 0."""

    def __post_init__(self) -> None:
        if self.column is not None and self.column < 0:
            raise UsageError(f"column is {self.column}: give one counted from 0")


@dataclass(frozen=True)
class FetchedText:
    """A parallel text of a corpus: its prefix, and its sides by language."""

    prefix: str
    sides: dict[str, SideFile]
    pairs: int | None = None
    held_out: int | None = None
    """Of every N pairs, one goes to the text `valid` and one to `test` beside it; the choice is
    fixed, and pairs with the same first side stay together."""

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Prefixes of all texts that are written."""
        if self.held_out is None:
            return (self.prefix,)
        beside = (str(PurePosixPath(self.prefix).with_name(name)) for name in _HELD_OUT)
        return (self.prefix, *beside)

    def files(self, data_dir: Path) -> list[Path]:
        """The files that are written: for each prefix, one for each language."""
        return [data_dir / f"{prefix}.{name}.gz" for prefix in self.prefixes for name in self.sides]

    def prefix_of(self, first_side: bytes) -> str:
        """Prefix of the text that a pair belongs to."""
        if self.held_out is None:
            return self.prefix
        drawn = int.from_bytes(blake2b(first_side, digest_size=8).digest()) % self.held_out
        return self.prefixes[drawn + 1 if drawn < len(_HELD_OUT) else 0]

    def __post_init__(self) -> None:
        prefix = PurePosixPath(self.prefix)
        leads_out = prefix.is_absolute() or ".." in prefix.parts
        if not prefix.name or leads_out or not self.prefix.isprintable():
            raise UsageError(
                f"prefix is {self.prefix!r}: give one below the folder, such as a/train"
            )
        if len(self.sides) < 2:
            raise UsageError(f"{self.prefix}: has {len(self.sides)} sides: give two or more")
        for language in self.sides:
            if not _LANGUAGE.fullmatch(language):
                raise UsageError(f"{self.prefix}: a side is {language!r}: give a code such as en")
        if self.held_out is not None and self.held_out <= len(_HELD_OUT):
            raise UsageError(f"{self.prefix}: held_out is {self.held_out}: give 3 or more")


@dataclass(frozen=True)
class Corpus:
    """An entry of the registry."""

    name: str
    licence: str
    home: str
    """Web page of the corpus, which confirms the licence."""
    sources: tuple[RemoteFile, ...]
    texts: tuple[FetchedText, ...]

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of its texts."""
        return tuple(dict.fromkeys(chain.from_iterable(t.sides for t in self.texts)))

    @property
    def pairs(self) -> int | None:
        """Number of pairs in all its texts, if known."""
        known = [text.pairs for text in self.texts if text.pairs is not None]
        return sum(known) if len(known) == len(self.texts) else None

    @property
    def size_bytes(self) -> int | None:
        """Size of the download, if known."""
        known = [source.size_bytes for source in self.sources if source.size_bytes is not None]
        return sum(known) if len(known) == len(self.sources) else None

    @property
    def pinned(self) -> bool:
        """Whether the digests of all its sources are in the registry."""
        return all(source.sha256 or source.md5 for source in self.sources)


@dataclass(frozen=True)
class _Registry:
    corpora: tuple[Corpus, ...]


def read_registry(paths: Sequence[Path] = (REGISTRY,)) -> dict[str, Corpus]:
    """Read corpora by name; later files override earlier ones.

    Raises:
        UsageError: a file cannot be read, or an entry is invalid; the message names it.
    """
    by_name: dict[str, Corpus] = {}
    for path in paths:
        for corpus in from_mapping(_Registry, read_toml(path), str(path)).corpora:
            for side in chain.from_iterable(t.sides.values() for t in corpus.texts):
                if not 0 <= side.source < len(corpus.sources):
                    raise UsageError(f"{path}: {corpus.name}: there is no source {side.source}")
            by_name[corpus.name] = corpus
    _check_apart(by_name.values())
    return by_name


def _check_apart(corpora: Iterable[Corpus]) -> None:
    """Check that no two texts are written to the same file."""
    known: dict[Path, str] = {}
    for corpus in corpora:
        for path in chain.from_iterable(text.files(Path()) for text in corpus.texts):
            if path in known:
                raise UsageError(
                    f"{corpus.name}: {path} is already written by {known[path]}; give another "
                    "prefix"
                )
            known[path] = corpus.name
