"""The web page, in a real browser, with a real gateway and a real Triton."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest
from dragoman_gateway.access.keys import add_key
from dragoman_gateway.core.caller import Limits
from dragoman_gateway.core.store import open_database, transaction

from tests.browser import Page
from tests.conftest import REPOSITORY
from tests.gateways import RunningGateway, StartGateway
from tests.npm_packages import AXE, skip_without
from tests.servers import wait_for

TEXT = "The weather is very nice today. We are going to the beach with our friends."
HOSTILE = (
    "<img src=x onerror=\"document.title='run'\"> \u202eabc\u202c </textarea><script>1</script>"
)
TMX = (
    '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>Good morning.</seg>'
    f'</tuv><tuv xml:lang="de"><seg>Moin, {escape(HOSTILE)}</seg></tuv></tu></body></tmx>'
)
MARKED = '<p>I like <a href="/cars?a=1&amp;b=2">red cars</a>.</p>'
MARKED_IN_GERMAN = '<p>Ich mag <a href="/cars?a=1&amp;b=2">rote Autos</a>.</p>'
HOLD_REFUSALS = """(() => {
  const usual = fetch;
  window.held = [];
  window.fetch = async (...request) => {
    const answer = await usual(...request);
    if (answer.status === 401) await new Promise((go) => held.push(go));
    return answer;
  };
})()"""
WIDE, PHONE = (1280, 860), (390, 844)
CONTROL, SHIFT = 2, 8


@pytest.fixture
def page(browser: Page, gateway: RunningGateway) -> Iterator[Page]:
    """The page in a browser without stored data."""
    browser.resize(*WIDE)
    browser.prefer("light")
    browser.speak("en-US")
    browser.open(gateway.url + "/page/icon.svg")
    browser.evaluate("localStorage.clear(), sessionStorage.clear()")
    browser.requests.clear()
    browser.complaints.clear()
    show(browser, gateway)
    yield browser
    # Whatever a test does, no request leaves the origin, and nothing violates the page's policy.
    away = [url for url in browser.requests if not url.startswith((gateway.url + "/", "about:"))]
    assert not [url for url in away if not url.startswith("blob:" + gateway.url)]
    assert not browser.complaints


def show(page: Page, gateway: RunningGateway, path: str = "/") -> None:
    page.open("about:blank")
    page.open(gateway.url + path)
    page.wait_for("document.getElementById('target-language').value")


def type_text(page: Page, text: str) -> None:
    page.evaluate("document.getElementById('source').focus()")
    page.insert(text)


def replace_text(page: Page, text: str) -> None:
    page.evaluate("document.getElementById('source').select()")
    page.insert(text)


def enter(page: Page, text: str) -> str:
    """Type a text, and wait for its translation with its words."""
    type_text(page, text)
    return translated(page)


def translated(page: Page) -> str:
    page.wait_for("document.querySelector('#translation .word')")
    return str(page.evaluate("document.getElementById('translation').textContent"))


def show_with(page: Page, gateway: RunningGateway, script: str) -> None:
    """Show the page with a script that runs before its own."""
    with page.running_first(script):
        show(page, gateway)


def choose(page: Page, picker: str, language: str) -> None:
    pick(page, f"{picker}-language", language)


def pick(page: Page, picker: str, chosen: str) -> None:
    page.evaluate(
        f"(() => {{ const one = document.getElementById('{picker}');"
        f" one.value = '{chosen}'; one.dispatchEvent(new Event('change')); }})()"
    )


def texts_of(page: Page, selector: str) -> list[str]:
    texts: list[str] = page.evaluate(
        f"[...document.querySelectorAll('{selector}')].map(one => one.textContent)"
    )
    return texts


def lit(page: Page, where: str) -> list[str]:
    return texts_of(page, f"{where} :is(.lit, .here)")


def value(page: Page, expression: str) -> Any:
    return page.evaluate(f"document.{expression}")


def text_in(page: Page, element: str) -> str:
    return str(value(page, f"getElementById('{element}').textContent"))


def wait_for_translation(page: Page, text: str) -> None:
    page.wait_for(f"document.getElementById('translation').textContent === {json.dumps(text)}")


def drop_text(page: Page, file: Path, content: str) -> None:
    """Drop a file with this content."""
    file.write_text(content, "utf-8")
    page.drop(file)


def test_a_text_is_translated_while_it_is_typed(page: Page, gateway: RunningGateway) -> None:
    page.evaluate(
        "window.seen = new Set(), new MutationObserver(() =>"
        " seen.add(document.getElementById('translation').textContent))"
        ".observe(document.getElementById('translation'), { childList: true })"
    )
    text = " ".join([TEXT, *(f"We counted {number} houses in the street." for number in range(99))])
    translation = enter(page, text)
    answer = gateway.post("/api/v1/translate", {"text": text, "target_language": "de"})
    assert translation == answer.json["translations"][0]["text"]
    parts = page.evaluate("[...seen].filter(one => one)")
    assert len(parts) > 2, "the translation did not grow"
    assert text_in(page, "detected").startswith("English · ")
    page.wait_for("document.getElementById('said').textContent")
    assert text_in(page, "said") == translation
    counted = text_in(page, "count")
    assert counted == f"{len(text):,} of 100,000 characters"


def test_a_translation_is_requested_once(page: Page) -> None:
    page.requests.clear()
    translation = enter(page, TEXT)
    page.wait_for(f"document.getElementById('said').textContent === {json.dumps(translation)}")
    calls = [url.partition("/api/v1/")[2] for url in page.requests]
    assert calls == ["detect", "translate/stream"]
    page.point_at("#translation .word")
    assert lit(page, "#shadow")


def test_later_input_aborts_earlier_requests(page: Page) -> None:
    type_text(page, "We are going home. " * 200)
    page.wait_for("!document.getElementById('busy').hidden")
    page.wait_for("document.getElementById('translation').textContent")
    replace_text(page, "Good morning.")
    wait_for_translation(page, "Guten Morgen.")
    translated(page)
    assert "net::ERR_ABORTED" in page.blocked


def test_the_direction_is_swapped_for_a_text_in_the_target_language(page: Page) -> None:
    enter(page, "Wir gehen heute mit unseren Freunden an den Strand.")
    assert value(page, "getElementById('target-language').value") == "en"
    assert text_in(page, "detected").startswith("German")


def test_a_text_that_grows_is_translated_live(page: Page) -> None:
    page.evaluate("document.getElementById('live-open').click()")
    page.evaluate("document.getElementById('live-source').focus()")
    page.insert("I would like a cup of tea. ")
    page.wait_for("document.getElementById('live-translation').textContent.includes('Tee.')")
    first = text_in(page, "live-translation")
    page.insert("Thank you")
    page.wait_for("document.getElementById('live-translation').textContent.includes('Danke')")
    assert text_in(page, "live-translation").startswith(first)
    page.evaluate("document.getElementById('live-source').select()")
    page.insert("Good morning.")  # another text needs another session
    page.wait_for("document.getElementById('live-translation').textContent === 'Guten Morgen.'")
    page.complaints.clear()  # the former session has refused the text
    page.evaluate("document.getElementById('live-clear').click()")
    assert text_in(page, "live-translation") == ""


def test_speech_is_translated_live(page: Page, gateway: RunningGateway) -> None:
    """With a stand-in for the browser's speech recognition, which needs a microphone."""
    stand_in = "class { start() { window.ears = this; } stop() { this.onend(); } }"
    show_with(page, gateway, f"window.SpeechRecognition = {stand_in}")
    page.evaluate("document.getElementById('live-open').click()")
    page.evaluate("document.getElementById('live-speak').click()")
    assert text_in(page, "live-speak") == "Stop listening"
    for words, is_final in (("good", "false"), ("good morning", "true")):
        result = f"Object.assign([{{ transcript: '{words}' }}], {{ isFinal: {is_final} }})"
        page.evaluate(f"window.ears.onresult({{ results: [{result}] }})")
    page.wait_for("document.getElementById('live-translation').textContent.includes('Morgen')")
    page.evaluate("document.getElementById('live-speak').click()")
    assert text_in(page, "live-speak") == "Speak"


def test_languages_are_swapped_with_their_texts(page: Page) -> None:
    choose(page, "source", "en")
    translation = enter(page, "Good morning.")
    page.press("S", 83, CONTROL | SHIFT)
    assert value(page, "getElementById('source').value") == translation
    page.wait_for("document.getElementById('translation').textContent === 'Good morning.'")
    page.click("#swap")
    assert value(page, "getElementById('source-language').value") == "en"
    translated(page)


def test_a_click_on_a_word_shows_alternatives(page: Page) -> None:
    first, second = enter(page, TEXT).split(". ")
    index = len(first.split()) + 2
    page.click(f".word[data-index='{index}']")
    page.wait_for("document.querySelectorAll('#alternatives-list button').length > 2")
    texts = texts_of(page, "#alternatives-list button")
    prefix = " ".join(second.split()[:2])
    assert all(text.startswith(prefix) for text in texts), texts
    assert len({text.split()[2] for text in texts}) > 1
    assert second in texts
    chosen = next(text for text in texts if text != second)
    page.click(f"#alternatives-list li:nth-child({texts.index(chosen) + 1}) button")
    page.wait_for("!document.querySelector(':popover-open')")
    assert text_in(page, "translation") == f"{first}. {chosen}"
    # Words of the new sentence belong to the second sentence; those of the first stay.
    page.wait_for("performance.getEntriesByName(new URL('api/v1/score', location)).length")
    for word, sentence in ((index, 1), (0, 0)):
        page.point_at("h1")
        page.point_at(f".word[data-index='{word}']")
        page.wait_for("document.querySelector('#shadow .lit')")
        sources = page.evaluate(
            "[...document.querySelectorAll('#shadow .lit')].map(one => +one.dataset.index)"
        )
        begin = len(TEXT.split(". ")[0].split())
        assert all((source >= begin) == bool(sentence) for source in sources)


def test_linked_words_are_shown_in_both_directions(page: Page) -> None:
    choose(page, "source", "en")
    translation = enter(page, "We saw the big black house yesterday.")
    house = translation.split().index("Haus")
    page.point_at(f".word[data-index='{house}']")
    assert lit(page, "#shadow") == ["house"]
    page.point_at("#shadow .source[data-index='5']")
    assert lit(page, "#shadow") == ["house"]
    assert "Haus" in lit(page, "#translation")
    page.point_at("h1")
    assert lit(page, "#shadow") == lit(page, "#translation") == []


def test_uncertain_words_are_marked(page: Page) -> None:
    choose(page, "source", "en")
    enter(page, "I am hungry.")
    assert value(page, "querySelectorAll('#translation .doubt').length") == 0
    replace_text(page, "The quaggle frobnicated the zorp of Blorptown.")
    page.wait_for("document.querySelector('#translation .doubt')")
    assert not value(page, "getElementById('legend').hidden")


def test_warnings_are_named(page: Page) -> None:
    choose(page, "source", "en")
    enter(page, "I am hungry.")
    assert value(page, "getElementById('warnings').hidden")
    replace_text(page, "Это русский текст.")
    page.wait_for("!document.getElementById('warnings').hidden")
    assert text_in(page, "warnings").endswith("untranslated words")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("letter.txt", "Good morning.\n\nGood night.\n", "Guten Morgen.\n\nGute Nacht.\n"),
        ("page.html", f"<!doctype html>\n{MARKED}\n", f"<!doctype html>\n{MARKED_IN_GERMAN}\n"),
    ],
)
def test_a_file_is_translated_and_downloaded(
    page: Page, tmp_path: Path, name: str, content: str, expected: str
) -> None:
    page.keep_downloads(tmp_path / "downloads")
    drop_text(page, tmp_path / name, content)
    page.wait_for("document.querySelector('#jobs .button')")
    page.click("#jobs .button")
    received = tmp_path / "downloads" / name
    wait_for(received.exists)
    assert received.read_text("utf-8") == expected


def test_a_word_document_is_dropped_and_fetched(page: Page, tmp_path: Path) -> None:
    """The row shows the progress, and what was left."""
    page.keep_downloads(tmp_path / "downloads")
    page.drop(REPOSITORY / "examples" / "documents" / "library.docx")
    page.wait_for("document.querySelector('#jobs progress')")
    page.wait_for("document.querySelector('#jobs .button')")
    assert "Translated" in value(page, "querySelector('#jobs .state').textContent")
    assert value(page, "querySelectorAll('#jobs .button').length") == 1
    page.click("#jobs .button")
    received = tmp_path / "downloads" / "library.docx"
    wait_for(received.exists)
    with zipfile.ZipFile(received) as opened:
        assert "Bibliothek" in opened.read("word/document.xml").decode()
    messages = 'msgid "Tea"\nmsgstr "Tee"\n\nmsgid "Good morning."\nmsgstr ""\n'
    drop_text(page, tmp_path / "messages.po", messages)
    page.wait_for(
        "document.querySelector('#jobs .state').textContent.includes('1 already translated')"
    )


def test_a_text_and_its_translation_are_compared(page: Page, tmp_path: Path) -> None:
    letter = f"# Good morning.\n\n{HOSTILE}\n\n \nGood night.\n"
    drop_text(page, tmp_path / "letter.md", letter)
    page.wait_for("document.querySelector('#jobs .button + .button')")
    page.click("#jobs .button + .button")
    page.wait_for("document.querySelector('#jobs .beside')")
    cells = texts_of(page, "#jobs td")
    assert cells[:2] == ["# Good morning.", "# Guten Morgen."]
    assert cells[2] == HOSTILE
    assert cells[4:] == ["Good night.\n", "Gute Nacht.\n"]
    assert value(page, "querySelectorAll('#jobs td *').length") == 0
    assert value(page, "title") == "Dragoman"
    page.click("#jobs .button + .button")
    page.wait_for("!document.querySelector('#jobs .beside')")


def test_a_file_that_fails_shows_the_reason(page: Page, tmp_path: Path) -> None:
    picture, broken = tmp_path / "picture.png", tmp_path / "broken.xml"
    picture.write_bytes(b"\x89PNG")
    broken.write_text("<a>\n<b></a>", "utf-8")
    for file, message in ((picture, ".xliff"), (broken, "not valid XML: line 2, column")):
        page.drop(file)
        page.wait_for(f"document.querySelector('#jobs .wrong')?.textContent.includes('{message}')")
    page.complaints.clear()  # about the document that was refused


def test_html_is_translated_as_source_text(page: Page, gateway: RunningGateway) -> None:
    choose(page, "source", "en")
    type_text(page, MARKED)
    page.wait_for("document.querySelector('#format.hint')")
    pick(page, "format", "html")
    wait_for_translation(page, MARKED_IN_GERMAN)
    page.wait_for(f"document.getElementById('said').textContent === {MARKED_IN_GERMAN!r}")
    assert value(page, "querySelectorAll('#translation *, #inside-open:enabled').length") == 0
    page.click("#code-open")
    assert '"format":"html"' in text_in(page, "curl")
    python = text_in(page, "python")
    compile(python, "shown", "exec")
    assert '"format": "html"' in python
    page.click("#share")
    page.wait_for("location.hash.startsWith('#html/en/de/')")
    link = page.evaluate("location.hash")
    page.click("#past-open")
    show(page, gateway)
    assert value(page, "getElementById('format').value") == "text"
    show(page, gateway, f"/{link}")
    wait_for_translation(page, MARKED_IN_GERMAN)
    page.click("#past-open")
    page.evaluate("document.getElementById('clear').click()")
    pick(page, "format", "text")
    page.click("#past-list .again")
    wait_for_translation(page, MARKED_IN_GERMAN)


def test_hostile_html_stays_text(page: Page) -> None:
    pick(page, "format", "html")
    type_text(page, f"<p>Good morning, my friends. {HOSTILE}</p>")
    page.wait_for("document.getElementById('translation').textContent.includes('Guten Morgen')")
    shown = text_in(page, "translation")
    assert "<img src=x onerror=\"document.title='run'\">" in shown
    assert "<script>1</script>" in shown
    assert value(page, "querySelectorAll('#translation *, #shadow *').length") == 0
    assert value(page, "title") == "Dragoman"
    # The language is that of the words, and the direction is swapped for them.
    replace_text(page, "<p><b>Wir</b> gehen heute mit unseren Freunden an den Strand.</p>")
    page.wait_for("document.getElementById('target-language').value === 'en'")
    page.wait_for("document.getElementById('translation').textContent.includes('<b>We</b>')")


def test_a_file_is_listed_once_after_a_new_key_and_a_reload(
    page: Page, gateway: RunningGateway, tmp_path: Path
) -> None:
    drop_text(page, tmp_path / "letter.txt", "Good morning.\n")
    page.wait_for("document.querySelector('#jobs .button')")
    page.evaluate("document.getElementById('key-open').click()")
    page.insert("drg_ignored")
    page.press("Enter", 13)
    page.wait_for("performance.getEntriesByName(new URL('api/v1/glossaries', location)).length > 1")
    assert value(page, "querySelectorAll('#jobs li').length") == 1
    show(page, gateway)
    page.wait_for("document.querySelector('#jobs .button')")
    assert value(page, "querySelectorAll('#jobs li').length") == 1


def test_a_file_in_progress_can_be_cancelled(page: Page, tmp_path: Path) -> None:
    lines = (f"We counted {number} houses in the street.\n" for number in range(20_000))
    drop_text(page, tmp_path / "long.txt", "".join(lines))
    page.wait_for("document.querySelector('#jobs progress')?.value > 0")
    assert "Translating" in value(page, "querySelector('#jobs .state').textContent")
    page.click("#jobs .icon")
    page.wait_for("!document.querySelector('#jobs li')")
    page.wait_for("document.getElementById('documents-number').hidden")


def test_terms_of_the_glossary_are_used(gateway: RunningGateway, page: Page) -> None:
    for stored in gateway.get("/api/v1/glossaries").json["glossaries"]:  # from other tests
        gateway.request("DELETE", f"/api/v1/glossaries/{stored['id']}")
    choose(page, "source", "en")
    page.click("#glossary-open")
    page.evaluate("document.querySelector('#terms input').focus()")
    page.insert("tea")
    page.press("Tab", 9)
    page.insert("Kamillentee")
    assert "Kamillentee" in enter(page, "I would like a cup of tea.")
    page.wait_for("!document.getElementById('saved').hidden")
    page.evaluate("document.getElementById('save-name').focus()")
    page.insert(HOSTILE)
    page.press("Enter", 13)
    page.wait_for("document.querySelector('#saved-list li')")
    assert value(page, "querySelector('#saved-list bdi').textContent") == HOSTILE
    page.evaluate("document.querySelector('#terms .icon').click()")
    page.click("#saved-list input")
    page.wait_for("document.getElementById('glossary-number').textContent === '1'")
    replace_text(page, "We drink tea.")
    page.wait_for("document.getElementById('translation').textContent.includes('Kamillentee')")
    page.evaluate("window.confirm = () => true")
    page.click("#saved-list .icon")
    page.wait_for("!document.querySelector('#saved-list li')")
    translated(page)


def test_a_translation_memory_is_made_from_a_file_and_used(
    gateway: RunningGateway, page: Page, tmp_path: Path
) -> None:
    """Only for its languages; a file that is none makes none."""
    for memory in gateway.get("/api/v1/memories").json["memories"]:  # of other tests
        assert gateway.request("DELETE", f"/api/v1/memories/{memory['id']}").status == 204
    choose(page, "source", "en")
    page.click("#memory-open")
    for name, content in (("a.tmx", "no"), ("b.tmx", TMX), ("b.tmx", TMX)):
        page.evaluate(
            "(() => { const data = new DataTransfer(), input = document.getElementById("
            f"'memory-file'); data.items.add(new File([{json.dumps(content)}], '{name}'));"
            " input.files = data.files; input.dispatchEvent(new Event('change')); })()"
        )
        page.wait_for("!document.getElementById('memory-file').disabled")
    assert "line 1" in text_in(page, "notice-text")
    page.complaints.clear()  # about the file that was refused
    page.wait_for("document.querySelectorAll('#memory-list li').length === 2")
    assert [memory["name"] for memory in gateway.get("/api/v1/memories").json["memories"]] == [
        "b.tmx"
    ]
    assert "segments: 1" in value(page, "querySelector('#memory-list .note').textContent")
    type_text(page, "Good morning.")
    wait_for_translation(page, f"Moin, {HOSTILE}")
    assert value(page, "querySelectorAll('#translation img').length") == 0
    drop_text(page, tmp_path / "letter.txt", "Good morning.\n")
    page.wait_for("document.querySelector('#jobs .button')")
    (job,) = page.evaluate("JSON.parse(sessionStorage.getItem('dragoman.jobs'))")
    assert gateway.get(f"/api/v1/documents/{job}/result").body.startswith(b"Moin")
    choose(page, "source", "de")
    page.wait_for("document.getElementById('memory-number').hidden")
    choose(page, "source", "en")
    choose(page, "target", "de")
    page.wait_for("!document.getElementById('memory-number').hidden")
    page.click("#memory-open")
    page.evaluate("window.confirm = () => true")
    page.click("#memory-list .icon")
    page.wait_for("document.querySelectorAll('#memory-list li').length === 1")
    wait_for_translation(page, "Guten Morgen.")


def test_attention_is_drawn_in_a_sandboxed_frame(page: Page) -> None:
    enter(page, TEXT)
    page.click("#inside-open")
    page.wait_for("!document.getElementById('inside-frame').hidden")
    with page.framed():
        page.wait_for("document.querySelectorAll('#drawing line').length > 10")
        assert text_in(page, "text") == TEXT.split(". ")[0] + "."
        assert page.evaluate("origin") == "null"
        assert page.evaluate("fetch('/').then(() => 'fetched', () => 'refused')") == "refused"
    page.complaints.clear()
    pick(page, "inside-sentence", "1")
    page.wait_for("document.getElementById('inside-frame').hidden")
    page.wait_for("!document.getElementById('inside-frame').hidden")
    page.press("Escape", 27)
    page.wait_for("!document.getElementById('inside').open")
    page.complaints.clear()  # about what was blocked in the frame


def test_the_attention_page_scrolls_on_a_phone(page: Page) -> None:
    page.resize(*PHONE)
    enter(page, TEXT)
    page.click("#inside-open")
    page.wait_for("!document.getElementById('inside-frame').hidden")
    assert value(page, "getElementById('inside-frame').clientWidth") >= 700
    assert page.evaluate(
        "(() => { const one = document.getElementById('inside-view');"
        " return one.scrollWidth > one.clientWidth; })()"
    )
    page.complaints.clear()  # about what was blocked in the frame


def test_the_request_is_shown_as_a_program(page: Page) -> None:
    text = 'It\'s "nice" $HOME `id`.'
    enter(page, text)
    page.click("#code-open")
    curl = text_in(page, "curl")
    python = text_in(page, "python")
    assert "It'\\''s" in curl
    assert "/api/v1/translate" in curl
    compile(python, "shown", "exec")
    assert json.dumps(text) in python


def test_a_link_holds_the_text_in_its_fragment(page: Page, gateway: RunningGateway) -> None:
    text = "Good morning, 50 % of you/all #1!"
    show(page, gateway, f"/#en/fr/{quote(text, safe='')}")
    translated(page)
    assert value(page, "getElementById('source').value") == text
    assert value(page, "getElementById('target-language').value") == "fr"
    assert not any("morning" in url.partition("#")[0] for url in page.requests)
    show(page, gateway, "/#en/de/%E0%A4%A")
    assert value(page, "getElementById('source').value") == ""


def test_texts_are_copied_with_and_without_a_clipboard(page: Page) -> None:
    translation = enter(page, "Good morning.")
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', { configurable: true,"
        " value: { writeText: async (text) => { window.copied = text; } } })"
    )
    page.click("#copy")
    page.wait_for("document.getElementById('said').textContent === 'Copied'")
    assert page.evaluate("copied") == translation
    page.click("#share")
    page.wait_for("copied.endsWith('#auto/de/Good%20morning.')")
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined }),"
        " document.addEventListener('copy', (event) => { window.copied = event.target.value; })"
    )
    page.evaluate("copied = ''")
    page.click("#copy")
    page.wait_for(f"copied === {json.dumps(translation)}")


def test_right_to_left_text_is_shown_right_to_left(page: Page) -> None:
    type_text(page, "שלום עולם")
    for pane in ("source", "shadow"):
        direction = f"getComputedStyle(document.getElementById('{pane}')).direction"
        assert page.evaluate(direction) == "rtl"
    assert page.evaluate("getComputedStyle(document.body).direction") == "ltr"
    page.wait_for("!document.getElementById('notice').hidden")
    assert "choose the language" in text_in(page, "notice-text")
    assert page.complaints.pop().endswith("400 (Bad Request)")


def test_the_history_is_kept_until_it_is_switched_off(page: Page, gateway: RunningGateway) -> None:
    enter(page, "Good morning.")
    page.insert(" " + HOSTILE)
    page.wait_for("document.querySelectorAll('#past-list li').length === 1")
    show(page, gateway)
    page.click("#past-open")
    page.wait_for("document.querySelector('#past-list .again')")
    page.click("#past-list .again")
    assert value(page, "getElementById('source').value").startswith("Good morning.")
    page.click("#past-on")
    assert value(page, "querySelectorAll('#past-list li').length") == 0
    assert page.evaluate("localStorage.getItem('dragoman.past')") is None
    translated(page)
    assert value(page, "querySelectorAll('#past-list li').length") == 0


def test_hostile_text_stays_text(page: Page, gateway: RunningGateway) -> None:
    title = value(page, "title")
    # A translation that a hostile server or a copying model could return.
    show_with(
        page,
        gateway,
        "const asked = fetch; window.fetch = async (url, how) => {"
        " if (!String(url).endsWith('/stream')) return asked(url, how);"
        f" const event = {{ text: {json.dumps(HOSTILE + 'w' * 3000)}, finish_reason: 'stop' }};"
        " return new Response(`data: ${JSON.stringify(event)}\\n\\n`); }",
    )
    type_text(page, "Good " + HOSTILE + "w" * 3000)
    page.wait_for("document.getElementById('translation').textContent.includes('onerror')")
    assert value(page, "querySelectorAll('main img, main script').length") == 0
    assert value(page, "title") == title
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.wait_for("document.querySelectorAll('#past-list li').length === 1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


REFUSALS = """
const asked = fetch;
window.refuse = null;
window.fetch = async (url, how) => {
  const refusal = String(url).includes('/api/v1/') && window.refuse?.(how);
  return refusal
    ? new Response(JSON.stringify({ error: refusal }), {
        status: refusal.status, headers: refusal.headers })
    : asked(url, how);
};
"""


def test_requests_to_a_busy_server_are_retried(page: Page, gateway: RunningGateway) -> None:
    show_with(page, gateway, REFUSALS)
    page.evaluate(
        "window.refuse = () => ({ code: 'too_many_requests', message: 'm', status: 429,"
        " headers: { 'Retry-After': '2' } })"
    )
    type_text(page, "Good morning.")
    page.wait_for("!document.getElementById('notice').hidden")
    assert "minute" in text_in(page, "notice-text")
    assert text_in(page, "notice-action") == "Try now (2 s)"
    page.evaluate("window.refuse = null")
    assert translated(page) == "Guten Morgen."
    assert value(page, "getElementById('notice').hidden")


def test_a_refusal_is_visible_and_clears_the_old_translation(
    page: Page, gateway: RunningGateway
) -> None:
    show_with(page, gateway, REFUSALS)
    page.resize(*PHONE)
    enter(page, "We are going home. " * 60)
    page.evaluate("scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })")
    page.evaluate(
        "window.refuse = () => ({ code: 'invalid_input', message: 'no', status: 400, headers: {} })"
    )
    page.evaluate(
        "(() => { const one = document.getElementById('source');"
        " one.setSelectionRange(one.value.length, one.value.length); })()"
    )
    page.insert("More.")
    page.wait_for("!document.getElementById('notice').hidden")
    assert text_in(page, "translation") == ""
    assert page.evaluate("scrollY > 500")
    assert 0 <= value(page, "getElementById('notice').getBoundingClientRect().top") < 50


def test_a_key_is_requested_and_kept_for_the_tab(
    browser: Page, start_gateway: StartGateway, tmp_path: Path
) -> None:
    with contextlib.closing(open_database(tmp_path)) as database, transaction(database):
        key, secret = add_key(database, "of a test", limits=Limits(characters_per_month=40))
    page = browser
    with start_gateway(folder=tmp_path) as closed:
        page.open(closed.url)
        page.wait_for("document.getElementById('key')?.open")
        page.press("Escape", 27)
        page.wait_for("!document.getElementById('key').open")
        enter_nothing = "document.getElementById('notice-action').textContent === 'Enter a key'"
        if page.evaluate("!document.getElementById('notice').hidden"):
            assert page.evaluate(enter_nothing)
            page.click("#notice-action")
        else:
            type_text(page, "Good morning.")
        for given in ("drg_" + "0" * 40, secret):
            page.wait_for("document.getElementById('key').open")
            page.wait_for("document.activeElement.id === 'key-secret'")
            page.insert(given)
            page.press("Enter", 13)
            page.wait_for("!document.getElementById('key').open")
        page.wait_for("document.getElementById('target-language').value")
        page.evaluate("document.getElementById('source').select()")
        assert enter(page, "Good morning.") == "Guten Morgen."
        assert page.evaluate("localStorage.getItem('dragoman.key')") is None
        page.click("#code-open")
        for shown in ("curl", "python"):
            assert key.id not in value(page, f"getElementById('{shown}').textContent")
        # The month's characters are used up: a retry would not help.
        replace_text(page, "We are going to the beach with our friends today.")
        page.wait_for("!document.getElementById('notice').hidden")
        assert "month" in text_in(page, "notice-text")
        assert value(page, "getElementById('notice-action').hidden")
        page.click("#key-open")
        page.evaluate(HOLD_REFUSALS)
        page.click("#key-forget")
        page.wait_for("document.getElementById('key').open")
        assert page.evaluate("sessionStorage.getItem('dragoman.key')") is None
        page.insert(secret)
        page.click("#key-stays")
        page.press("Enter", 13)
        page.wait_for("!document.getElementById('key').open")
        assert page.evaluate("localStorage.getItem('dragoman.key')") == json.dumps(secret)
        # A late refusal of a request without the key does not ask for it again.
        page.wait_for("held.length")
        page.evaluate("held.splice(0).forEach((go) => go())")
        page.evaluate("new Promise((go) => setTimeout(go, 100))")
        assert value(page, "getElementById('key').open") is False
        assert not [url for url in page.requests if key.id in url]
        page.evaluate("localStorage.clear(), sessionStorage.clear()")
        page.open("about:blank")
    page.complaints.clear()


def test_the_page_works_under_a_prefix(browser: Page, start_gateway: StartGateway) -> None:
    with start_gateway(path_prefix="/some/where") as published:
        browser.requests.clear()
        for path in ("/some/where", "/some/where/"):
            show(browser, published, path)
            assert enter(browser, "Good morning.") == "Guten Morgen."
        prefix = published.url + "/some/where"
        elsewhere = [url for url in browser.requests if not url.startswith((prefix, "about:"))]
        assert not elsewhere
        browser.open("about:blank")


def test_the_page_waits_for_a_server_that_starts(
    browser: Page, start_gateway: StartGateway
) -> None:
    with start_gateway(triton="grpc://127.0.0.1:9", triton_http="http://127.0.0.1:9") as alone:
        browser.open(alone.url)
        browser.wait_for("document.getElementById('notice-action')?.textContent.includes(' s)')")
        shown = value(browser, "getElementById('notice-text').textContent")
        assert shown == "The server is starting or busy."
        browser.open("about:blank")
    browser.complaints.clear()


def test_it_continues_automatically_after_being_offline(page: Page) -> None:
    page.go_offline(True)
    type_text(page, "Good morning.")
    page.wait_for("!document.getElementById('notice').hidden")
    assert "offline" in text_in(page, "notice-text")
    page.go_offline(False)
    assert translated(page) == "Guten Morgen."
    page.complaints.clear()


def test_axe_finds_nothing_serious(page: Page) -> None:
    if not AXE.exists():
        skip_without("axe-core")
    page.evaluate(AXE.read_text("utf-8"))
    choose(page, "source", "en")
    enter(page, "The quaggle frobnicated the zorp of Blorptown.<br>")
    page.wait_for("document.querySelector('#format.hint')")
    page.wait_for("getComputedStyle(document.getElementById('translation')).opacity === '1'")
    tools = ("documents", "glossary", "memory", "live", "past", "code")
    openings = {
        "": "",
        **{name: f"document.getElementById('{name}-open').click()" for name in tools},
        "alternatives": "document.querySelector('.word').click()",
        "shortcuts": "document.getElementById('shortcuts').showModal()",
        "key": "document.getElementById('shortcuts').close(),"
        " document.getElementById('key').showModal()",
    }
    faults = []
    for size in (WIDE, PHONE):
        page.resize(*size)
        for name, opening in openings.items():
            page.evaluate(opening)
            if name == "alternatives":
                page.wait_for("document.querySelector('#alternatives-list button')")
            for scheme in ("light", "dark"):
                page.prefer(scheme)
                # Between schemes, only colours differ.
                rules = "" if scheme == "light" else "runOnly: ['color-contrast'], "
                violations = page.evaluate(
                    f"axe.run(document, {{ {rules}resultTypes: ['violations'] }}).then(found =>"
                    " found.violations.map(({ id, impact, nodes }) => [impact, id,"
                    " nodes.map(one => one.html).slice(0, 3), nodes[0].failureSummary]))"
                )
                serious = [
                    violation for violation in violations if violation[0] in ("serious", "critical")
                ]
                faults += [(size, scheme, name, *violation) for violation in serious]
        page.evaluate("document.getElementById('key').close()")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), size
    assert not faults


def test_everything_works_with_the_keyboard(page: Page) -> None:
    type_text(page, "We saw the big black house yesterday.")
    translated(page)
    reached = []
    for _ in range(40):
        page.press("Tab", 9)
        name = value(page, "activeElement.id")
        if name == "translation":
            break
    assert name == "translation"
    page.press("ArrowRight", 39)
    page.press("ArrowRight", 39)
    page.wait_for("document.getElementById('said').textContent.includes('from')")
    assert lit(page, "#shadow")
    page.press("Enter", 13)
    page.wait_for("document.activeElement.closest('#alternatives-list')")
    page.press("ArrowDown", 40)
    assert page.evaluate("Boolean(document.activeElement.closest('#alternatives-list'))")
    page.press("Escape", 27)
    page.wait_for("!document.querySelector('.word.open')")
    assert value(page, "activeElement.id") == "translation"
    page.evaluate("document.querySelector('.word').click()")
    page.wait_for("document.querySelector('#alternatives-list button')")
    page.click("#source")
    page.wait_for("!document.querySelector('.word.open')")
    assert value(page, "activeElement.id") == "source"
    page.evaluate("document.querySelector('.skip').focus()")
    for _ in range(40):
        page.press("Tab", 9)
        if name := value(page, "activeElement.id"):
            reached.append(name)
        if name == "interface-language":
            break
    buttons = ("swap", "clear", "copy", "share", "inside-open", "theme", "shortcuts-open")
    tools = ("documents", "glossary", "memory", "live", "past", "code")
    assert {"source", "source-language", "target-language", *buttons} <= set(reached)
    assert {f"{tool}-open" for tool in tools} <= set(reached)
    page.evaluate("document.getElementById('source').focus()")
    page.press("Backspace", 8, CONTROL | SHIFT)
    assert value(page, "getElementById('source').value") == ""


@pytest.mark.parametrize(("tag", "word"), [("de-DE", "Glossar"), ("fr-CA", "Glossaire")])
def test_the_interface_is_in_the_users_language(
    page: Page, gateway: RunningGateway, tag: str, word: str
) -> None:
    page.speak(tag)
    show(page, gateway)
    assert value(page, "querySelector('#glossary-open span').textContent") == word
    assert value(page, "documentElement.lang") == tag[:2]


def test_missing_interface_texts_do_not_break_the_page(page: Page, gateway: RunningGateway) -> None:
    page.speak("de-DE")
    broken = "const real = fetch; window.fetch = (url, how) => String(url).includes('/strings/')"
    for answer in ("Promise.reject(new TypeError())", "Promise.resolve(new Response('{'))"):
        with page.running_first(f"{broken} ? {answer} : real(url, how)"):
            show(page, gateway)
            assert value(page, "querySelector('#glossary-open span').textContent") == "Glossary"
            assert enter(page, "Good morning.") == "Guten Morgen."


def test_it_fits_the_narrowest_phones(page: Page, gateway: RunningGateway) -> None:
    page.resize(320, 640)
    page.speak("de-DE")
    show(page, gateway)
    page.evaluate("document.getElementById('key-open').hidden = false")
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    assert text_in(page, "key-open") == "Schlüssel"
    page.open(gateway.url + "/api/v1/docs")
    assert page.evaluate("document.documentElement.scrollWidth") == 320


def test_keys_are_drawn(page: Page) -> None:
    caps: list[list[Any]] = page.evaluate(
        "[...document.querySelectorAll('kbd')]"
        ".map(one => [one.textContent, Boolean(one.querySelector('svg'))])"
    )
    assert all(name.isascii() or name == "⌘" for name, _ in caps)
    assert [name for name, is_drawn in caps if is_drawn] == [
        "Backspace",
        "Left arrow",
        "Right arrow",
    ]


def test_colours_and_language_of_the_page_are_kept(page: Page) -> None:
    page.click("#theme")
    page.click("#theme")
    choose(page, "interface", "de")
    page.wait_for("document.documentElement?.lang === 'de'")
    assert value(page, "documentElement.dataset.theme") == "dark"


DIAGONAL = "0-0 1-1 2-2 3-3 4-4 5-5"
ONE, TWO, THREE = "A b c d. E f.", "G h. I k. L m.", "A b. C d. E f."
PAIRS = """
import('{url}/page/words.js').then(({{ sentencePairs, detailedWords }}) => {{
  const [source, target, links] = {texts};
  const words = detailedWords(target, {{ alignments: links }});
  const cut = (text, {{ start, end }}) => text.slice(start, end);
  const pairs = sentencePairs(source, 'en', target, 'de', words);
  return pairs.map((pair) => [cut(source, pair.source), cut(target, pair.target)]);
}})
"""


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("A b. C d.", "E f. G h.", "0-0 1-1 2-2 3-3", [("A b.", "E f."), ("C d.", "G h.")]),
        # One sentence became two, so both belong to it; and two became one.
        (ONE, TWO, DIAGONAL, [("A b c d.", "G h. I k."), ("E f.", "L m.")]),
        (THREE, "G h i k. L m.", DIAGONAL, [("A b. C d.", "G h i k."), ("E f.", "L m.")]),
        # Without links, sentences are paired in order; none is omitted.
        ("A b. C d. E f.", "G h. I k.", "", [("A b.", "G h."), ("C d. E f.", "I k.")]),
        ("A b.", "", "", []),
    ],
)
def test_sentences_are_paired_by_the_links_of_their_words(
    page: Page,
    gateway: RunningGateway,
    source: str,
    target: str,
    links: str,
    expected: list[tuple[str, str]],
) -> None:
    texts = json.dumps([source, target, links])
    pairs = page.evaluate(PAIRS.format(url=gateway.url, texts=texts))
    assert [tuple(pair) for pair in pairs] == expected


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("Guten Tag!", ["▁Gut", "en", "▁Tag", "!", "</s>"], [-2, -4]),
        (
            "Ein 😀 da",
            ["▁Ein", "▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "▁da", "</s>"],
            [-1, -6, -7],
        ),
        ("Zwei. Drei.", ["▁Zwei", ".", "</s>", "▁Drei", ".", "</s>"], [-2, -5]),
        ("anders", ["▁etwas", "</s>"], [None]),
    ],
)
def test_words_have_the_lowest_log_probability_of_their_tokens(
    page: Page, gateway: RunningGateway, text: str, tokens: list[str], expected: list[float | None]
) -> None:
    log_probs = [-float(place + 1) for place in range(len(tokens))]
    answer = json.dumps({"token_scores": {"tokens": tokens, "log_probs": log_probs}})
    lowest = page.evaluate(
        f"import('{gateway.url}/page/words.js').then(({{ detailedWords }}) =>"
        f" detailedWords({json.dumps(text)}, {answer}).map((one) => one.logProb))"
    )
    assert lowest == expected
