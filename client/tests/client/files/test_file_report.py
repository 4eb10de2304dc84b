"""Reports of translated files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dragoman_client import FileReport, Translation
from dragoman_options.markup import PlacedCodes
from stand_ins import FakeTransport, translate_file

TEXTS = ["A red car.", "Refused.", "Empty.", "Unsure of this.", "Cut."]


def translate(text: str) -> Translation:
    reason = "length" if text.startswith("Cut") else "stop"
    written = "" if text.startswith("Empty") else text.upper()
    confidence = -3.0 if text.startswith("Unsure") else -0.1
    codes = PlacedCodes(((0, 1),), uncertain=1) if "red" in text else None
    return Translation(written, 1, reason, confidence=confidence, codes=codes)


def report_of(source: Path, form: Any = None, **more: Any) -> FileReport:
    transport = FakeTransport(translate=translate)
    transport.refused = "Refused"
    target = source.with_name("target")
    how = {"form": form, "target_language": "de", "force": True, **more}
    done = translate_file(source, target, transport, **how)
    assert isinstance(done.report, FileReport)
    assert done.cut == done.report.cut
    assert done.refused == done.report.left["refused"]
    return done.report


@pytest.mark.parametrize("repeats", [1, 100])
def test_a_report_counts_what_happened(tmp_path: Path, repeats: int) -> None:
    source = tmp_path / "source"
    texts = TEXTS * repeats
    source.write_text("".join(f"{text}\n" for text in texts))
    lines = report_of(source, least_confidence=-1.0)
    source.write_text("".join(f"<p>{text}</p>" for text in texts))
    page = report_of(source, "html", least_confidence=-1.0)
    for report in (lines, page):
        assert (report.texts, report.words) == (len(texts), 9 * repeats)
        assert (report.cut, report.left) == (repeats, {"refused": repeats, "empty": repeats})
        assert report.low_confidence == repeats
        assert [(text.number, text.text) for text in report.listed] == [
            (5 * index + 4, "Unsure of this.") for index in range(min(repeats, 1000))
        ]
    assert report_of(source, "html").low_confidence == 0


def test_elements_in_uncertain_positions_are_counted(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("<p>A <b>red</b> car.</p><p>A car.</p><p>One <i>red</i> car.</p>")
    assert report_of(source, "html").uncertain_codes == 2


def test_texts_with_a_translation_are_counted(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text(
        'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "A"\nmsgstr "B"\n\nmsgid "C"\nmsgstr ""\n\n'
        'msgid "D"\nmsgid_plural "E"\nmsgstr[0] "F"\nmsgstr[1] "G"\n'
    )
    report = report_of(source, "po")
    assert (report.texts, report.left) == (1, {"done": 2})
    source.write_text(
        '<xliff version="1.2"><file target-language="de"><body>'
        "<trans-unit><source>A</source><target>B</target></trans-unit>"
        "<trans-unit><source>C</source></trans-unit>"
        '<trans-unit translate="no"><source>D</source></trans-unit></body></file></xliff>'
    )
    report = report_of(source, "xliff")
    assert (report.texts, report.left) == (1, {"done": 2})


def test_reports_are_written_and_added(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("".join(f"{text}\n" for text in TEXTS))
    report, total = report_of(source, least_confidence=-1.0), FileReport()
    for _ in range(1234):
        total.add_file(report)
    assert str(total) == (
        "6,170 texts, 11,106 words; 1,234 cut at the limit of tokens; 1,234 of low confidence; "
        "left: 1,234 (the server refused them), 1,234 (their translations are empty)"
    )
    assert str(FileReport()) == "0 texts, 0 words"
    written = json.loads(json.dumps(report.as_json()))
    assert written["left"] == {"refused": 1, "empty": 1}
    assert written["listed"] == [{"number": 4, "confidence": -3.0, "text": "Unsure of this."}]
