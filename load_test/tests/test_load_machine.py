"""The description of the machine in a report."""

import os

import pytest
from dragoman_load_test.machine import machine_in_words


def test_processors_are_counted_on_every_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Linux reports which processors a process may use."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert machine_in_words().startswith("6 x ")
