"""Rows of a file of cases: inputs that came out wrong, what is right, and checks of that."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.fidelity.numbers import differing

_ROW = re.compile(r"\| (.+?) \| (\w\w) \| `` (.*?) `` \| `` (.*?) `` \| (.*) \|")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_SIGNS = ("So", "Sk", "Sm", "Sc", "No")
_SPACED_TAG = re.compile(rf"(\s?)({_TAG.pattern}|</?\d>)(?=(\s?))")
_PLACEHOLDER = re.compile(r"\{+ ?\w+ ?\}+|%\d\$s|</?\d>|https?://[^\s<]+\w|[\w.]+@[\w.]+\w")
"""In the order of the source: that is right in all rows."""
_GERMAN = re.compile(r"\b(?:nach|die|das|ist|am|gutes|ja|öffnen|pfannkuchen)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    """A row: the interface and its options, the target language, the input, what is right."""

    section: str
    interface: str
    tgt: str
    text: str
    right: str

    @property
    def src(self) -> str:
        """The language of the input, which the file does not name."""
        if self.tgt != "en":
            return "en"
        return "de" if _GERMAN.search(self.text) else "fr"

    @property
    def markup(self) -> str | None:
        """The format of the input: html, xml; None: plain text."""
        match = re.search(r"(?:format=|tag_handling=)(html|xml)", self.interface)
        return match and match[1]

    def options(self) -> Mapping[str, Any] | None:
        """Options of the request; None: it does not run in process."""
        if not self.interface.startswith(("/translate", "/api/", "/v2/")):
            return None
        options: dict[str, Any] = {"source_language": self.src, "target_language": self.tgt}
        if "source=auto" in self.interface:
            options["source_language"] = "auto"
        if glossary := re.search(r"glossary (\{.*\})", self.interface):
            options["glossary"] = json.loads(glossary[1])
        if "keep_placeholders=true" in self.interface:
            options["keep_placeholders"] = True
        if "split_sentences=0" in self.interface:
            options["split_sentences"] = False
        return options

    def faults(self, translation: str) -> Iterator[str]:
        """What can be checked without a reader; nothing does not mean that it is right."""
        if "\ufffd" in translation:
            yield "U+FFFD"
        if not translation.strip():
            yield "empty"
        texts = (_TAG.sub(" ", text) for text in (self.text, translation))
        source, target = texts
        if differing(source, self.src, target, self.tgt):
            yield "numbers"
        if re.match(r"unchanged\b", self.right) and translation != self.text:
            yield "changed"
        forbidden = re.findall(r"\bno `([^`]+)`", self.right)
        yield from (f"has {text}" for text in forbidden if text in translation)
        for text in dict.fromkeys(re.findall(r"`([^`]+)`", self.right)):
            if (
                text in self.text
                and text not in [*forbidden, self.text]
                and text not in translation
            ):
                yield f"no {text}"
        signs = {sign for sign in self.text if unicodedata.category(sign) in _SIGNS}
        lost = {
            sign for sign in signs - set("<>") if translation.count(sign) != self.text.count(sign)
        }
        if lost:
            yield f"signs {' '.join(sorted(lost))}"
        if _PLACEHOLDER.findall(target) != _PLACEHOLDER.findall(source):
            yield "placeholders"
        whole = re.match("`([^`…]*<[^`…]*)`", self.right)
        if whole and _SPACED_TAG.findall(translation) != _SPACED_TAG.findall(whole[1]):
            yield "tags"
        if self.markup is None and self.text.count("\n") != translation.count("\n"):
            yield "lines"


def read_cases(path: Path) -> list[Case]:
    """Read a file of cases."""
    cases, section = [], ""
    for line in path.read_text("utf-8").splitlines():
        if match := re.match(r"## (\d+)\.", line):
            section = match[1]
        elif row := _ROW.fullmatch(line):
            interface, tgt, text, _, right = row.groups()
            plain = text.replace("\\n", "\n").replace("\\t", "\t")
            cases.append(Case(section, interface, tgt, plain, right))
    return cases
