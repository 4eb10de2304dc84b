"""The lists of Firefox's translation models that Mozilla publishes, and the choice among them.

Two lists describe the same models: a registry, `models.json`, whose files are compressed by gzip
and which has the digest of each model's main file; and the records that Firefox itself reads, whose
files are compressed by Zstandard and which have the digest of every file.

Source: https://github.com/mozilla/translations, `db/updater.py`; and
https://github.com/mozilla/firefox-translations-models, `remote_settings/client.py`
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Any

from dragoman.kernel.errors import UsageError
from dragoman_training.secure_http import is_secure

MODEL = "model"
_ROLES = {
    "model": MODEL,
    "lexicalShortlist": "lex",
    "lex": "lex",
    "vocab": "vocab",
    "srcVocab": "srcvocab",
    "srcvocab": "srcvocab",
    "trgVocab": "trgvocab",
    "trgvocab": "trgvocab",
}
"""What a file is, by the words of both lists."""
_VOCABULARIES = ({"vocab"}, {"srcvocab", "trgvocab"})
_PACKED = (".gz", ".zst")
_STATUSES = ("Release", "Release Desktop", "Release Android", "Nightly")
"""In order of preference; after them, models that were never released."""
_STATUS_OF_FILTER = {
    "": "Release",
    "env.appinfo.OS == 'Android'": "Release Android",
    "env.appinfo.OS != 'Android'": "Release Desktop",
    "env.channel == 'default' || env.channel == 'nightly'": "Nightly",
}
_ARCHITECTURES = ("base", "base-memory", "tiny")
"""In order of preference, among models of one status and version: the larger one first."""
_FILE_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES = 1 << 30
"""Limit of a file whose size is not known."""
_SAME_LANGUAGE = {"zh": "zh-Hans"}
ENGLISH = "en"
"""Every model translates from or into it."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class RemoteFile:
    """A file of a model, compressed.

    Attributes:
        name: of the file without compression.
        url: of the compressed file.
        sha256: digest without compression; None: not published.
        size_bytes: size without compression; the most that it may have if that is not published.
    """

    name: str
    url: str
    sha256: str | None
    size_bytes: int


@dataclass(frozen=True)
class Offer:
    """A model that can be downloaded.

    Attributes:
        pair: source and target language.
        architecture: `tiny`, `base-memory` or `base`.
        status: which Firefox takes it, such as `Release`; empty: none does.
        version: of the model; empty: not published.
        files: what they are, and where.
    """

    pair: Pair
    architecture: str
    status: str
    version: str
    files: Mapping[str, RemoteFile]

    @property
    def sha256(self) -> str:
        """Digest of the main file, which identifies the model."""
        return self.files[MODEL].sha256 or ""

    def __str__(self) -> str:
        """What a log says of it."""
        version = f" {self.version}" if self.version else ""
        return f"{self.architecture}{version}, {self.status or 'not released'}"


def offers_of_registry(values: Any, where: str) -> list[Offer]:
    """The models in a `models.json`; those with incomplete entries are left out.

    Args:
        values: the parsed file.
        where: its address, for errors.

    Raises:
        UsageError: it has another form.
    """
    base, models = (_member(values, name, where) for name in ("baseUrl", "models"))
    if not isinstance(base, str) or not _is_secure(base) or not isinstance(models, dict):
        raise UsageError(f"{where}: baseUrl or models is not as expected")
    offers: list[Offer] = []
    for entry in (entry for entries in models.values() for entry in _list(entries)):
        words = _words(entry, "architecture", "sourceLanguage", "targetLanguage")
        files = entry.get("files") if isinstance(entry, dict) else None
        if words is None or not isinstance(files, dict):
            continue
        remote_files = {
            _ROLES[name]: _registered(file, base) for name, file in files.items() if name in _ROLES
        }
        status = entry.get("releaseStatus")
        offers += _complete(
            words[1:], words[0], status if isinstance(status, str) else "", "", remote_files
        )
    return offers


def _registered(file: Any, base: str) -> RemoteFile | None:
    path = file.get("path") if isinstance(file, dict) else None
    if not isinstance(path, str):
        return None
    size = file.get("uncompressedSize")
    return _remote_file(
        PurePosixPath(path).name,
        f"{base.rstrip('/')}/{urllib.parse.quote(path.lstrip('/'))}",
        file.get("uncompressedHash"),
        size,
    )


def offers_of_records(values: Any, files_url: str, where: str) -> list[Offer]:
    """The models in Firefox's records; files of one version and filter belong together.

    Args:
        values: the parsed answer of the server.
        files_url: where the files are.
        where: the server's address, for errors.

    Raises:
        UsageError: it has another form.
    """
    groups: dict[tuple[str, ...], dict[str, RemoteFile | None]] = {}
    for record in _list(_member(values, "data", where)):
        words = _words(
            record, "sourceLanguage", "targetLanguage", "architecture", "version", "fileType"
        )
        attachment = record.get("attachment") if isinstance(record, dict) else None
        location = attachment.get("location") if isinstance(attachment, dict) else None
        if words is None or words[-1] not in _ROLES or not isinstance(location, str):
            continue
        key = (*words[:-1], str(record.get("filter_expression") or ""))
        groups.setdefault(key, {})[_ROLES[words[-1]]] = _remote_file(
            str(record.get("name")),
            f"{files_url.rstrip('/')}/{urllib.parse.quote(location.lstrip('/'))}",
            record.get("decompressedHash"),
            record.get("decompressedSize"),
        )
    offers: list[Offer] = []
    for (source, target, architecture, version, where_used), files in groups.items():
        status = _STATUS_OF_FILTER.get(where_used)
        if status is not None:
            offers += _complete((source, target), architecture, status, version, files)
    return offers


def _remote_file(name: str, url: str, sha256: Any, size: Any) -> RemoteFile | None:
    for ending in _PACKED:
        name = name.removesuffix(ending)
    if not _FILE_NAME.fullmatch(name) or not _is_secure(url):
        return None
    is_digest = isinstance(sha256, str) and _DIGEST.fullmatch(sha256)
    is_size = type(size) is int and 0 < size < _MOST_BYTES
    return RemoteFile(name, url, sha256 if is_digest else None, size if is_size else _MOST_BYTES)


def _complete(
    pair: Sequence[str],
    architecture: str,
    status: str,
    version: str,
    files: Mapping[str, RemoteFile | None],
) -> Iterator[Offer]:
    """An offer with all of its files, if there is a digest of the main one."""
    present = {role: file for role, file in files.items() if file is not None}
    vocabularies = next((roles for roles in _VOCABULARIES if roles <= present.keys()), None)
    model = present.get(MODEL)
    if vocabularies is not None and model is not None and model.sha256 is not None:
        roles = {MODEL, "lex", *vocabularies} & present.keys()
        kept = {role: present[role] for role in sorted(roles)}
        yield Offer((pair[0], pair[1]), architecture, status, version, kept)


def with_digests(offer: Offer, records: Iterable[Offer]) -> Offer:
    """An offer of the registry, with the digests of Firefox's records for the same model."""
    for record in records:
        if record.sha256 == offer.sha256:
            digests = {
                role: replace(
                    file, sha256=record.files[role].sha256 if role in record.files else None
                )
                for role, file in offer.files.items()
            }
            return replace(offer, version=record.version, files=digests)
    return offer


def has_pair(offers: Iterable[Offer], pair: Pair) -> bool:
    """Whether there is a model for a pair."""
    return any(_canonical(offer.pair) == _canonical(pair) for offer in offers)


def choose(offers: Sequence[Offer], pair: Pair, architecture: str | None, word: str) -> Offer:
    """The model for a pair: released before others, then the newest, then the largest.

    Args:
        offers: all models.
        pair: source and target language.
        architecture: the only one that is wanted; None: any.
        word: as the user named it, for errors.

    Raises:
        UsageError: there is none; the message names similar ones.
    """
    of_pair = [offer for offer in offers if _canonical(offer.pair) == _canonical(pair)]
    if not of_pair:
        raise UsageError(f"{word}: there is no such model; {_similar(offers, pair)}")
    fitting = [offer for offer in of_pair if architecture in (None, offer.architecture)]
    if not fitting:
        known = ", ".join(sorted({offer.architecture for offer in of_pair}))
        raise UsageError(f"{word}: there is no such architecture; known: {known}")
    return min(fitting, key=_rank)


def _canonical(pair: Pair) -> Pair:
    """A pair with the one code for languages that the lists name differently."""
    source, target = (_SAME_LANGUAGE.get(language, language) for language in pair)
    return source, target


def _rank(offer: Offer) -> tuple[Any, ...]:
    """Smaller is better."""
    return (
        _index(_STATUSES, offer.status),
        tuple(-number for number in _version(offer.version)),
        _index(_ARCHITECTURES, offer.architecture),
        offer.sha256,
    )


def _index(order: Sequence[str], word: str) -> int:
    return order.index(word) if word in order else len(order)


def _version(text: str) -> tuple[int, int, int]:
    """A version such as `3.0` or `1.0a2`, as numbers; an alpha comes before its release."""
    numbers = re.fullmatch(r"(\d{1,9})\.(\d{1,9})(?:a(\d{1,9}))?", text, re.ASCII)
    if numbers is None:
        return 0, 0, 0
    major, minor, alpha = numbers.groups()
    return int(major), int(minor), _MOST_BYTES if alpha is None else int(alpha)


def _similar(offers: Sequence[Offer], pair: Pair) -> str:
    """The existing models that are most like a pair, in words."""
    pairs = sorted({offer.pair for offer in offers})
    languages = sorted({language for known in pairs for language in known})
    for language in pair:
        if language not in languages:
            longer = [code for code in languages if code.partition("-")[0] == language]
            if close := longer or get_close_matches(language, languages, n=3):
                return f"for {language!r} there is {' or '.join(map(repr, close))}"
            return f"languages: {', '.join(languages)}"
    names = [f"firefox:{src}-{tgt}" for src, tgt in pairs if {src, tgt} == set(pair)]
    return f"for these languages there is {' and '.join(names) or 'none'}"


def legs_of(pair: Pair) -> tuple[Pair, ...]:
    """The models that translate a pair: itself, or two through English."""
    source, target = pair
    return (pair,) if ENGLISH in pair else ((source, ENGLISH), (ENGLISH, target))


def _member(values: Any, name: str, where: str) -> Any:
    if not isinstance(values, dict) or name not in values:
        raise UsageError(f"{where}: has no {name!r}: it is not a list of models")
    return values[name]


def _list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else []


def _words(values: Any, *names: str) -> tuple[str, ...] | None:
    """Members that must all be strings."""
    if not isinstance(values, dict):
        return None
    words = tuple(
        word for name in names if isinstance(word := values.get(name), str) and word != ""
    )
    return words if len(words) == len(names) else None


def _is_secure(url: str) -> bool:
    try:
        return is_secure(url) and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        return False
