"""What translations of files leave out or damage, compared with LibreTranslate's own.

The translator writes each text in capital letters, so a word with a small letter was left. The peer
is argos-translate-files, with which LibreTranslate translates files. Its licence is the AGPL: it
runs in an environment of its own.

    python -m venv PEER && PEER/bin/pip install argos-translate-files==1.4.4
    python -m lab.markup.file_translation --peer PEER/bin/python FILES
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dragoman_client import Document, Translator
from dragoman_client.files.file_formats import ReadableFormat, format_of
from dragoman_client.testing import FakeTransport
from lxml import etree, html

from dragoman.kernel.errors import DragomanError
from lab.measurement import Results, option, program
from lab.report import markdown_table

_PARTS = re.compile(
    r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments|charts/chart\d+)\.xml"
    r"|ppt/(?:slides|notesSlides|comments|charts|diagrams)/(?:slide|notesSlide|comment|chart|data)"
    r"\d+\.xml|(?:Object \d+/)?(?:content|styles)\.xml|.*\.(?:xhtml|html|ncx)"
)
"""Members of packages with text for people."""
_OFFICE, _OPEN_DOCUMENT = frozenset({"t", "v", "text"}), frozenset({"p", "h"})
"""Elements with text; other text in Office documents, such as a field's code, must not change."""
_KEPT = {"creator", "date", "script", "style", "code", "pre", "samp", "kbd"}
"""Elements whose text must not change."""
_COMMENT = "comment or declaration"
_UNCOUNTED = {"tracked-changes", "page-number", "sequence"}
_COUNTED = {
    *("p", "h", "tbl", "tr", "tc", "hyperlink", "a", "drawing", "pic", "img", "br", "tab", "s"),
    *("footnoteReference", "endnoteReference", "commentReference", "bookmarkStart", "fldChar"),
    *("note", "annotation", "line-break", "bookmark", "frame", "li", "table", "td", "sym"),
    _COMMENT,
}
"""Elements of which a translation must have as many."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_PEER = """
import json, sys, time, types
from argostranslate.translate import ITranslation
from argostranslatefiles.argostranslatefiles import translate_file

class Capitals(ITranslation):
    to_lang = types.SimpleNamespace(code="de")
    texts = 0
    def hypotheses(self, text, _number=1):
        raise NotImplementedError
    def translate(self, text):
        self.texts += 1
        return text.upper()

for source, target in json.load(sys.stdin):
    capitals, begin_s = Capitals(), time.process_time()
    try:
        translate_file(capitals, source, lambda *_: target)
        answer = {"texts": capitals.texts, "seconds": time.process_time() - begin_s}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
"""


class _File:
    """What a file has, in each of its parts."""

    def __init__(self, path: Path) -> None:
        self.words: dict[str, list[str]] = {}
        self.kept: list[str] = []
        self.counts: Counter[str] = Counter()
        self.others: dict[str, bytes] = {}
        self.broken = 0
        """Number of members that are not well-formed."""
        self._read(path)

    def _read(self, path: Path) -> None:
        if path.suffix in (".srt", ".txt"):
            text = path.read_text("utf-8-sig", "replace")
            self.words[path.suffix] = _WORD.findall(re.sub(r"<[^>]*>|\{[^}]*\}", "", text))
            self.counts["time"] = text.count("-->")
        elif path.suffix == ".html":
            self._add("page", html.fromstring(path.read_bytes()), None)
        else:
            with zipfile.ZipFile(path) as opened:
                for info in opened.infolist():
                    self._add_member(info.filename, opened.read(info))

    def _add_member(self, name: str, content: bytes) -> None:
        if not _PARTS.fullmatch(name):
            self.others[name] = content
            return
        try:
            root = etree.fromstring(content)
        except etree.XMLSyntaxError:
            self.broken += 1
            return
        is_book = name.endswith(("html", "ncx"))
        is_office = name.startswith(("word/", "ppt/"))
        self._add(name, root, None if is_book else _OFFICE if is_office else _OPEN_DOCUMENT)

    def _add(self, name: str, root: etree._Element, with_text: frozenset[str] | None) -> None:
        words = self.words.setdefault(name, [])
        for element, around in _elements(root):
            tag = _local(element)
            self.counts[tag] += tag in _COUNTED
            for text, owners in ((element.text, {*around, tag}), (element.tail, around)):
                if not text or _COMMENT in owners or _UNCOUNTED & owners:
                    continue
                is_text = with_text is None or not with_text.isdisjoint(owners)
                if _KEPT & owners or not is_text:
                    self.kept.append(text)
                else:
                    words += _WORD.findall(text)


def _elements(root: etree._Element) -> Iterator[tuple[etree._Element, frozenset[str]]]:
    """Yields each element with the names of those around it."""
    entered = [(root, frozenset[str]())]
    while entered:
        element, around = entered.pop()
        yield element, around
        inner = around | {_local(element)}
        entered += [(child, inner) for child in element]


def _local(element: etree._Element) -> str:
    if not isinstance(element.tag, str):
        return _COMMENT
    return re.sub(r"^(?:\{.*\}|.*:)", "", str(element.tag))


def _left(file: _File) -> dict[str, int]:
    """The number of words with a small letter, by part."""
    number = {
        name: sum(word != word.upper() for word in words) for name, words in file.words.items()
    }
    return {name: count for name, count in number.items() if count}


def _damage(before: _File, after: _File) -> list[str]:
    faults = [f"{after.broken} members are not XML"] * bool(after.broken)
    lost = before.counts - after.counts
    faults += [f"{count} {name} lost" for name, count in sorted(lost.items())]
    # Every character in it counts: a field code in capital letters names another bookmark.
    if changed := Counter(before.kept) - Counter(after.kept):
        faults.append(f"{changed.total()} codes changed")
    missing = [name for name in before.others if name not in after.others]
    faults += [f"{len(missing)} members missing"] * bool(missing)
    return faults


def _own(source: Path, target: Path) -> dict[str, Any]:
    known = format_of(source.name)
    form = known.name if isinstance(known, ReadableFormat) else Document()
    begin_s = time.process_time()
    with Translator(transport=FakeTransport(str.upper)) as translator:
        done = translator.translate_file(source, target, form=form, target_language="de")
    return {"texts": done.report.texts, "seconds": time.process_time() - begin_s}


def _peer(python: Path, pairs: Sequence[tuple[Path, Path]]) -> list[dict[str, Any]]:
    """Translate files with the peer.

    Raises:
        DragomanError: it does not start.
    """
    sent = json.dumps([[str(source.resolve()), str(target)] for source, target in pairs])
    command = [str(python), "-c", _PEER]
    try:
        answer = subprocess.run(command, input=sent, stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise DragomanError(f"{python}: the peer does not run: {error}") from error
    return [json.loads(line) for line in answer.stdout.splitlines()]


@program(
    option("files", type=Path, nargs="+", help="files to translate"),
    option("--peer", type=Path, required=True, help="interpreter of the peer's environment"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Translate, compare and print."""
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        pairs = [
            (file, Path(folder) / f"{number}{file.suffix}")
            for number, file in enumerate(arguments.files)
        ]
        peers = _peer(arguments.peer, pairs)
        rows = []
        for (source, target), answer in zip(pairs, peers, strict=True):
            before = _File(source)
            words = sum(word != word.upper() for part in before.words.values() for word in part)
            own_target = target.with_stem(f"own-{target.stem}")
            contenders = ((own_target, _own(source, own_target)), (target, answer))
            cells = [source.name, str(words)]
            for path, result in contenders:
                cells += _cells(before, path, result)
            rows.append(cells)
            results[source.name] = cells
    heads = ("texts", "left", "damaged", "seconds")
    print(markdown_table(["file", "words", *heads, *(f"peer's {head}" for head in heads)], rows))
    return {"files": results}


def _cells(before: _File, path: Path, result: dict[str, Any]) -> list[str]:
    """The cells of a contender's translation in the table."""
    if "error" in result or not path.exists():
        return ["", "all", result.get("error", "not supported"), ""]
    after = _File(path)
    left = ", ".join(f"{number} in {part}" for part, number in _left(after).items())
    damage = "; ".join(_damage(before, after))
    return [str(result["texts"]), left or "none", damage or "none", f"{result['seconds']:.2f}"]


if __name__ == "__main__":
    sys.exit(main())
