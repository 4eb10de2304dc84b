"""`dragoman keys`: make, list, limit, revoke and import gateway API keys; back up the state."""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.kernel.errors import UsageError

if TYPE_CHECKING:
    from dragoman_gateway.access.keys import Key

HELP = "make, list, limit, revoke and import API keys of the gateway; back up its state"
EXTRA = "gateway"

_LIMITS = {
    "requests_per_minute": "requests per minute",
    "characters_per_minute": "characters of source text per minute",
    "characters_per_month": "characters of source text per calendar month, UTC",
    "characters_per_request": "characters of source text per request",
    "concurrent_requests": "concurrent requests",
}
_PROTOCOLS = ("chat", "deepl", "extensions", "kserve", "libretranslate", "mcp", "own", "riva")
_DAY_S = 24 * 3600
_MOST_LABEL = 200
_LARGEST = 2**53
"""Largest limit: every JSON parser reads numbers up to it exactly."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the commands and their options."""
    commands = parser.add_subparsers(dest="keys_command", required=True, metavar="WHAT")
    add = _command(commands, "add", "make a key and print it; it is not shown again", _add)
    add.add_argument("--label", default="", help="description of the key's purpose")
    add.add_argument(
        "--expires", metavar="WHEN", help="a day such as 2027-01-31, or a number of days, as in 90d"
    )
    add.add_argument(
        "--protocols",
        nargs="+",
        choices=_PROTOCOLS,
        help="protocols that it may use (default: all)",
    )
    add.add_argument(
        "--no-cache",
        action="store_true",
        help="do not use the translation cache for its requests",
    )
    _declare_limits(add, "default: no limit")
    _command(commands, "list", "print all keys and their usage this month", _list)
    limit = _command(commands, "limit", "change limits of a key", _limit)
    limit.add_argument("id", help="id of the key, from dragoman keys list")
    _declare_limits(limit, "or none")
    revoke = _command(commands, "revoke", "revoke keys permanently", _revoke)
    revoke.add_argument("id", nargs="+", help="id of a key, from dragoman keys list")
    importing = _command(commands, "import", "import the keys of LibreTranslate", _import)
    importing.add_argument("file", type=Path, help="db/api_keys.db of LibreTranslate")
    backup = _command(
        commands, "backup", "copy keys, usage and glossaries while the gateway runs", _back_up
    )
    backup.add_argument("file", type=Path, help="file to write, which must not exist")


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    from dragoman_gateway.core.settings import default_folder
    from dragoman_gateway.core.store import open_database, writing_errors

    folder = arguments.folder or default_folder()
    makes_keys = arguments.keys_command in ("add", "import")
    work: Callable[[argparse.Namespace, sqlite3.Connection], None] = arguments.work
    with (
        closing(open_database(folder, must_exist=not makes_keys)) as connection,
        writing_errors(folder),
    ):
        work(arguments, connection)
    return 0


def _command(
    commands: Any,
    name: str,
    what: str,
    work: Callable[[argparse.Namespace, sqlite3.Connection], None],
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=what, description=what)
    parser.set_defaults(work=work)
    parser.add_argument(
        "--folder",
        type=Path,
        help="folder of the gateway's state (default: $DRAGOMAN_GATEWAY_FOLDER, or the user's)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _declare_limits(parser: argparse.ArgumentParser, without: str) -> None:
    for name, what in _LIMITS.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(
            flag, type=_limit_of, metavar="N", default=argparse.SUPPRESS, help=f"{what} ({without})"
        )


def _limit_of(text: str) -> int | None:
    if text == "none":
        return None
    if not re.fullmatch(r"[0-9]+", text) or not 1 <= int(text) <= _LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of 1 or more, or none")
    return int(text)


def _given_limits(arguments: argparse.Namespace) -> dict[str, int | None]:
    return {name: getattr(arguments, name) for name in _LIMITS if hasattr(arguments, name)}


def _add(arguments: argparse.Namespace, connection: sqlite3.Connection) -> None:
    from dragoman_gateway.access.keys import add_key
    from dragoman_gateway.core.caller import Limits
    from dragoman_gateway.core.store import transaction

    if len(arguments.label) > _MOST_LABEL or not arguments.label.isprintable():
        raise UsageError(f"--label: give at most {_MOST_LABEL} printable characters")
    with transaction(connection):
        key, secret = add_key(
            connection,
            arguments.label,
            limits=Limits(**_given_limits(arguments)),
            expires_s=None if arguments.expires is None else _expiry(arguments.expires),
            protocols=tuple(sorted(set(arguments.protocols))) if arguments.protocols else None,
            caches=not arguments.no_cache,
        )
    if arguments.json:
        _print_json({**_described(key), "key": secret})
    else:
        print("This key is shown only now:", file=sys.stderr)
        print(secret)


def _list(arguments: argparse.Namespace, connection: sqlite3.Connection) -> None:
    from dragoman_gateway.access.keys import all_keys
    from dragoman_gateway.access.usage import Month, month_usage

    used = month_usage(connection, Month.of(time.time()).name)
    keys = []
    for key in all_keys(connection):
        characters, requests = used.get(key.id, (0, 0))
        keys.append({**_described(key), "used": {"characters": characters, "requests": requests}})
    if arguments.json:
        _print_json({"keys": keys})
    else:
        _print_table(keys)


def _limit(arguments: argparse.Namespace, connection: sqlite3.Connection) -> None:
    from dragoman_gateway.access.keys import limit_key
    from dragoman_gateway.core.store import transaction

    changes = _given_limits(arguments)
    if not changes:
        raise UsageError("give a limit, such as --requests-per-minute 60")
    with transaction(connection):
        key = limit_key(connection, arguments.id, changes)
    _print_done(arguments, [key], f"{key.id}: {_limits_of(_described(key))}")


def _revoke(arguments: argparse.Namespace, connection: sqlite3.Connection) -> None:
    from dragoman_gateway.access.keys import revoke_key
    from dragoman_gateway.core.store import transaction

    with transaction(connection):
        keys = [revoke_key(connection, key_id) for key_id in arguments.id]
    _print_done(arguments, keys, f"revoked: {', '.join(key.id for key in keys)}")


def _import(arguments: argparse.Namespace, connection: sqlite3.Connection) -> None:
    from dragoman_gateway.access.keys import import_libretranslate
    from dragoman_gateway.core.store import transaction

    with transaction(connection):
        imported, known = import_libretranslate(connection, arguments.file)
    if arguments.json:
        _print_json({"imported": imported, "known": known})
    else:
        print(f"{imported} keys imported, {known} were there already")


def _back_up(arguments: argparse.Namespace, connection: sqlite3.Connection) -> None:
    from dragoman_gateway.core.store import back_up

    back_up(connection, arguments.file)
    if arguments.json:
        _print_json({"file": str(arguments.file)})


def _expiry(written: str) -> int:
    """Parses an expiry: returns the Unix time of the day's end, or of that many days from now."""
    if match := re.fullmatch(r"([1-9][0-9]{0,4})d", written):
        return int(time.time()) + int(match[1]) * _DAY_S
    try:
        day = datetime.strptime(written, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise UsageError(
            f"--expires {written!r}: give a day such as 2027-01-31, or a time such as 90d"
        ) from None
    if (end_s := int(day.timestamp()) + _DAY_S) <= time.time():
        raise UsageError(f"--expires {written!r}: is in the past")
    return end_s


def _described(key: Key) -> dict[str, Any]:
    """All data of a key, except what could help to guess it."""
    limits = {name: getattr(key.limits, name) for name in _LIMITS}
    return {
        "id": key.id,
        "label": key.label,
        "state": key.state(time.time()),
        "created": _written(key.created_s),
        "expires": _written(key.expires_s),
        "revoked": _written(key.revoked_s),
        "last_used_day": key.last_used_day,
        "protocols": None if key.protocols is None else list(key.protocols),
        "caches": key.caches,
        "limits": limits,
    }


def _written(time_s: int | None) -> str | None:
    if time_s is None:
        return None
    return datetime.fromtimestamp(time_s, UTC).isoformat().replace("+00:00", "Z")


def _limits_of(key: dict[str, Any]) -> str:
    given = [f"{name} {number:,}" for name, number in key["limits"].items() if number is not None]
    if key["protocols"] is not None:
        given.append(f"protocols {' '.join(key['protocols'])}")
    if not key["caches"]:
        given.append("no cache")
    return ", ".join(given).replace("_", " ") or "no limits"


def _print_table(keys: list[dict[str, Any]]) -> None:
    rows = [("ID", "STATE", "LABEL", "LAST USED", "EXPIRES", "CHARACTERS", "LIMITS")]
    for key in keys:
        expires = (key["expires"] or "")[:10]
        cells = (key["id"], key["state"], key["label"], key["last_used_day"] or "never", expires)
        rows.append((*cells, f"{key['used']['characters']:,}", _limits_of(key)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def _print_done(arguments: argparse.Namespace, keys: list[Key], line: str) -> None:
    if arguments.json:
        _print_json({"keys": [_described(key) for key in keys]})
    else:
        print(line)


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False))
