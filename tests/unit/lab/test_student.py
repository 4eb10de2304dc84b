"""The benchmark of a smaller model compared with the shipped one: its requests and output."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from dragoman_training.text.parallel_text import Side

from lab.engine.student import CASES, Direction, Model, quality_table, speed_table
from lab.peers import racing
from lab.peers.contenders import Output, Run
from lab.peers.worker_protocol import BatchSearch, Inputs, Texts

SOURCE = Side("en", ["One is here now.", "Two are there today.", "Three"])
TARGET = Side("de", ["Eins ist jetzt hier.", "Zwei sind heute da.", "Drei"])
DIRECTION = Direction(SOURCE, TARGET)


class FakeWorker:
    """Returns stored translations, and reports a fixed number of seconds for each."""

    def __init__(self, translations: Mapping[str, str], seconds: float) -> None:
        self._translations, self._seconds = translations, seconds
        self.asked: list[tuple[int, BatchSearch]] = []

    def run(self, inputs: Inputs, search: BatchSearch) -> Run:
        assert isinstance(inputs, Texts)
        assert inputs.target_language == "de"
        self.asked.append((len(inputs), search))
        found = [Output(self._translations[text], 5, False) for text in inputs.texts]
        return Run(len(inputs) * self._seconds, tuple(found))


RIGHT = dict(zip(SOURCE.texts, TARGET.texts, strict=True))


def row(table: str, number: int) -> list[str]:
    return [cell.strip() for cell in table.splitlines()[2 + number].split("|")[1:-1]]


def test_quality_is_of_all_sentences_in_both_searches() -> None:
    wrong = {**RIGHT, "Two are there today.": "Nichts davon."}
    large, small = FakeWorker(RIGHT, 1.0), FakeWorker(wrong, 1.0)
    table = quality_table([Model(large, 0.6), Model(small, 1.5)], [DIRECTION])
    assert row(table, 0)[:3] == ["en-de", "greedy", "100.0"]
    assert row(table, 1)[:2] == ["en-de", "beam 4"]
    assert float(row(table, 0)[3]) < 90.0
    assert float(row(table, 0)[4]) == pytest.approx(float(row(table, 0)[3]) - 100.0)
    assert [number for number, _ in small.asked] == [3, 3]
    assert [search.length_penalty for _, search in large.asked] == [0.6, 0.6]
    assert [search.length_penalty for _, search in small.asked] == [1.5, 1.5]
    assert table.splitlines()[-1].startswith("nrefs:1|case:mixed")


def test_ratios_are_the_students_speed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "PAUSE_S", 0.0)
    large, small = FakeWorker(RIGHT, 0.5), FakeWorker(RIGHT, 0.2)
    rounds: list[None] = []
    models = [Model(large, 0.6), Model(small, 0.6)]
    table = speed_table(models, [DIRECTION], 2, 3, lambda: rounds.append(None))
    for number, (width, size) in enumerate(CASES):
        name = "greedy" if width == 1 else "beam 4"
        assert row(table, number) == ["en-de", name, str(size), "2", "5", "2.50 (2.50..2.50)"]
    assert len(rounds) == 2 * 3 * len(CASES)
    assert {number for number, _ in small.asked} == {2}
    assert [search for _, search in small.asked] == [search for _, search in large.asked]
