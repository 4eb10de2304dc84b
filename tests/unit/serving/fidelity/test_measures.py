from __future__ import annotations

import pytest
from dragoman_serving.fidelity.literals import known_literals
from dragoman_serving.fidelity.measures import has_unit, recased


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("3.5 kg and 30 km/h", ["kg", "km/h"]),
        ("12\u00a0mm, 5\u202fkWh", ["mm", "kWh"]),
        ("12kg, kg 12, 3 kgs, 5 KG, 4 km/x, the km", []),
    ],
)
def test_units_after_numbers_are_literals(text: str, units: list[str]) -> None:
    literals = [literal for literal in known_literals(text) if literal.is_usual]
    assert [text[slice(*literal.span)] for literal in literals] == units


@pytest.mark.parametrize(
    ("unit", "written", "has"),
    [
        ("kg", "3,5 Kg", True),
        ("kg", "dreieinhalb Kilogramm", True),
        ("km", "30 miles", False),
        ("km", "30km", True),
        ("km", "30 kms", False),
        ("mm", "12 kommen", False),
        ("GB", "2,5 Go", True),
        ("V", "12 lives", False),
        ("mph", "30 Millionen Familien", False),
        ("mph", "30 Meilen pro Stunde", True),
        ("lb", "12 livrés", False),
        ("ft", "12 Fußballer", False),
        ("TB", "2 tonnes", False),
    ],
)
def test_a_translation_has_a_unit_or_its_name(unit: str, written: str, has: bool) -> None:
    assert has_unit(written, unit) is has


@pytest.mark.parametrize(
    ("source", "target", "changes"),
    [
        ("3.5 kg", "3.5 Kg Wasser", [(4, 6, "kg")]),
        ("5 mb", "5 MB", []),
        ("5 MB and 3 mm", "5mb und 3 MM", [(1, 3, "MB"), (10, 12, "mm")]),
        ("5 kW and 3 KW", "5 kW und 3 KW", [(11, 13, "kW")]),
        ("12 km", "12 Kms, Km", []),
        ("points (a), b) and C)", "(A), B) und C), DB)", [(1, 3, "a)"), (5, 7, "b)")]),
    ],
)
def test_units_are_written_as_in_the_source(
    source: str, target: str, changes: list[tuple[int, int, str]]
) -> None:
    assert sorted(recased(source, target, "en", "de")) == changes
