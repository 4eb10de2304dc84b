"""Recognizing plain text with tags."""

from __future__ import annotations

import pytest

from dragoman.kernel.texts.tags import has_tags, without_tags


@pytest.mark.parametrize(
    "text",
    [
        *("<b>Good</b> morning", "Good morning.</p>", "a<br>b"),
        *("a<br/>b", "<HTML>", "the <script> element", "<p class=x>"),
        *("<g id='1'>", "<x/>", '<a\nhref="/x">here', "<ph name = 'a'>", "1 < 2 <i>or</i> 3 > 2"),
    ],
)
def test_tags(text: str) -> None:
    assert has_tags(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "Good morning.", "a < b", "a<b", "a<b and c>d", "x <i and y> z", "I <3 you", "<>"),
        *("Press <Enter> now.", "<your name>", "Tom <tom@example.org>", "< b >", "</ b>", "<1>"),
    ],
)
def test_no_tags(text: str) -> None:
    assert not has_tags(text)


def test_text_without_tags() -> None:
    assert without_tags('<p>He <a href="/x">reads</a>.</p>') == " He  reads . "
    assert without_tags("Press <Enter> now.") == "Press <Enter> now."
