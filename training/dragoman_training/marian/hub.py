"""Fetching a Marian model's files from a hub by HTTP.

Source: https://huggingface.co/docs/hub/models-downloading
"""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman_training.marian.importing import (
    LIST,
    SOURCE_PIECES,
    TARGET_LIST,
    TARGET_PIECES,
    TOKENIZER_CONFIG,
)
from dragoman_training.marian.settings import CONFIG
from dragoman_training.marian.weights import PICKLE, SAFETENSORS

ENDPOINT = "https://huggingface.co"
_NEEDED = (CONFIG, LIST, SOURCE_PIECES, TARGET_PIECES)
_OPTIONAL = (TOKENIZER_CONFIG, TARGET_LIST)
_WEIGHTS = (SAFETENSORS, PICKLE)
_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 30.0


def is_hub_name(name: str) -> bool:
    """Whether it reads `owner/model`."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True)
class Hub:
    """A hub, or what answers like one.

    Attributes:
        endpoint: where its addresses begin.
        revision: branch, tag or commit.

    Raises:
        UsageError: the endpoint is no address of HTTP, or the revision is not UTF-8.
    """

    endpoint: str = ENDPOINT
    revision: str = "main"

    def __post_init__(self) -> None:
        if not _is_address(self.endpoint):
            raise UsageError(f"--endpoint {self.endpoint!r}: write it as {ENDPOINT}")
        try:
            self.revision.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"--revision {self.revision!r}: is not UTF-8") from error

    def fetch(self, name: str, folder: Path, told: Callable[[str, int, int | None], None]) -> None:
        """Fetch a model's files.

        Args:
            name: `owner/model`.
            folder: that gets them; it is there.
            told: called with the file, the bytes that have come, and how many there will be.

        Raises:
            UsageError: the hub has no such model, cannot be reached, or stops in the middle.
        """
        for file in _NEEDED:
            if not self._fetch(name, file, folder, told):
                raise UsageError(f"{self._address(name, file)}: there is no such file or model")
        for file in _OPTIONAL:
            self._fetch(name, file, folder, told)
        if not any(self._fetch(name, file, folder, told) for file in _WEIGHTS):
            files = " and no ".join(_WEIGHTS)
            raise UsageError(f"{self.endpoint}: {name} has no {files}")

    def _address(self, name: str, file: str) -> str:
        revision = urllib.parse.quote(self.revision, safe="")
        return f"{self.endpoint.rstrip('/')}/{name}/resolve/{revision}/{file}"

    def _fetch(
        self, name: str, file: str, folder: Path, told: Callable[[str, int, int | None], None]
    ) -> bool:
        """Fetch a file, and say whether there is one."""
        address = self._address(name, file)
        try:
            with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:  # noqa: S310
                length = answer.headers.get("Content-Length")
                size = int(length) if length and length.isdigit() else None
                done = 0
                with (folder / file).open("wb") as out:
                    while chunk := answer.read(_CHUNK_BYTES):
                        out.write(chunk)
                        done += len(chunk)
                        told(file, done, size)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.HTTPStatus.NOT_FOUND:
                return False
            reason = f"{error.code} {error.reason}"
            # The hub says so of models that are not there, too.
            if error.code in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
                reason += "; there is no such model, or it is not public"
            raise UsageError(f"{address}: {reason}") from error
        except urllib.error.URLError as error:
            raise UsageError(
                f"{address}: cannot be reached: {error.reason}; name a folder that has the files"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise UsageError(f"{address}: broke off: {error}") from error
        if size is not None and done < size:
            raise UsageError(f"{address}: broke off after {done} of {size} bytes")
        return True


def _is_address(text: str) -> bool:
    """Whether addresses of HTTP may begin like this."""
    try:
        parts = urllib.parse.urlsplit(text)
        host, path = (parts.hostname or "").encode("idna"), parts.path.encode("ascii")
        has_place = bool(host) and parts.port != 0
    except ValueError:
        return False
    plain = not parts.query and not parts.fragment and b" " not in host + path
    return parts.scheme in ("https", "http") and has_place and plain and text.isprintable()
