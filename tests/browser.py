"""A real browser for tests of pages: headless Chromium, controlled over its DevTools pipe.

`find_chromium` says where it comes from; https://chromedevtools.github.io/devtools-protocol/
describes its protocol.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.npm_packages import CHROMIUM

_ANSWER_S = 60
_CHANGED = "navigated or closed"
"""Part of Chromium's error message for an evaluation in a document that is gone."""
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "chrome-headless-shell")
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    *("--disable-background-networking", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
    # On a busy machine, a page that counts as hidden would wait long for its processor.
    *("--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows"),
)
_START = 'exec "$0" "$@" 3<&0 4>&1 </dev/null >&2'
"""Chromium reads commands from descriptor 3 and writes its answers to 4."""


def find_chromium() -> Path | None:
    """The browser: `$DRAGOMAN_CHROMIUM`, the installed one or one on the PATH; None if none
    exists."""
    if named := os.environ.get("DRAGOMAN_CHROMIUM"):
        return Path(named)
    if CHROMIUM.exists():
        return CHROMIUM
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    return Path(program) if program else None


class DocumentChanged(Exception):
    """The page loaded another document before an evaluation ended."""


class Page:
    """A page in the browser."""

    def __init__(self, to: int, back: int, profile: Path) -> None:
        """Open an empty page."""
        self._to, self._back, self.profile = to, back, profile
        self._buffer, self._number, self._session = b"", 0, ""
        self._loaded: set[str] = set()
        self._contexts: dict[str, int] = {}
        self._context: int | None = None
        self.requests: list[str] = []
        """URLs of all requests."""
        self.blocked: list[str] = []
        """Error messages of the requests that were blocked."""
        self.complaints: list[str] = []
        """Exceptions, and messages of the console and of the content security policy."""
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._send(f"{domain}.enable")
        self._send("Page.setLifecycleEventsEnabled", enabled=True)

    def open(self, page: Path | str) -> None:
        """Load a file or a URL, and wait until its scripts have run.

        A document of its own has a loader; a navigation within the former document has none.
        """
        url = page if isinstance(page, str) else page.resolve().as_uri()
        begun = self._send("Page.navigate", url=url)
        assert "errorText" not in begun, (url, begun["errorText"])
        while begun.get("loaderId", "") not in {"", *self._loaded}:
            self._note(self._receive())

    def evaluate(self, expression: str) -> Any:
        """The value of JavaScript, or of its promise."""
        how: dict[str, Any] = {} if self._context is None else {"contextId": self._context}
        how |= {"returnByValue": True, "awaitPromise": True}
        answer = self._send("Runtime.evaluate", expression=expression, **how)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until a JavaScript expression is true, if need be in the next document."""
        deadline_s = time.monotonic() + _ANSWER_S
        while not self._is_true(expression):
            assert time.monotonic() < deadline_s, (expression, self.complaints[-3:])
            time.sleep(0.02)

    def _is_true(self, expression: str) -> bool:
        try:
            return bool(self.evaluate(f"Boolean({expression})"))
        except DocumentChanged:
            return False

    def press(self, key: str, code: int, modifiers: int = 0) -> None:
        """Press a key, such as Tab with code 9; modifiers: 1 Alt, 2 Ctrl, 4 Meta, 8 Shift."""
        text = {"Enter": "\r", " ": " "}.get(key, "") if not modifiers else ""
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            self._send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                modifiers=modifiers,
                text=text if kind == "keyDown" else "",
            )

    @contextlib.contextmanager
    def framed(self) -> Iterator[None]:
        """Evaluate in the document in the page's frame."""
        tree = self._send("Page.getFrameTree")["frameTree"]
        self._context = self._contexts[tree["childFrames"][0]["frame"]["id"]]
        try:
            yield
        finally:
            self._context = None

    def insert(self, text: str) -> None:
        """Type a text where the focus is."""
        self._send("Input.insertText", text=text)

    def point_at(self, selector: str, click: bool = False) -> None:
        """Move the mouse to the middle of an element, and click on it if requested."""
        find = (
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            " one.scrollIntoView({ block: 'nearest', behavior: 'instant' });"
            " const box = one.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        place, before = self.evaluate(find), None
        while place != before:  # the page may still be scrolling
            time.sleep(0.05)
            place, before = self.evaluate(find), place
        x, y = place
        self._send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self._send(
                    "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
                )

    def click(self, selector: str) -> None:
        """Click on an element."""
        self.point_at(selector, click=True)

    def drop(self, file: Path) -> None:
        """Drop a file on the middle of the page."""
        data = {"items": [], "files": [str(file.resolve())], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self._send("Input.dispatchDragEvent", type=kind, x=300, y=300, data=data)

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        """Resize the window, in CSS pixels."""
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    def take_picture(self) -> bytes:
        """A screenshot, as PNG."""
        return base64.b64decode(self._send("Page.captureScreenshot", format="png")["data"])

    def go_offline(self, is_offline: bool) -> None:
        """Disconnect the page from the network, or reconnect it."""
        self._send(
            "Network.emulateNetworkConditions",
            offline=is_offline,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )

    def keep_downloads(self, folder: Path) -> None:
        """Save downloads into a folder."""
        self._send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    @contextlib.contextmanager
    def running_first(self, script: str) -> Iterator[None]:
        """Run JavaScript in each newly opened page, before its own scripts."""
        added = self._send("Page.addScriptToEvaluateOnNewDocument", source=script)
        try:
            yield
        finally:
            self._send("Page.removeScriptToEvaluateOnNewDocument", **added)

    def speak(self, language: str) -> None:
        """Make the page see another user language, such as `de-DE`."""
        agent = self.evaluate("navigator.userAgent")
        self._send("Emulation.setUserAgentOverride", userAgent=agent, acceptLanguage=language)

    def prefer(self, scheme: str) -> None:
        """Make the page see a `light` or `dark` system theme."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._send("Emulation.setEmulatedMedia", features=[feature])

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(method)
            if answer.get("id") == self._number:
                if _CHANGED in str(answer.get("error")):
                    raise DocumentChanged(method)
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Page.lifecycleEvent" and params["name"] == "load":
            self._loaded.add(params["loaderId"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Network.loadingFailed":
            self.blocked.append(params.get("blockedReason", params["errorText"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Runtime.executionContextCreated":
            context = params["context"]
            self._contexts[context["auxData"]["frameId"]] = context["id"]
        elif method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])

    def _receive(self, of: str = "an event") -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._back], [], [], _ANSWER_S)
            assert ready, f"the browser does not answer: {of}, {self.complaints[-3:]}"
            read = os.read(self._back, 1 << 20)
            assert read, "the browser has ended"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


@contextlib.contextmanager
def browsing(chromium: Path, profile: Path) -> Iterator[Page]:
    """A page in its own browser, which ends with it.

    Args:
        chromium: the program.
        profile: an empty folder for its profile.
    """
    with (profile / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", _START, chromium, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **_surroundings(chromium), "HOME": str(profile)},
        )
    assert process.stdin
    assert process.stdout
    try:
        yield Page(process.stdin.fileno(), process.stdout.fileno(), profile)
    finally:
        try:
            _end(process)
        finally:
            process.stdin.close()
            process.stdout.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _surroundings(chromium: Path) -> dict[str, str]:
    """Environment variables with which the installed browser finds its own libraries and fonts."""
    if chromium != CHROMIUM:
        return {}
    libraries = f"{CHROMIUM.parent / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    return {"LD_LIBRARY_PATH": libraries, "FONTCONFIG_PATH": str(CHROMIUM.parent / "fonts")}
