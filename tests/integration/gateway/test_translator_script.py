"""The web's Translator and the bookmark in Chromium, with a real gateway and engine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest

from tests.browser import Page
from tests.doc_examples import blocks_with
from tests.gateways import RunningGateway, StartGateway
from tests.servers import WAIT_S
from tests.web_server import Handler, serving

ENGLISH, GERMAN = "Good morning. How are you?", "Guten Morgen. Wie geht es dir?"
ARTICLE = """<!doctype html><html lang="en"><title>t</title><body>
<h1>Good morning.</h1>
<p id="cars" class="x">I like <a href="/cars?a=1&amp;b=2">red <b>cars</b></a>.</p>
<ul><li>The cat sleeps.
<li>Guten Tag, meine Damen und Herren.<li>Bonjour mes amis, comment allez-vous ?</ul>
<p id="break">A house.<br>A cup of tea.</p>
<p>Run <code>make serve</code> now.</p>
<pre>I like red cars.</pre><script>document.title = "I like red cars.";</script>
<p translate="no">I like red cars.</p><textarea>I like red cars.</textarea>
<p>12:30 <img alt=""></p></body></html>"""


@contextlib.contextmanager
def site(pages: dict[str, str]) -> Iterator[str]:
    """A web server on a free port: its origin. Pages can be added while it runs."""

    class Pages(Handler):
        def respond(self) -> None:
            content = pages.get(self.path, "").encode()
            kind = {"Content-Type": "text/html; charset=utf-8"}
            self.answer(200 if content else 404, kind, content)

    with serving(Pages) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The site's pages by path."""
    return {"/article": ARTICLE}


@pytest.fixture(scope="module")
def origin(pages: dict[str, str]) -> Iterator[str]:
    """The origin of a site that the gateway allows."""
    with site(pages) as address:
        yield address


@pytest.fixture(scope="module")
def gateway(
    start_gateway: StartGateway, origin: str, pages: dict[str, str]
) -> Iterator[RunningGateway]:
    """A gateway that allows the site, whose page has its script."""
    with start_gateway(allowed_origins=(origin,), timeout_s=WAIT_S) as running:
        pages["/"] = f'<script src="{running.url}/translator.js" crossorigin></script><p>Hi.'
        yield running


@pytest.fixture
def page(browser: Page, gateway: RunningGateway, origin: str) -> Page:
    """The site's page, with the script."""
    browser.open(origin + "/")
    assert gateway.url in browser.requests[-1]
    assert browser.evaluate(OURS)
    return browser


def run(page: Page, code: str) -> Any:
    """The value that asynchronous code returns, or the name of what it throws."""
    return page.evaluate(f"(async () => {{ {code} }})().catch((error) => error.name)")


OURS = "String(globalThis.Translator).includes('extends Model')"
"""Whether the page's Translator is the script's, not the browser's own."""
DIRECTION = "{ sourceLanguage: 'en-US', targetLanguage: 'de' }"
CREATE = f"const translator = await Translator.create({DIRECTION});"


def test_the_translator_translates_whole_and_streamed(page: Page) -> None:
    assert run(page, f"return Translator.availability({DIRECTION})") == "available"
    text = json.dumps(ENGLISH)
    answers = run(
        page,
        f"""{CREATE}
        let streamed = '';
        for await (const part of translator.translateStreaming({text})) streamed += part;
        return [await translator.translate({text}), streamed, translator.sourceLanguage,
          translator.targetLanguage, await translator.translate(' '), translator.inputQuota > 1e9,
          await translator.measureInputUsage('a')];
        """,
    )
    assert answers == [GERMAN, GERMAN, "en-US", "de", " ", True, 0]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("new Translator()", "TypeError"),
        ("await Translator.create({ sourceLanguage: 'en' })", "TypeError"),
        (
            "await Translator.availability({ sourceLanguage: 'e!', targetLanguage: 'de' })",
            "RangeError",
        ),
        (
            "await Translator.create({ sourceLanguage: 'en', targetLanguage: 'ja' })",
            "NotSupportedError",
        ),
        ("await LanguageDetector.create({ expectedInputLanguages: ['ja'] })", "NotSupportedError"),
        ("await Translator.create({ ...D, signal: AbortSignal.abort() })", "AbortError"),
        (
            f"{CREATE} await translator.translate('a', {{ signal: AbortSignal.abort() }})",
            "AbortError",
        ),
        (f"{CREATE} translator.destroy(); await translator.translate('a')", "AbortError"),
        (
            f"{CREATE} const t = translator.translate('Go. '.repeat(3000)); translator.destroy();"
            " await t",
            "AbortError",
        ),
        (f"{CREATE} await translator.translate('a'.repeat(9e6))", "QuotaExceededError"),
    ],
)
def test_errors_have_the_names_of_the_specification(page: Page, code: str, name: str) -> None:
    assert run(page, f"const D = {DIRECTION}; {code}; return 'none'") == name


def test_other_languages_are_unavailable(page: Page) -> None:
    code = "return Translator.availability({ sourceLanguage: 'en', targetLanguage: 'ja' })"
    assert run(page, code) == "unavailable"


def test_a_stream_ends_with_its_signal_or_its_reader(page: Page) -> None:
    text = json.dumps("We are going home. " * 300)
    states = run(
        page,
        f"""{CREATE}
        const aborter = new AbortController(), reason = new Error('enough');
        const stream = translator.translateStreaming({text}, {{ signal: aborter.signal }});
        const reader = stream.getReader();
        const first = await reader.read();
        aborter.abort(reason);
        const rest = async () => {{ for (;;) if ((await reader.read()).done) return; }};
        const thrown = await rest().catch((error) => error);
        const other = translator.translateStreaming({text});
        for await (const part of other) break;
        return [first.done, thrown === reason];
        """,
    )
    assert states == [False, True]


def test_the_detector(page: Page) -> None:
    answers = run(
        page,
        """let loaded = [];
        const detector = await LanguageDetector.create({ expectedInputLanguages: ['de-AT'],
          monitor(m) { m.addEventListener('downloadprogress', (e) => loaded.push(e.loaded)); } });
        return [await detector.detect('Guten Morgen, meine Freunde.'), await detector.detect(''),
          detector.expectedInputLanguages, loaded, await LanguageDetector.availability()];""",
    )
    (german, unknown), nothing, expected, loaded, availability = answers
    assert german["detectedLanguage"] == "de"
    assert unknown["detectedLanguage"] == "und"
    assert german["confidence"] + unknown["confidence"] == pytest.approx(1)
    assert nothing == [{"detectedLanguage": "und", "confidence": 1}]
    assert (expected, loaded, availability) == (["de-AT"], [0, 1], "available")


def test_a_site_that_is_not_allowed_gets_neither_script_nor_translations(
    browser: Page, gateway: RunningGateway, pages: dict[str, str]
) -> None:
    with site(pages) as other:
        browser.open(other + "/")
        assert browser.evaluate("document.querySelector('script').src").startswith(gateway.url)
        body = json.dumps({"text": "a", "target_language": "de"})
        code = f"fetch('{gateway.url}/api/v1/translate', {{ method: 'POST', body: {body!r} }})"
        assert run(browser, f"return (await {code}).status") == "TypeError"
        assert not browser.evaluate(OURS)


def test_the_example_of_the_documentation(
    browser: Page, gateway: RunningGateway, origin: str, pages: dict[str, str]
) -> None:
    (example,) = blocks_with("html", "translator.js", "docs/browser.md")
    pages["/example"] = example.replace("http://localhost:5000", gateway.url)
    browser.open(origin + "/example")
    browser.wait_for("document.body.textContent.includes('Guten Morgen.')")


@pytest.fixture
def demo(browser: Page, gateway: RunningGateway) -> Page:
    """The gateway's page about both."""
    browser.complaints.clear()
    browser.open(gateway.url + "/page/translator.html")
    browser.wait_for("document.getElementById('bookmark').href.startsWith('javascript:')")
    return browser


def test_the_demonstration(demo: Page) -> None:
    demo.evaluate("document.getElementById('demo-target').value = 'de'")
    demo.click("#demo-translate")
    translation = "document.getElementById('demo-translation').textContent"
    demo.wait_for(f"{translation} === {json.dumps(GERMAN)}")
    assert demo.evaluate("document.getElementById('demo-detected').textContent").startswith(
        "English"
    )
    assert not demo.complaints


def test_the_bookmark_translates_a_page_in_place(demo: Page, origin: str) -> None:
    demo.evaluate(
        "(() => { const one = document.getElementById('bookmark-target');"
        " one.value = 'de'; one.dispatchEvent(new Event('change')); })()"
    )
    code = unquote(demo.evaluate("document.getElementById('bookmark').href")).removeprefix(
        "javascript:"
    )
    page = demo
    page.open(origin + "/article")
    before = page.evaluate(
        "window.link = document.querySelector('a'),"
        " link.onclick = () => { window.clicked = true; return false },"
        " document.querySelectorAll('*').length"
    )
    page.evaluate(code)
    page.wait_for("document.documentElement.lang === 'de'")
    texts: dict[str, str] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('h1, p, li, pre, textarea')]"
        ".map((one, index) => [index, one.textContent.trim()]))"
    )
    heading, cars, cat, german, french, tea, run_code, *kept = texts.values()
    assert (heading, cars) == ("Guten Morgen.", "Ich mag rote Autos.")
    assert "Katze" in cat
    assert german == "Guten Tag, meine Damen und Herren."
    assert french == "Bonjour mes amis, comment allez-vous ?"
    assert "Haus" in tea
    assert "make serve" in run_code
    assert kept[:3] == ["I like red cars."] * 3
    # The elements are the page's own.
    assert page.evaluate("document.querySelectorAll('*').length") == before
    assert page.evaluate("document.querySelector('#cars > a') === link && (link.click(), clicked)")
    assert page.evaluate("link.getAttribute('href')") == "/cars?a=1&b=2"
    assert page.evaluate("[link.textContent, link.querySelector('b').textContent]") == [
        "rote Autos",
        "Autos",
    ]
    assert page.evaluate(
        "[...document.querySelector('#break').childNodes].map((one) => one.nodeName)"
    ) == ["#text", "BR", "#text"]
