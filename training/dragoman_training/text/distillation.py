"""Text for a student to learn from: the sources of parallel text with a teacher's translations.

Source: Kim & Rush 2016, "Sequence-Level Knowledge Distillation", https://arxiv.org/abs/1606.07947
"""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import sacrebleu

from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.manifest import sha256
from dragoman.kernel.replacement import check_file
from dragoman_training.config import RunConfig
from dragoman_training.text.parallel_text import (
    ParallelText,
    TextFiles,
    drawn_pairs,
    existing_file,
    find_file,
)

_CHUNK = 512
"""Sources that the teacher gets at a time; their translations are written together."""
_CHUNKS_AHEAD = 2
"""So many wait for the teacher, which then never waits for the last ones of a chunk."""

WRITTEN = "written"
REPEATED, TOO_LONG, UNKNOWN = "source repeated", "source too long", "source of unknown characters"
CUT, EMPTY = "translation cut", "translation empty"


Translated = Callable[[], list[tuple[str, ...]]]
"""Waits for texts: of each, the translations that came to an end, best first."""


class Teacher(Protocol):
    """What translates."""

    @property
    def directions(self) -> Sequence[Sequence[str]]:
        """Source and target language of what it has learnt."""

    @property
    def settings(self) -> Mapping[str, object]:
        """Which model it is, and how it searches: the same settings give the same translations."""

    @property
    def candidates(self) -> int:
        """How many translations of each text it gives at most."""

    def reason_against(self, text: str, target: str) -> str | None:
        """Why it does not take a text, if it does not."""

    def begin(self, texts: Sequence[str], source: str, target: str) -> Translated:
        """Begin to translate."""


@dataclass(frozen=True)
class Task:
    """One corpus in one direction: where it is read and where it goes."""

    text: TextFiles
    direction: tuple[str, ...]
    written: Path
    """Prefix of the files to write, without the language."""
    max_pairs: int | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """Sources, and their translations."""
        return tuple(self._beside(f"{self.written.name}.{name}") for name in self.direction)

    @property
    def report(self) -> Path:
        """How many pairs were written and left out, once it is done."""
        return self._beside(f"{self.written.name}.json")

    @property
    def journal(self) -> Path:
        """What is done so far: a line with the settings, then one a source."""
        return self._beside(f".{self.written.name}.partial")

    def _beside(self, name: str) -> Path:
        return self.written.with_name(name)

    def sources(self) -> Iterator[tuple[str, str]]:
        """The texts to translate, each beside its reference."""
        src, tgt = (self.text.languages.index(language) for language in self.direction)
        text = ParallelText(self.text, self.text.languages, max_pairs=self.max_pairs)
        for pair in drawn_pairs(text):
            yield pair[src], pair[tgt]

    def count(self) -> int:
        """How many `sources` there are."""
        return min(len(self.text), self.max_pairs or len(self.text))


def tasks(
    config: RunConfig, data_dir: Path, out: Path, directions: Sequence[Sequence[str]]
) -> list[Task]:
    """What there is to translate for a recipe.

    Args:
        config: the recipe; every direction of its corpora that the teacher knows is translated.
        data_dir: where its prefixes begin.
        out: where those of the written text begin: `a/train` in `en` and `de` goes to
            `a/train.en-de.en` and `.de`, and to `a/train.de-en.de` and `.en`.
        directions: what the teacher knows.

    Raises:
        UsageError: a prefix leads out of `out` or is named twice, what is written would be another
            corpus of the recipe, or the teacher knows none of it.
    """
    known = set(map(tuple, directions))
    read = {(data_dir / corpus.prefix).resolve() for corpus in config.data.train}
    found: dict[Path, Task] = {}
    for corpus in config.data.train:
        prefix = Path(corpus.prefix)
        if prefix.is_absolute() or ".." in prefix.parts:
            raise UsageError(
                f"the corpus {corpus.prefix!r}: leads out of --out; name its folder by --data-dir"
            )
        text = TextFiles(data_dir / prefix, corpus.languages)
        for direction in filter(known.__contains__, corpus.directions):
            written = out / prefix.with_name(f"{prefix.name}.{'-'.join(direction)}")
            if written in found:
                raise UsageError(
                    f"the corpus {corpus.prefix!r}: is named twice with {'-'.join(direction)}"
                )
            if written.resolve() in read:
                raise UsageError(
                    f"the corpus {corpus.prefix!r}: its translations would be written over the "
                    f"corpus {written.name!r}; name another --out, or leave that out"
                )
            found[written] = Task(text, direction, written, corpus.max_pairs)
    if not found:
        names = ", ".join(map("-".join, directions))
        raise UsageError(f"data.train: no corpus is in a direction that the teacher knows: {names}")
    return list(found.values())


def distil(
    task: Task,
    teacher: Teacher,
    watch: Callable[[int], None] = lambda sources: None,
    force: bool = False,
) -> dict[str, int]:
    """Translate a corpus's sources and write them with their translations.

    What a killed process has left is gone on from. Sources that the teacher does not take, and
    those of whose translations none came to an end, are left out. Of several translations of a
    source, the one nearest to its reference is taken (Kim & Rush 2016, section 3.3); where there is
    only one, a source that the corpus holds again is left out too.

    Args:
        task: what and where.
        teacher: what translates.
        watch: told how many sources are done, after each chunk.
        force: begin anew, and replace what lies there in the end.

    Returns:
        How many pairs were written and left out, by the reason.

    Raises:
        UsageError: text that cannot be read, a disk that cannot be written, or what lies there was
            not made by this, or of another text, by another teacher or with other settings.
    """
    settings = _settings(task, teacher)
    _check_targets(task, force)
    if force:
        with writing(task.written):
            for path in (task.report, task.journal):
                path.unlink(missing_ok=True)
    if all(path.exists() for path in (task.report, *task.files)):
        with writing(task.written):
            return _finished(task, settings)
    with writing(task.written):
        task.written.parent.mkdir(parents=True, exist_ok=True)
        opened = _Journal(task.journal, settings)
    with opened as journal:
        watch(journal.sources)
        for chunk in _begun_ahead(_chunks(task, teacher, journal.sources)):
            outcomes = chunk.outcomes()
            with writing(task.written):
                journal.add(outcomes)
            watch(journal.sources)
    with writing(task.written):
        return _write(task, settings)


def nearest(candidates: Sequence[str], reference: str) -> str:
    """The first of those with the highest sentence BLEU."""
    if len(candidates) == 1:
        return candidates[0]
    bleu = sacrebleu.metrics.BLEU(effective_order=True)
    return max(candidates, key=lambda text: bleu.sentence_score(text, [reference]).score)


@dataclass(frozen=True)
class _Chunk:
    """Sources on their way; `reasons` says of each why it is not translated, if it is not."""

    pairs: Sequence[tuple[str, str]]
    reasons: Sequence[str | None]
    translated: Translated | None

    def outcomes(self) -> list[str | tuple[str, str]]:
        """Of each source the pair to write, or why there is none."""
        found = iter(self.translated() if self.translated else ())
        return [
            reason or _outcome(source, next(found), reference)
            for (source, reference), reason in zip(self.pairs, self.reasons, strict=True)
        ]


def _outcome(source: str, candidates: Sequence[str], reference: str) -> str | tuple[str, str]:
    if not candidates:
        return CUT
    lines = [line for text in candidates if (line := " ".join(text.split()))]
    return (source, nearest(lines, reference)) if lines else EMPTY


def _chunks(task: Task, teacher: Teacher, done: int) -> Iterator[_Chunk]:
    """The sources behind those that are done, given to the teacher."""
    seen: set[int] = set()
    src, tgt = task.direction

    def reason(source: str) -> str | None:
        repeated = teacher.candidates == 1 and hash(source) in seen
        seen.add(hash(source))
        return REPEATED if repeated else teacher.reason_against(source, tgt)

    sources = task.sources()
    for source, _ in itertools.islice(sources, done):
        seen.add(hash(source))
    while pairs := list(itertools.islice(sources, _CHUNK)):
        reasons = [reason(source) for source, _ in pairs]
        texts = [pair[0] for pair, why in zip(pairs, reasons, strict=True) if why is None]
        yield _Chunk(pairs, reasons, teacher.begin(texts, src, tgt) if texts else None)


def _begun_ahead(chunks: Iterable[_Chunk]) -> Iterator[_Chunk]:
    """Chunks in their order, each when the next ones have begun."""
    begun: deque[_Chunk] = deque()
    for chunk in chunks:
        begun.append(chunk)
        if len(begun) > _CHUNKS_AHEAD:
            yield begun.popleft()
    yield from begun


class _Journal:
    """The outcomes so far, in the order of the sources; only whole lines count."""

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        """Begin, or go on behind the last whole line.

        Raises:
            UsageError: it was begun with other settings.
        """
        self.sources = 0
        self._file: IO[bytes] = path.open("r+b" if path.exists() else "w+b")
        place = 0
        for number, line in enumerate(self._file):
            entry = _entry(line)
            if entry is None:
                break
            if number == 0:
                _check_same(path, entry, settings)
            self.sources = number
            place += len(line)
        self._file.truncate(place)
        self._file.seek(place)
        if place == 0:
            self._append([settings])

    def __enter__(self) -> _Journal:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file; what was to be kept is written already."""
        with suppress(OSError):
            self._file.close()

    def add(self, outcomes: Sequence[object]) -> None:
        """Write down what became of the next sources."""
        self._append(outcomes)
        self.sources += len(outcomes)

    def _append(self, entries: Sequence[object]) -> None:
        lines = (json.dumps(entry, ensure_ascii=False) for entry in entries)
        self._file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
        self._file.flush()


def _entry(line: bytes) -> Any:
    """What a line holds; None where a kill or a bad disk has damaged it."""
    try:
        return json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None


def _settings(task: Task, teacher: Teacher) -> dict[str, object]:
    """All that decides what is written."""
    files = [existing_file(task.text.prefix, language) for language in task.direction]
    try:
        text = list(map(sha256, files))
    except OSError as error:
        raise UsageError(f"{task.text.prefix}: cannot be read: {error}") from error
    return {**teacher.settings, "text": text, "max_pairs": task.max_pairs}


def _check_same(path: Path, known: Mapping[str, Any], settings: Mapping[str, object]) -> None:
    for name, value in settings.items():
        former = known.get(name) if isinstance(known, dict) else None
        if former != json.loads(json.dumps(value)):
            raise UsageError(
                f"{path}: was begun with another {name}, {former!r} instead of {value!r}; "
                "name another --out, or give --force to begin anew"
            )


def _check_targets(task: Task, force: bool) -> None:
    """See that nothing is written over, or hidden, that is not of such a run."""
    begun = task.report.exists() or task.journal.exists()
    for path, language in zip(task.files, task.direction, strict=True):
        found = find_file(task.written, language)
        if found and found != path:
            raise UsageError(f"{found}: lies there already; name another --out, or remove it")
        check_file(path, begun or force)


def _finished(task: Task, settings: Mapping[str, object]) -> dict[str, int]:
    found = _entry(task.report.read_bytes())
    _check_same(task.report, found, settings)
    task.journal.unlink(missing_ok=True)  # of a run that was killed after all else
    counts: dict[str, int] = found["pairs"]
    return counts


def _write(task: Task, settings: Mapping[str, object]) -> dict[str, int]:
    """Make the text of a whole journal, and remove that."""
    counts = Counter[str]()
    partial = [path.with_name(f".{path.name}.partial") for path in (*task.files, task.report)]
    try:
        with partial[0].open("wb") as sources, partial[1].open("wb") as targets:
            for entry in _outcomes(task.journal):
                counts[WRITTEN if isinstance(entry, list) else entry] += 1
                if isinstance(entry, list):
                    sources.write(f"{entry[0]}\n".encode())
                    targets.write(f"{entry[1]}\n".encode())
        partial[2].write_text(json.dumps({**settings, "pairs": counts}) + "\n", encoding="utf-8")
        for path, final in zip(partial, (*task.files, task.report), strict=True):
            os.replace(path, final)
    except OSError:
        for path in partial:
            path.unlink(missing_ok=True)
        raise
    task.journal.unlink()
    return dict(counts)


def _outcomes(journal: Path) -> Iterator[Any]:
    with journal.open("rb") as lines:
        next(lines)
        yield from map(json.loads, lines)
