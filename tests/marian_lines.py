"""What Marian itself translates with the models of `marian_students.KINDS`, recorded in a file.

`python -m tests.marian_lines` records it again: it needs the environment that
`tests/bergamot_program.py` describes, or another Python named by `DRAGOMAN_BERGAMOT`. Lines in
which float32's rounding decides a token are left out, so that the file holds for every processor.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.kernel.text import BEGIN_ID, END_ID
from tests import marian_students
from tests.conftest import REPOSITORY

FILE = REPOSITORY / "tests" / "data" / "marian_lines.json"
PROGRAM = REPOSITORY / "tests" / "bergamot_program.py"
ENVIRONMENT = REPOSITORY / ".venv-bergamot"
LINES = 100
BEAMS = (1, 4)
_BETWEEN = " > "
"""Between the ids of a source and those of its translations, one for each of `BEAMS`."""
_LEAST_MARGIN = 10
"""Smallest distance of the two best tokens, in float32's error of their scores."""

Ids = list[int]


@dataclass(frozen=True)
class MarianLines:
    """Source sentences and their translations, as ids."""

    sources: list[Ids]
    translations: list[Ids]


@dataclass(frozen=True)
class Recorded:
    """What is recorded of a kind of model: the lines of each beam width."""

    model_sha256: str
    lines: dict[int, MarianLines]


def recorded(kind: str) -> Recorded:
    """The recorded lines of a kind of model."""
    values = json.loads(FILE.read_text("ascii"))[kind]
    rows = ([*map(marian_students.as_ids, line.split(_BETWEEN))] for line in values["lines"])
    sources, *translations = map(list, zip(*rows, strict=True))
    lines = {beam: MarianLines(sources, ids) for beam, ids in zip(BEAMS, translations, strict=True)}
    return Recorded(values["model_sha256"], lines)


def interpreter() -> Path | None:
    """The Python that has Marian, if there is one."""
    path = Path(os.environ.get("DRAGOMAN_BERGAMOT", ENVIRONMENT / "bin" / "python"))
    return path if path.exists() else None


def translated_by_marian(folder: Path, sources: Sequence[Ids], beam: int) -> list[Ids]:
    """Translate with Marian itself; `interpreter` must have found it."""
    done = subprocess.run(
        [str(interpreter()), str(PROGRAM), str(folder), str(beam)],
        input="".join(f"{marian_students.as_text(ids)}\n" for ids in sources),
        capture_output=True,
        text=True,
        check=True,
    )
    return [marian_students.as_ids(line) for line in done.stdout.splitlines()]


def sha256_of(folder: Path) -> str:
    """The digest of a folder's model."""
    return hashlib.sha256((folder / marian_students.MODEL).read_bytes()).hexdigest()


def as_marian(model: Any, src_ids: Ids, limit: int, beam: int) -> tuple[int, ...]:
    """Translate with a model of ours by Marian's search; returns ids without the end symbol.

    Each hypothesis that ends makes the beam narrower. At the length limit, unfinished hypotheses
    are ranked with finished ones. Both differ from this project's search, and change nothing at
    width 1.
    """
    import torch

    src = torch.tensor([src_ids])
    keep_mask = torch.ones_like(src, dtype=torch.bool)
    live: list[tuple[float, Ids]] = [(0.0, [BEGIN_ID])]
    ended: list[tuple[float, Ids]] = []
    width = beam
    with torch.no_grad():
        memory = model.encode(src, keep_mask)
        for step in range(limit):
            rows = len(live)
            hidden = model.decode(
                torch.tensor([ids for _, ids in live]),
                memory.expand(rows, -1, -1),
                keep_mask.expand(rows, -1),
            )
            log_probs = model.project(hidden[:, -1]).log_softmax(dim=-1)
            before = torch.tensor([score for score, _ in live], dtype=log_probs.dtype)
            best = (before[:, None] + log_probs).flatten().topk(width)
            candidates = [
                (score, [*live[index // log_probs.size(1)][1], index % log_probs.size(1)])
                for score, index in zip(*(tensor.tolist() for tensor in best), strict=True)
            ]
            is_last = step == limit - 1
            ended += [
                candidate for candidate in candidates if is_last or candidate[1][-1] == END_ID
            ]
            live = [candidate for candidate in candidates if candidate[1][-1] != END_ID]
            width = len(live)
            if not live:
                break
    _, ids = max(ended, key=lambda candidate: candidate[0])
    return tuple(token for token in ids[1:] if token != END_ID)


def record() -> None:
    """Write the file."""
    recording = {}
    for kind, student in marian_students.KINDS.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            marian_students.write_student(folder, marian_students.float_twin(student))
            sources = list(itertools.islice(_clear_lines(folder, student), LINES))
            translations = [translated_by_marian(folder, sources, beam) for beam in BEAMS]
            lines = [
                _BETWEEN.join(" ".join(map(str, ids)) for ids in row)
                for row in zip(sources, *translations, strict=True)
            ]
            recording[kind] = {"model_sha256": sha256_of(folder), "lines": lines}
        print(kind, len(sources))
    FILE.write_text(json.dumps(recording, indent=1) + "\n", "ascii")


def _clear_lines(folder: Path, student: marian_students.Student) -> Iterator[Ids]:
    """Lines whose tokens are the same in float32 and in float64, and not by a hair."""
    import torch
    from dragoman_training.firefox.student_importing import import_student
    from dragoman_training.run import checkpoint

    import_student(folder, folder.with_name("checkpoint"))
    loaded = checkpoint.load(folder.with_name("checkpoint"))
    encode, limits = loaded.tokenizer.encode_source, loaded.config.limits
    for source in marian_students.made_up_lines(student, 4 * LINES):
        ids = encode(marian_students.as_text(source), "de")
        (rounded, coarse), (exact, fine) = (
            _searched(loaded.model.to(dtype), ids, limits.target_tokens(len(ids)))
            for dtype in (torch.float32, torch.float64)
        )
        if rounded != exact:
            continue
        best = fine.topk(2).indices
        first, second = fine.gather(1, best).unbind(dim=1)
        error = (coarse.double() - fine).gather(1, best).abs().max()
        if (first - second).min() > _LEAST_MARGIN * error:
            yield source


def _searched(model: Any, ids: Ids, limit: int) -> tuple[list[tuple[int, ...]], Any]:
    """The translations by each beam width, and the scores [T, V] along the first one."""
    import torch

    outputs = [as_marian(model, ids, limit, beam) for beam in BEAMS]
    src = torch.tensor([ids])
    keep_mask = torch.ones_like(src, dtype=torch.bool)
    with torch.no_grad():
        read = torch.tensor([[BEGIN_ID, *outputs[0]]])
        hidden = model.decode(read, model.encode(src, keep_mask), keep_mask)
        return outputs, model.project(hidden)[0][:limit]


if __name__ == "__main__":
    record()
