"""Keys: creation, storage as hashes, verification, limits and revocation.

A key is `drg_<id>_<secret>`. The secret has 256 random bits, so its SHA-256 needs neither salt nor
many rounds. Keys imported from other servers do not contain an id and are found by their hash.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import sqlite3
import string
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from dragoman.kernel.errors import UsageError
from dragoman_gateway.core.caller import NO_LIMITS, Caller, Limits
from dragoman_gateway.core.errors import KeyRefused
from dragoman_gateway.core.store import Store

_T = TypeVar("_T")
_MARK = "drg"
_DIGITS = string.digits + string.ascii_letters
_SECRET_DIGITS = 43
"""Enough for 256 bits: 62 ** 43 is above 2 ** 256."""
_ID_DIGITS = 10
_LONGEST = 512
"""Maximum number of characters of a key; longer ones are refused."""
_KEPT_S = 0.5
"""How long a key is cached; changes take effect within this time."""
_KEPT_KEYS = 10_000
_LIMITS = tuple(field.name for field in fields(Limits))
_NAMES = (
    *("id", "secret_hash", "is_foreign", "label", "created_s", "expires_s", "revoked_s"),
    *("last_used_day", "protocols", "caches"),
)
_COLUMNS = ", ".join((*_NAMES, *_LIMITS))


@dataclass(frozen=True)
class Key:
    """The stored data of a key.

    Attributes:
        id: public id.
        secret_hash: SHA-256 of its secret.
        is_foreign: whether it was imported from another server and contains no id.
        label: purpose of the key.
        created_s: Unix time.
        expires_s: Unix time; None: never.
        revoked_s: Unix time; None: not revoked.
        last_used_day: day in UTC, such as 2026-11-23; None: never used.
        protocols: names of the protocols that it is valid for; None: all.
        caches: whether its translations may be stored in the cache and come from it.
        limits: its limits.
    """

    id: str
    secret_hash: bytes
    is_foreign: bool
    label: str
    created_s: int
    expires_s: int | None = None
    revoked_s: int | None = None
    last_used_day: str | None = None
    protocols: tuple[str, ...] | None = None
    caches: bool = True
    limits: Limits = NO_LIMITS

    def state(self, now_s: float) -> str:
        """Returns `valid`, `expired` or `revoked`."""
        if self.revoked_s is not None:
            return "revoked"
        return "expired" if self.expires_s is not None and self.expires_s <= now_s else "valid"


def add_key(
    connection: sqlite3.Connection,
    label: str,
    *,
    limits: Limits = NO_LIMITS,
    expires_s: int | None = None,
    protocols: tuple[str, ...] | None = None,
    caches: bool = True,
) -> tuple[Key, str]:
    """Create a key.

    Returns:
        The stored data, and the key itself, which cannot be shown again.
    """
    key_id, secret = _new_id(), "".join(secrets.choice(_DIGITS) for _ in range(_SECRET_DIGITS))
    key = Key(
        id=key_id,
        secret_hash=_hash(secret),
        is_foreign=False,
        label=label,
        created_s=int(time.time()),
        expires_s=expires_s,
        protocols=protocols,
        caches=caches,
        limits=limits,
    )
    _insert(connection, key)
    return key, f"{_MARK}_{key_id}_{secret}"


def all_keys(connection: sqlite3.Connection) -> list[Key]:
    """Returns all keys, oldest first."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM keys ORDER BY created_s, rowid")  # noqa: S608
    return [_key(row) for row in rows]


def get_key(connection: sqlite3.Connection, key_id: str) -> Key:
    """Returns a key by its id.

    Raises:
        UsageError: there is no such key.
    """
    key = _find(connection, "id = ?", key_id)
    if key is None:
        raise UsageError(f"there is no key {key_id[:40]!r}: see dragoman keys list")
    return key


def limit_key(
    connection: sqlite3.Connection, key_id: str, changes: Mapping[str, int | None]
) -> Key:
    """Change some limits of a key.

    Args:
        connection: connection to the store.
        key_id: id of the key.
        changes: new limits by name; None: no limit.

    Raises:
        UsageError: there is no such key.
    """
    get_key(connection, key_id)
    for name in (name for name in _LIMITS if name in changes):
        values = (changes[name], key_id)
        connection.execute(f"UPDATE keys SET {name} = ? WHERE id = ?", values)  # noqa: S608
    return get_key(connection, key_id)


def revoke_key(connection: sqlite3.Connection, key_id: str) -> Key:
    """Revoke a key permanently; the time of an earlier revocation is kept.

    Raises:
        UsageError: there is no such key.
    """
    get_key(connection, key_id)
    connection.execute(
        "UPDATE keys SET revoked_s = coalesce(revoked_s, ?) WHERE id = ?",
        (int(time.time()), key_id),
    )
    return get_key(connection, key_id)


def import_libretranslate(connection: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Import the keys of LibreTranslate's `api_keys.db`.

    Its limits are requests per minute and characters per request.

    Returns:
        The numbers of imported and of already existing keys.

    Raises:
        UsageError: the file is missing, or is not LibreTranslate's.
    """
    imported = known = 0
    for number, (secret, requests, characters) in enumerate(_foreign_keys(path), 1):
        hashed = _hash(secret)
        if connection.execute("SELECT 1 FROM keys WHERE secret_hash = ?", (hashed,)).fetchone():
            known += 1
            continue
        limits = Limits(
            requests_per_minute=_positive(requests), characters_per_request=_positive(characters)
        )
        label = f"LibreTranslate key {number}"
        _insert(connection, Key(_new_id(), hashed, True, label, int(time.time()), limits=limits))
        imported += 1
    return imported, known


class Keys:
    """The keys of a running gateway, cached for half a second."""

    def __init__(self, store: Store) -> None:
        """Start with an empty cache."""
        self._store = store
        self._kept: OrderedDict[str | bytes, tuple[float, asyncio.Future[Key | None]]] = (
            OrderedDict()
        )
        self._counted_s = 0.0
        self._counting: asyncio.Future[bool] | None = None

    async def any(self) -> bool:
        """Whether there is any key, including expired and revoked ones."""
        now_s = time.monotonic()
        if self._counting is None or now_s - self._counted_s >= _KEPT_S:
            self._counted_s = now_s
            self._counting = asyncio.ensure_future(
                self._store.read(
                    lambda db: db.execute("SELECT 1 FROM keys LIMIT 1").fetchone() is not None
                )
            )
        return await _result(self._counting)

    async def caller(self, given: str, protocol: str) -> Caller:
        """Returns the caller of a key.

        Raises:
            KeyRefused: the key is unknown, expired, revoked, or not valid for this protocol.
        """
        key = await self._verified(given)
        if key is None:
            raise KeyRefused("the key is unknown: check that it was sent completely")
        if (state := key.state(time.time())) != "valid":
            raise KeyRefused(f"the key {key.id} is {state}: ask for another one")
        if key.protocols is not None and protocol not in key.protocols:
            names = ["/api/v1" if name == "own" else name for name in key.protocols]
            here = "this API (/api/v1)" if protocol == "own" else protocol
            raise KeyRefused(f"the key {key.id} is for {', '.join(names)}, not for {here}")
        return Caller(key.id, key.id, key.limits, key.caches)

    async def _verified(self, given: str) -> Key | None:
        """Returns the data of a given key; None: it is unknown."""
        if len(given) > _LONGEST:
            return None
        mark, _, rest = given.partition("_")
        key_id, _, secret = rest.partition("_")
        if mark == _MARK and key_id and secret:
            secret = secret.removesuffix(":fx")  # DeepL's clients choose a server by it
            key = await self._by(key_id)
        else:
            secret = given
            key = await self._by(_hash(given))
        # Compare even if the key was found by its hash: an index does not compare in constant time.
        if key is None or not hmac.compare_digest(key.secret_hash, _hash(secret)):
            return None
        return key

    async def _by(self, name: str | bytes) -> Key | None:
        """Returns a key by id, or an imported one by hash; read at most once in half a second."""
        now_s = time.monotonic()
        kept = self._kept.get(name)
        if kept is None or now_s - kept[0] >= _KEPT_S:
            condition = "id = ? AND NOT is_foreign"
            if isinstance(name, bytes):
                condition = "secret_hash = ? AND is_foreign"
            reading = asyncio.ensure_future(self._store.read(lambda db: _find(db, condition, name)))
            kept = self._kept[name] = (now_s, reading)
            self._kept.move_to_end(name)
            while len(self._kept) > _KEPT_KEYS:
                self._kept.popitem(last=False)
        return await _result(kept[1])


async def _result(task: asyncio.Future[_T]) -> _T:
    """Returns the result of a shared task; if it failed, it fails for all waiters."""
    return task.result() if task.done() else await asyncio.shield(task)


def _find(connection: sqlite3.Connection, condition: str, value: str | bytes) -> Key | None:
    query = f"SELECT {_COLUMNS} FROM keys WHERE {condition}"  # noqa: S608 (conditions are ours)
    row = connection.execute(query, (value,)).fetchone()
    return _key(row) if row else None


def _key(row: tuple[Any, ...]) -> Key:
    values = dict(zip(_NAMES, row, strict=False))
    values["protocols"] = values["protocols"] and tuple(values["protocols"].split())
    values["is_foreign"], values["caches"] = bool(values["is_foreign"]), bool(values["caches"])
    return Key(**values, limits=Limits(*row[len(_NAMES) :]))


def _insert(connection: sqlite3.Connection, key: Key) -> None:
    protocols = None if key.protocols is None else " ".join(key.protocols)
    values = (*astuple(key)[:8], protocols, key.caches, *astuple(key.limits))
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO keys ({_COLUMNS}) VALUES ({marks})", values)  # noqa: S608


def _new_id() -> str:
    return "".join(secrets.choice(string.ascii_letters) for _ in range(_ID_DIGITS))


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _foreign_keys(path: Path) -> list[tuple[str, int | None, int | None]]:
    """Reads LibreTranslate's keys, with requests per minute and characters per request."""
    if not path.is_file():
        raise UsageError(f"{path}: does not exist: give LibreTranslate's db/api_keys.db")
    try:
        other = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            names = [row[1] for row in other.execute("PRAGMA table_info(api_keys)")]
            characters = "char_limit" if "char_limit" in names else "NULL"  # older: none
            query = f"SELECT api_key, req_limit, {characters} FROM api_keys ORDER BY rowid"  # noqa: S608
            return other.execute(query).fetchall()
        finally:
            other.close()
    except sqlite3.Error as error:
        raise UsageError(f"{path}: is not LibreTranslate's api_keys.db: {error}") from error


def _positive(limit: object) -> int | None:
    """Converts a limit of LibreTranslate, where zero and less mean no limit."""
    return limit if isinstance(limit, int) and limit > 0 else None
