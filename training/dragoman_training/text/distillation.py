"""Training text for a student: the sources of a parallel corpus with a teacher's translations.

Source: Kim & Rush 2016, "Sequence-Level Knowledge Distillation", https://arxiv.org/abs/1606.07947
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import sacrebleu

from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.manifest import sha256
from dragoman.kernel.replacement import check_file, replacing
from dragoman_training.config import RunConfig, refuse_joined
from dragoman_training.text.parallel_text import (
    ParallelText,
    TextFiles,
    drawn_pairs,
    existing_file,
    find_file,
)

_CHUNK = 512
"""Sources sent to the teacher at once; their translations are written together."""
_CHUNKS_AHEAD = 2
"""Chunks queued at the teacher, so that it never waits for the last sources of a chunk."""

WRITTEN = "written"
REPEATED, TOO_LONG, UNKNOWN = "source repeated", "source too long", "source of unknown characters"
CUT, EMPTY = "translation cut", "translation empty"


Translated = Callable[[], list[tuple[str, ...]]]
"""Waits for the texts' translations: for each text those that are complete, best first."""


class Teacher(Protocol):
    """What translates."""

    @property
    def directions(self) -> Sequence[Sequence[str]]:
        """Source and target language of each direction that it translates."""

    @property
    def settings(self) -> Mapping[str, object]:
        """Model and search options; the same settings give the same translations."""

    @property
    def candidates(self) -> int:
        """Maximum number of translations for each text."""

    def reason_against(self, text: str, target: str) -> str | None:
        """Why it rejects a text, or None."""

    def begin(self, texts: Sequence[str], source: str, target: str) -> Translated:
        """Start to translate."""


@dataclass(frozen=True)
class Task:
    """One corpus in one direction, with its input and output files."""

    text: TextFiles
    direction: tuple[str, ...]
    written: Path
    """Prefix of the output files, without the language."""
    max_pairs: int | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """Sources, and their translations."""
        return tuple(self._beside(f"{self.written.name}.{name}") for name in self.direction)

    @property
    def report(self) -> Path:
        """Number of pairs written and skipped; exists once the task is done."""
        return self._beside(f"{self.written.name}.json")

    @property
    def journal(self) -> Path:
        """Progress so far: a line with the settings, then one line for each source."""
        return self._beside(f".{self.written.name}.partial")

    def _beside(self, name: str) -> Path:
        return self.written.with_name(name)

    def sources(self) -> Iterator[tuple[str, str]]:
        """The texts to translate, each with its reference."""
        src, tgt = (self.text.languages.index(language) for language in self.direction)
        text = ParallelText(self.text, self.text.languages, max_pairs=self.max_pairs)
        for pair in drawn_pairs(text):
            yield pair[src], pair[tgt]

    def count(self) -> int:
        """Number of `sources`."""
        return min(len(self.text), self.max_pairs or len(self.text))


def tasks(
    config: RunConfig, data_dir: Path, out: Path, directions: Sequence[Sequence[str]]
) -> list[Task]:
    """List what a recipe needs translated.

    Args:
        config: the recipe; its corpora are translated in every direction that the teacher has.
        data_dir: where its prefixes start.
        out: where prefixes of the output start: `a/train` in `en` and `de` goes to
            `a/train.en-de.en` and `.de`, and to `a/train.de-en.de` and `.en`.
        directions: of the teacher.

    Raises:
        UsageError: a prefix leads out of `out` or is listed twice, an output would overwrite
            another corpus of the recipe, or the teacher has none of the directions.
    """
    refuse_joined(config.data.train)
    known = set(map(tuple, directions))
    read = {(data_dir / corpus.prefix).resolve() for corpus in config.data.train}
    by_path: dict[Path, Task] = {}
    for corpus in config.data.train:
        prefix = Path(corpus.prefix)
        if prefix.is_absolute() or ".." in prefix.parts:
            raise UsageError(
                f"the corpus {corpus.prefix!r}: leads out of --out; name its folder by --data-dir"
            )
        text = TextFiles(data_dir / prefix, corpus.languages)
        for direction in filter(known.__contains__, corpus.directions):
            written = out / prefix.with_name(f"{prefix.name}.{'-'.join(direction)}")
            if written in by_path:
                raise UsageError(
                    f"the corpus {corpus.prefix!r}: is named twice with {'-'.join(direction)}"
                )
            if written.resolve() in read:
                raise UsageError(
                    f"the corpus {corpus.prefix!r}: its translations would overwrite the "
                    f"corpus {written.name!r}; name another --out, or remove that corpus"
                )
            by_path[written] = Task(text, direction, written, corpus.max_pairs)
    if not by_path:
        names = ", ".join(map("-".join, directions))
        raise UsageError(f"data.train: no corpus is in a direction of the teacher: {names}")
    return list(by_path.values())


def distil(
    task: Task,
    teacher: Teacher,
    watch: Callable[[int], None] = lambda _sources: None,
    force: bool = False,
) -> dict[str, int]:
    """Translate a corpus's sources and write them with their translations.

    Resumes the work of a killed process. Sources that the teacher rejects, or for which no
    translation is complete, are skipped. Of several translations of a source, the one nearest to
    its reference is kept (Kim & Rush 2016, section 3.3). With only one translation for each source,
    repeated sources are skipped too.

    Args:
        task: the corpus and its files.
        teacher: the model that translates.
        watch: called with the number of finished sources, after each chunk.
        force: start over, and replace existing files at the end.

    Returns:
        Number of pairs written, and of pairs skipped by reason.

    Raises:
        UsageError: text cannot be read, the disk cannot be written, or existing files were not
            made by this function, or from other text, another teacher or other settings.
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
    """The candidate with the highest sentence BLEU; the first of equals."""
    if len(candidates) == 1:
        return candidates[0]
    bleu = sacrebleu.metrics.BLEU(effective_order=True)
    return max(candidates, key=lambda text: bleu.sentence_score(text, [reference]).score)


@dataclass(frozen=True)
class _Chunk:
    """Sources in progress; `reasons` says why a source is not translated, or None."""

    pairs: Sequence[tuple[str, str]]
    reasons: Sequence[str | None]
    translated: Translated | None

    def outcomes(self) -> list[str | tuple[str, str]]:
        """For each source, the pair to write, or the reason why there is none."""
        translations = iter(self.translated() if self.translated else ())
        return [
            reason or _outcome(source, next(translations), reference)
            for (source, reference), reason in zip(self.pairs, self.reasons, strict=True)
        ]


def _outcome(source: str, candidates: Sequence[str], reference: str) -> str | tuple[str, str]:
    if not candidates:
        return CUT
    lines = [line for text in candidates if (line := " ".join(text.split()))]
    return (source, nearest(lines, reference)) if lines else EMPTY


def _chunks(task: Task, teacher: Teacher, done: int) -> Iterator[_Chunk]:
    """Chunks of the sources after those that are done, sent to the teacher."""
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
    """Chunks in order; each is yielded once the next ones have been started."""
    begun: deque[_Chunk] = deque()
    for chunk in chunks:
        begun.append(chunk)
        if len(begun) > _CHUNKS_AHEAD:
            yield begun.popleft()
    yield from begun


class _Journal(AbstractContextManager["_Journal"]):
    """The outcomes so far, in the order of the sources; incomplete lines are ignored."""

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        """Start a journal, or continue after the last complete line."""
        self.sources, size = _recorded(path, settings) if path.exists() else (0, 0)
        self._file: IO[bytes] = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(size)
        self._file.seek(size)
        if size == 0:
            self._append([settings])

    def __exit__(self, *_: object) -> None:
        """Close the file; everything was flushed before."""
        with suppress(OSError):
            self._file.close()

    def add(self, outcomes: Sequence[object]) -> None:
        """Record the outcomes of the next sources."""
        self._append(outcomes)
        self.sources += len(outcomes)

    def _append(self, entries: Sequence[object]) -> None:
        lines = (json.dumps(entry, ensure_ascii=False) for entry in entries)
        self._file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
        self._file.flush()


def _recorded(path: Path, settings: Mapping[str, object]) -> tuple[int, int]:
    """Number of sources in a journal, and the size of its complete lines in bytes."""
    sources = size = 0
    with path.open("rb") as file:
        for number, line in enumerate(file):
            entry = _entry(line)
            if entry is None:
                break
            if number == 0:
                _check_same(path, entry, settings)
            sources = number
            size += len(line)
    return sources, size


def _entry(line: bytes) -> Any:
    """The value of a line; None if a kill or a disk error has damaged it."""
    try:
        return json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None


def _settings(task: Task, teacher: Teacher) -> dict[str, object]:
    """Everything that determines the output."""
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
                f"{path}: was started with another {name}, {former!r} instead of {value!r}; "
                "name another --out, or give --force to start over"
            )


def _check_targets(task: Task, force: bool) -> None:
    """Check that no file would be overwritten or hidden that is not from such a run."""
    begun = task.report.exists() or task.journal.exists()
    for path, language in zip(task.files, task.direction, strict=True):
        existing = find_file(task.written, language)
        if existing and existing != path:
            raise UsageError(f"{existing}: exists already; name another --out, or remove it")
        check_file(path, begun or force)


def _finished(task: Task, settings: Mapping[str, object]) -> dict[str, int]:
    entry = _entry(task.report.read_bytes())
    _check_same(task.report, entry, settings)
    task.journal.unlink(missing_ok=True)  # left by a run that was killed right at the end
    counts: dict[str, int] = entry["pairs"]
    return counts


def _write(task: Task, settings: Mapping[str, object]) -> dict[str, int]:
    """Write the text of a complete journal, and remove the journal."""
    counts = Counter[str]()
    with replacing(*task.files, task.report) as partial:
        with partial[0].open("wb") as sources, partial[1].open("wb") as targets:
            for entry in _outcomes(task.journal):
                counts[WRITTEN if isinstance(entry, list) else entry] += 1
                if isinstance(entry, list):
                    sources.write(f"{entry[0]}\n".encode())
                    targets.write(f"{entry[1]}\n".encode())
        partial[2].write_text(json.dumps({**settings, "pairs": counts}) + "\n", encoding="utf-8")
    task.journal.unlink()
    return dict(counts)


def _outcomes(journal: Path) -> Iterator[Any]:
    with journal.open("rb") as lines:
        next(lines)
        yield from map(json.loads, lines)
