"""Placeholders that stand for numbers."""

from __future__ import annotations

import pytest
from dragoman_serving.fidelity.literals import known_literals


def counts(text: str) -> list[str]:
    return [text[slice(*literal.span)] for literal in known_literals(text) if literal.is_count]


@pytest.mark.parametrize(
    "placeholder",
    [
        *("%d", "%1$d", "%ld", "%.1f", "%(n)d", "%n", "{n}", "{count}", "{{ count }}", "${total}"),
        *("%{count}", "%(num_items)s", ":count", "%count%", "{maxLength}", "{user_count}", "#"),
        *("{0, number, integer}", "<%= total %>", "[COUNT]", "*|COUNT|*", "__count__"),
    ],
)
@pytest.mark.parametrize(
    "text",
    ["{} new photos", "You have {} photos.", "Selected: {}, all ({} new)", "A {}-day trial"],
)
def test_placeholders_of_numbers_are_recognized_by_type_or_name(
    placeholder: str, text: str
) -> None:
    if placeholder in ("#", "[COUNT]"):  # signs by themselves elsewhere
        text = "Read {} new photos"
    number = text.count("{}")
    assert counts(text.replace("{}", placeholder)) == number * [placeholder]


@pytest.mark.parametrize(
    "text",
    [
        *("{name} liked it", "%s is here", "{country} and {accounts}", "%1$s of %2$s", "%@ likes"),
        *("user@count.org files", "https://a.org/count files", "at {hours}:{minutes}", "{x}{n}"),
        *("l'{n} est", "{n}px", "${n}", "#1 of 2", "the # of files", "v{n}", "{n}/{total}"),
    ],
)
def test_others_are_none(text: str) -> None:
    assert counts(text) == ["${n}"] * (text == "${n}")


@pytest.mark.parametrize(
    "text", ["{0} files", "%s Dateien", "{1} fichiers", "%1 days ago", "%@ Minuten", "{0} points."]
)
def test_what_follows_tells_that_a_placeholder_without_a_name_counts(text: str) -> None:
    assert counts(text) == [text.partition(" ")[0]]
    assert counts(text.replace(text.split()[1], "names", 1)) == []


def test_per_cent_may_follow() -> None:
    assert counts("{percent}% of %{n} %") == ["{percent}", "%{n}"]
