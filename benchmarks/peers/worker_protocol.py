"""What goes over the pipes between a benchmark and a contender in a process of its own.

The first line out of a worker says which version it is, and which instruction set our compiled
library uses. Then each line in is a request, answered by one line; the worker ends with its input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

Batching = Literal["examples", "tokens"]
"""What CTranslate2 counts when it cuts a batch into parts for several threads."""

_STATUS = Path("/proc/self/status")
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Texts:
    """Texts to translate, each up to the bundle's own limit of tokens."""

    texts: Sequence[str]
    target_language: str

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.texts)

    def first(self, number: int) -> Texts:
        """The first of them."""
        return Texts(self.texts[:number], self.target_language)


@dataclass(frozen=True)
class TokenIds:
    """Sources as the encoder reads them, and the most tokens to generate for each."""

    sources: Sequence[Sequence[int]]
    max_tokens: Sequence[int]

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.sources)

    def first(self, number: int) -> TokenIds:
        """The first of them."""
        return TokenIds(self.sources[:number], self.max_tokens[:number])


Inputs = Texts | TokenIds
_KINDS = {"texts": Texts, "ids": TokenIds}


@dataclass(frozen=True)
class BatchSearch:
    """How to search, and how many sentences go into one call.

    `batching` concerns CTranslate2 alone.
    """

    beam_width: int
    batch_size: int
    length_penalty: float = 0.6
    batching: Batching = "examples"


@dataclass(frozen=True)
class Answer:
    """What was made of all sentences of a request, in their order.

    `tokens` are without the end symbol, `cut` if the limit of tokens ended a translation. `texts`
    are given where texts were asked for, `ids` by who knows them.
    """

    elapsed_s: float
    tokens: list[int]
    cut: list[bool]
    texts: list[str] | None = None
    ids: list[list[int]] | None = None


Answerer = Callable[[Inputs, BatchSearch], Answer]


def write_request(inputs: Inputs, search: BatchSearch) -> str:
    """A request as a line without its end."""
    (kind,) = (name for name, cls in _KINDS.items() if isinstance(inputs, cls))
    return json.dumps({"kind": kind, "inputs": asdict(inputs), "search": asdict(search)})


def read_request(line: str) -> tuple[Inputs, BatchSearch]:
    """What `write_request` wrote."""
    values: dict[str, Any] = json.loads(line)
    return _KINDS[values["kind"]](**values["inputs"]), BatchSearch(**values["search"])


def serve(version: str, answer: Answerer, instruction_set: str | None = None) -> None:
    """Answer requests until the input ends.

    Args:
        version: of what translates.
        answer: translates, and holds the clock.
        instruction_set: of our compiled library, if it is in use.
    """
    print(json.dumps({"version": version, "instruction_set": instruction_set}), flush=True)
    for line in sys.stdin:
        values = asdict(answer(*read_request(line)))
        peak_bytes = peak_resident_bytes(_STATUS.read_text(encoding="utf-8"))
        print(json.dumps({**values, "peak_bytes": peak_bytes}), flush=True)


def peak_resident_bytes(status: str) -> int:
    """The most memory that a process ever had resident.

    Args:
        status: contents of its `/proc/PID/status`.

    Source: https://man7.org/linux/man-pages/man5/proc_pid_status.5.html
    """
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def in_batches(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Cut a sequence into parts of a size; the last may be smaller."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
