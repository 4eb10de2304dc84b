"""The page of `dragoman attention`, opened in a real browser."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.drawing.page import LEAST, write_page
from dragoman.kernel.attention_maps import KINDS, Attention
from tests.browser import Page

NASTY = "<script>document.title='run'</script>"
SOURCE = ("<2de>", "▁The", NASTY, "&amp;", "</s>")
SAID = ("▁Das", "<b>Tier</b>", "</s>")


def attention(seed: int = 0) -> Attention:
    """Attention of two encoder layers and three decoder layers, with four heads."""
    random = np.random.default_rng(seed)

    def weights(layers: int, queries: int, keys: int) -> np.ndarray:  # type: ignore[type-arg]
        drawn = random.random((layers, 4, queries, keys)).astype(np.float32) ** 4
        return drawn / drawn.sum(-1, keepdims=True)  # type: ignore[no-any-return]

    causal = np.tril(weights(3, 3, 3)) + 1e-9
    causal = np.tril(causal / np.tril(causal).sum(-1, keepdims=True)).astype(np.float32)
    return Attention(
        source=SOURCE,
        read=("<s>", *SAID[:-1]),
        said=SAID,
        encoder=weights(2, 5, 5),
        decoder=causal,
        cross=weights(3, 3, 5),
        alignment_heads=((1, 3), (2, 0), (1, 0)),
    )


@pytest.fixture
def page(browser: Page, tmp_path: Path) -> Page:
    """The page in a browser, as it opens."""
    path = tmp_path / "attention.html"
    path.write_text(write_page(attention(), NASTY, SAID[1], "encoder", layer=0), encoding="utf-8")
    browser.complaints.clear()
    browser.requests.clear()
    browser.blocked.clear()
    browser.open(path)
    return browser


def drawn(page: Page) -> set[tuple[int, int, int]]:
    """Head, query and key of each line."""
    lines = page.evaluate(
        "[...document.querySelectorAll('#drawing line')].map(one =>"
        " ['head', 'query', 'key'].map(name => +one.dataset[name]))"
    )
    return {tuple(line) for line in lines}


def expected(
    kind: str, layer: int, heads: set[int], query: int | None = None
) -> set[tuple[int, ...]]:
    weights = attention().weights(kind)[layer]  # type: ignore[arg-type]
    # Weights that rounding could bring over the limit are not tested here.
    assert (np.abs(weights - LEAST) > 1e-6).all()
    places = zip(*(weights >= LEAST).nonzero(), strict=True)
    positions = {tuple(map(int, place)) for place in places}
    return {
        position for position in positions if position[0] in heads and query in (None, position[1])
    }


def where(page: Page) -> tuple[str, str]:
    """The chosen kind, and the label of the layer."""
    kind = page.evaluate("document.querySelector('#kinds input:checked').value")
    layer = page.evaluate("document.querySelector('#layer').selectedOptions[0].textContent")
    return kind, layer


def choose(page: Page, element: str, change: str) -> None:
    page.evaluate(
        f"(() => {{ const one = document.querySelector('{element}'); {change};"
        " one.dispatchEvent(new Event('change', { bubbles: true })); })()"
    )


def test_layer_kind_and_heads_change_the_drawing(page: Page) -> None:
    every = {0, 1, 2, 3}
    seen = [drawn(page)]
    assert seen[-1] == expected("encoder", 0, every)
    choose(page, "#layer", "one.value = 1")
    seen.append(drawn(page))
    assert seen[-1] == expected("encoder", 1, every)
    choose(page, "#head-2", "one.checked = false")
    seen.append(drawn(page))
    assert seen[-1] == expected("encoder", 1, {0, 1, 3})
    page.evaluate("document.getElementById('one').click()")
    seen.append(drawn(page))
    assert seen[-1] == expected("encoder", 1, {0})
    page.evaluate("document.getElementById('all').click()")
    choose(page, "#kind-cross", "one.checked = true")
    assert page.evaluate("document.getElementById('layer').options.length") == 3
    seen.append(drawn(page))
    assert seen[-1] == expected("cross", 1, every)
    choose(page, "#kind-decoder", "one.checked = true")
    seen.append(drawn(page))
    assert seen[-1] == expected("decoder", 1, every)
    assert len({frozenset(drawing) for drawing in seen}) == len(seen)
    assert page.complaints == []


def test_it_opens_on_the_alignment_heads_and_returns_to_them(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "aligned.html"
    path.write_text(write_page(attention(), NASTY, SAID[1]), encoding="utf-8")
    page.open(path)
    aligned = expected("cross", 1, {0, 3})
    assert where(page) == ("cross", "1 (0-2)")
    assert drawn(page) == aligned
    choose(page, "#kind-encoder", "one.checked = true")
    page.evaluate("document.getElementById('all').click()")
    assert drawn(page) == expected("encoder", 1, {0, 1, 2, 3})
    page.click("#aligning")
    assert where(page) == ("cross", "1 (0-2)")
    assert drawn(page) == aligned
    none = replace(attention(), alignment_heads=())
    path.write_text(write_page(none, NASTY, SAID[1]), encoding="utf-8")
    page.open(path)
    assert where(page) == ("cross", "2 (0-2)")
    assert drawn(page) == expected("cross", 2, {0, 1, 2, 3})
    assert page.evaluate("document.getElementById('aligning').hidden")


def test_lines_of_several_heads_do_not_cover_each_other(page: Page) -> None:
    lines = page.evaluate(
        "[...document.querySelectorAll('#drawing line')].map(one =>"
        " ['x1', 'y1', 'x2', 'y2'].map(name => one.getAttribute(name)).join())"
    )
    assert len(set(lines)) == len(lines)


def test_the_lines_have_the_given_weights(page: Page) -> None:
    lines = page.evaluate(
        "[...document.querySelectorAll('#drawing line')].map(one => [+one.dataset.head,"
        " +one.dataset.query, +one.dataset.key, +one.dataset.weight,"
        " +one.getAttribute('stroke-width')])"
    )
    weights = attention().encoder[0]
    assert lines
    for head, query, key, weight, width in lines:
        assert weight == pytest.approx(float(weights[head, query, key]), abs=1e-6)
        assert width == pytest.approx(0.5 + 6 * weight, abs=0.01)


def test_texts_stay_texts(page: Page) -> None:
    assert page.evaluate("document.title") == "Attention of each head"
    shown = page.evaluate("[...document.querySelectorAll('.key text')].map(one => one.textContent)")
    assert tuple(shown) == SOURCE
    assert page.evaluate("document.getElementById('text').textContent") == NASTY
    assert page.evaluate("document.getElementById('translation').textContent") == SAID[1]
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert page.evaluate("document.querySelectorAll('svg script, b').length") == 0


def test_it_makes_no_network_requests(page: Page) -> None:
    assert [url.partition(":")[0] for url in page.requests] == ["file"]
    assert page.complaints == []
    # Nor could it, if something were injected into it.
    page.evaluate(
        "document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:1/' }))"
    )
    deadline_s = time.monotonic() + 30
    while not page.blocked and time.monotonic() < deadline_s:
        page.evaluate("0")
    assert page.blocked == ["csp"]


def test_it_can_be_used_by_keyboard_only(page: Page) -> None:
    for _ in range(20):
        page.press("Tab", 9)
        if page.evaluate("document.activeElement.classList.contains('query')"):
            break
    assert drawn(page) == expected("encoder", 0, {0, 1, 2, 3}, query=0)
    page.press("ArrowDown", 40)
    assert drawn(page) == expected("encoder", 0, {0, 1, 2, 3}, query=1)
    assert "▁The attends with head 0 most to" in page.evaluate(
        "document.getElementById('told').textContent"
    )
    page.press("ArrowUp", 38)
    page.press("ArrowUp", 38)
    assert drawn(page) == expected("encoder", 0, {0, 1, 2, 3}, query=4)
    page.press("Escape", 27)
    assert drawn(page) == expected("encoder", 0, {0, 1, 2, 3})
    page.press("ArrowUp", 38)
    assert drawn(page) == expected("encoder", 0, {0, 1, 2, 3}, query=3)
    page.press("Escape", 27)
    assert drawn(page) == expected("encoder", 0, {0, 1, 2, 3})
    page.evaluate("document.getElementById('layer').focus()")
    page.press("ArrowDown", 40)
    assert drawn(page) == expected("encoder", 1, {0, 1, 2, 3})


def test_it_has_a_light_and_a_dark_theme(page: Page) -> None:
    def colours() -> list[str]:
        styles: list[str] = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor,"
            " getComputedStyle(document.querySelector('.key text')).fill]"
        )
        return styles

    page.prefer("light")
    light = colours()
    page.prefer("dark")
    dark = colours()
    page.prefer("light")
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    assert dark[0] != dark[1]


def test_every_kind_has_its_own_tokens(page: Page) -> None:
    weights = attention()
    for kind in KINDS:
        choose(page, f"#kind-{kind}", "one.checked = true")
        for side, tokens in (("query", weights.queries(kind)), ("key", weights.keys(kind))):
            script = f"[...document.querySelectorAll('.{side} text')].map(one => one.textContent)"
            assert tuple(page.evaluate(script)) == tokens


def test_heads_that_align_tokens_when_read_link_those_tokens(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "read.html"
    weights = replace(attention(), aligns_when_read=True)
    path.write_text(write_page(weights, NASTY, SAID[1]), encoding="utf-8")
    page.open(path)
    for kind, tokens in (("cross", weights.read), ("decoder", weights.said)):
        choose(page, f"#kind-{kind}", "one.checked = true")
        script = "[...document.querySelectorAll('.query text')].map(one => one.textContent)"
        assert tuple(page.evaluate(script)) == tokens
