"""The protocol over the pipes between a measurement and a contender in its own process.

A worker's first output line gives its version and the instruction set of our compiled library. Then
each input line is a request, answered by one line; the worker ends when its input ends.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

Batching = Literal["examples", "tokens"]
"""What CTranslate2 counts when it splits a batch for several threads."""

_STATUS = Path("/proc/self/status")
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Texts:
    """Texts to translate, each up to the bundle's own token limit."""

    texts: Sequence[str]
    target_language: str

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.texts)

    def first(self, number: int) -> Texts:
        """The first of them, this many."""
        return Texts(self.texts[:number], self.target_language)


@dataclass(frozen=True)
class TokenIds:
    """Sources as the encoder reads them, and the maximum number of tokens for each."""

    sources: Sequence[Sequence[int]]
    max_tokens: Sequence[int]

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.sources)

    def first(self, number: int) -> TokenIds:
        """The first of them, this many."""
        return TokenIds(self.sources[:number], self.max_tokens[:number])


Inputs = Texts | TokenIds
_KINDS = {"texts": Texts, "ids": TokenIds}


@dataclass(frozen=True)
class BatchSearch:
    """The search, and the number of sentences in one call.

    `batching` applies only to CTranslate2, `options` only to our engine with texts: more of a
    request's options.
    """

    beam_width: int
    batch_size: int
    length_penalty: float = 0.6
    batching: Batching = "examples"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """One run over all sentences; `cut` counts translations that reached the token limit."""

    elapsed_s: float
    output_tokens: int
    cut: int


@dataclass(frozen=True)
class Answer:
    """The translations of all sentences of a request, in order, and the seconds they took.

    `tokens` are without the end symbol; `cut` says whether a translation reached the token limit.
    `texts` are given for requests with texts, `ids` if the contender reports them.
    """

    elapsed_s: float
    tokens: list[int]
    cut: list[bool]
    texts: list[str] | None = None
    ids: list[list[int]] | None = None
    peak_bytes: int = 0
    """Peak resident memory of the process up to now."""

    @property
    def sample(self) -> Sample:
        """The run without its translations."""
        return Sample(self.elapsed_s, sum(self.tokens), sum(self.cut))


Answerer = Callable[[Inputs, BatchSearch], Answer]


def write_request(inputs: Inputs, search: BatchSearch) -> str:
    """A request as a line, without the newline."""
    (kind,) = (name for name, cls in _KINDS.items() if isinstance(inputs, cls))
    return json.dumps({"kind": kind, "inputs": asdict(inputs), "search": asdict(search)})


def read_request(line: str) -> tuple[Inputs, BatchSearch]:
    """Parse the output of `write_request`."""
    values: dict[str, Any] = json.loads(line)
    return _KINDS[values["kind"]](**values["inputs"]), BatchSearch(**values["search"])


def serve(version: str, answer: Answerer, instruction_set: str | None = None) -> None:
    """Answer requests until the input ends.

    Args:
        version: of the translator.
        answer: translates, and measures the time.
        instruction_set: of our compiled library, if it is in use.
    """
    print(json.dumps({"version": version, "instruction_set": instruction_set}), flush=True)
    for line in sys.stdin:
        values = asdict(answer(*read_request(line)))
        print(json.dumps({**values, "peak_bytes": resident_bytes("VmHWM")}), flush=True)


def resident_bytes(name: Literal["VmRSS", "VmHWM"] = "VmRSS") -> int:
    """Resident memory of this process, or its peak, `VmHWM`.

    Source: https://man7.org/linux/man-pages/man5/proc_pid_status.5.html
    """
    lines = _STATUS.read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return 1024 * int(line.split()[1])


def in_batches(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Split a sequence into parts of a given size; the last may be smaller."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
