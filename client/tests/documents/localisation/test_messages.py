"""Files with messages of programs: JSON, properties, Apple's strings and tables."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from dragoman_client.files.file_formats import Reading, open_reader
from hypothesis import given
from hypothesis import strategies as st
from text_laws import NOISE, READING, check_text_file, real_files, shape, texts_of
from translated_documents import hostile, identity, read, swapped, written

_TABLE = Reading("en", "de", ("Title", "note"))
_TEXT = st.text("ab Cé.\"\\',;\n\t{}0%$", max_size=12)


def _json(document: bytes) -> Any:
    return shape(json.loads(document.decode("utf-8-sig")))


def _properties(document: bytes) -> list[str]:
    """Comments and keys, by the rules of Java."""
    lines = re.split(r"\r\n|\r|\n", document.decode("utf-8"))
    entries, joined = list[str](), ""
    for line in lines:
        joined += line.lstrip(" \t\f")
        if len(joined) - len(joined.rstrip("\\")) & 1 and not (joined.startswith(("#", "!"))):
            joined = joined[:-1]
            continue
        entries.append(joined if joined.startswith(("#", "!")) else _key(joined))
        joined = ""
    return entries


def _key(line: str) -> str:
    return re.match(r"(?:[^\\\s:=]|\\.)*", line)[0]  # type: ignore[index]


def _strings(document: bytes) -> list[str]:
    """Everything that is not in quotation marks behind an equals sign."""
    return re.findall(r'(?s)("(?:[^"\\]|\\.)*")\s*=\s*"(?:[^"\\]|\\.)*"\s*;', document.decode())


def _table(document: bytes) -> list[Any]:
    rows = list(csv.reader(io.StringIO(document.decode(), newline="")))
    return [rows[0], *[[row[1], len(row)] for row in rows[1:] if row]]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@given(st.dictionaries(st.text("ab_", min_size=1), _TEXT, min_size=1), st.booleans(), NOISE)
def test_random_json(values: dict[str, str], is_ascii: bool, noise: str) -> None:
    nested = {
        "a text": "Some words",
        "more": {**values, "x": {"y": "And more words", "z": "Two words"}},
    }
    nested |= {f"text {n}": "Words in it" for n in range(3 * len(values))}
    document = json.dumps(nested, ensure_ascii=is_ascii, indent=1).encode()
    check_text_file("json", document, _json, noise, Random(0))


@given(st.lists(_TEXT, max_size=4), NOISE)
def test_random_properties(texts: list[str], noise: str) -> None:
    def escaped(text: str) -> str:
        return re.sub(
            r"([\\\n\t])", lambda m: {"\n": "\\n", "\t": "\\t"}.get(m[0], "\\\\"), text
        ).lstrip()

    lines = [f"key.{n} {' :='[n % 3]} {escaped(text)}" for n, text in enumerate(texts)]
    document = "\n".join(["# a comment", *lines, "long = Some words \\\n    go on", ""]).encode()
    check_text_file("properties", document, _properties, noise, Random(0))


@given(st.lists(_TEXT, max_size=4), NOISE)
def test_random_apple_strings(texts: list[str], noise: str) -> None:
    entries = [f"/* A note */\n{_quoted(text)} = {_quoted(text)};\n" for text in texts]
    document = "\n".join([*entries, "// end\n"]).encode()
    check_text_file("strings", document, _strings, noise, Random(0))


@given(st.lists(st.tuples(_TEXT, _TEXT, _TEXT), max_size=4), st.booleans(), NOISE)
def test_random_tables(rows: list[tuple[str, str, str]], quotes: bool, noise: str) -> None:
    target = io.StringIO(newline="")
    how = csv.QUOTE_ALL if quotes else csv.QUOTE_MINIMAL
    writer = csv.writer(target, quoting=how)
    writer.writerows([("Title", "id", "note"), *rows])
    document = target.getvalue().encode()
    check_text_file("csv", document, _table, noise, Random(0), _TABLE)


_REAL = [(name, path) for name in ("json", "properties", "strings") for path in real_files(name)]


@pytest.mark.parametrize(("name", "path"), _REAL, ids=[path.name for _, path in _REAL])
def test_real_files(name: str, path: Path) -> None:
    document = path.read_bytes()
    if path.name in ("empty.json", "malformed.json"):
        with pytest.raises(ValueError, match=r"line \d: not valid JSON"):
            read(open_reader(name, READING), document)
        return
    assert texts_of(name, document) or path.name.startswith("resources")
    assert written(open_reader(name, READING), document, identity) == document
    translated = written(open_reader(name, READING), document, hostile('"\\\n'))
    if path.suffix == ".xcstrings":
        assert not texts_of(name, translated)
    elif name == "json":
        assert _json(translated) == _json(document)


@pytest.mark.parametrize(
    ("name", "source", "translation"),
    [
        ("json", '{"a": "Hi \\u00e9"}', '{"a": "hI \\u00e9"}'),
        ("json", '{"a": "Hi é/"}', '{"a": "hI é/"}'),
        (
            "json",
            '{"@a": {"description": "Hi"}, "a": "Hi"}',
            '{"@a": {"description": "Hi"}, "a": "hI"}',
        ),
        (
            "json",
            '{"a": {"message": "Hi", "description": "A", "placeholders": {"b": {"x": "$1"}}}}',
            '{"a": {"message": "hI", "description": "A", "placeholders": {"b": {"x": "$1"}}}}',
        ),
        (
            "json",
            '{"a": "Hi you", "b": "Yes", "c": "No", "d": "#fff"}',
            '{"a": "hI YOU", "b": "yES", "c": "nO", "d": "#fff"}',
        ),
        (
            "json",
            '{"k_one": "{{count}} car", "k_other": "{{count}} cars"}',
            '{"k_one": "{{COUNT}} CAR", "k_other": "{{COUNT}} CARS"}',
        ),
        (
            "json",
            '{"a": {"message": "Hi", "title": "Hello"}, "b": "You"}',
            '{"a": {"message": "hI", "title": "hELLO"}, "b": "yOU"}',
        ),
        (
            "json",
            '{"a": "See <a href=\\"/x\\">it</a>,<br>or <0><b>go</b></0> <n>", "b": "<i>Hi</i>"}',
            '{"a": "sEE <a href=\\"/x\\">IT</a>,<br>OR <0><b>GO</b></0> <N>", "b": "<i>hI</i>"}',
        ),
        ("strings", 'a = "<b>Hi</b> you";', 'a = "<b>hI</b> YOU";'),
        ("properties", """a=<b class="x">Hi</b> you\n""", """a=<b class="x">hI</b>\\ YOU\n"""),
        ("properties", "a=\\ Hi\n", "a=\\ hI\n"),
        ("properties", "a=Hi \\ud83d\\ude00\n", "a=hI \\ud83d\\ude00\n"),
        ("strings", '"a" = "Hi \\Ud83d\\Ude00";', '"a" = "hI 😀";'),
        ("properties", "a=Hi\nb = x.y.Z\n", "a=hI\nb = x.y.Z\n"),
        ("properties", "a=It''s {0}\nb=It's\n", "a=iT''S {0}\nb=iT'S\n"),
        ("properties", "a=Hi \\\n   you\n", "a=hI YOU\n"),
        ("properties", "a=\\u00e9 Hi\n", "a=\\u00e9 hI\n"),
        ("properties", "a\\ b=Hi\n! c=Hi\n", "a\\ b=hI\n! c=Hi\n"),
        ("strings", '"A" = "Hi \\"you\\"";', '"A" = "hI \\"YOU\\"";'),
        ("strings", '/* "b" = "Hi"; */ a = "Hi";', '/* "b" = "Hi"; */ a = "hI";'),
    ],
)
def test_texts_and_their_escapes(name: str, source: str, translation: str) -> None:
    assert written(open_reader(name, READING), source.encode(), swapped).decode() == translation


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_fields_get_quotes_if_they_need_them(delimiter: str) -> None:
    source = (
        delimiter.join(["Title", "id", "note"])
        + "\n"
        + delimiter.join(["Hi", "Hi", '"a ""b"""'])
        + "\n"
    )
    translated = written(open_reader("csv", _TABLE), source.encode(), hostile(delimiter)).decode()
    row = next(csv.reader(io.StringIO(translated.split("\n")[1]), delimiter=delimiter))
    assert (
        row == [f"{delimiter}Hi{delimiter}", "Hi", f'{delimiter}a "b"{delimiter}']
        or delimiter == "\t"
    )
    assert len(row) == 3


def test_a_catalogue_gets_the_localizations_that_it_lacks() -> None:
    catalogue: dict[str, Any] = {
        "sourceLanguage": "en",
        "strings": {
            "Hello": {},
            "done": {
                "localizations": {"de": {"stringUnit": {"state": "translated", "value": "Fertig"}}}
            },
            "key": {"localizations": {"en": {"stringUnit": {"state": "new", "value": "Open it"}}}},
            "plural": {"localizations": {"en": {"variations": {"plural": {}}}}},
            "%#@n@ of": {"localizations": {"en": {"substitutions": {"n": {}}}}},
            "not": {"shouldTranslate": False},
        },
        "version": "1.0",
    }
    document = json.dumps(catalogue, indent=2).encode()
    assert texts_of("json", document) == ["Hello", "Open it"]
    assert written(open_reader("json", READING), document, identity) == document
    strings = json.loads(written(open_reader("json", READING), document, swapped))["strings"]
    for key, value in (("Hello", "hELLO"), ("key", "oPEN IT")):
        unit = strings[key]["localizations"].pop("de")["stringUnit"]
        assert unit == {"state": "needs_review", "value": value}
    assert strings == {**catalogue["strings"], "Hello": {"localizations": {}}}
    with pytest.raises(ValueError, match="give its target language"):
        read(open_reader("json", Reading()), document)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_of_strings(encoding: str) -> None:
    document = '"é" = "Hi é";\n'.encode(encoding)
    translated = written(open_reader("strings", READING), document, swapped)
    assert translated.decode(encoding) == '"é" = "hI é";\n'


def test_properties_in_ascii_get_escapes() -> None:
    translated = written(open_reader("properties", READING), b"a=x\n", hostile("\u00e9"))
    assert translated == b"a=\\u00e9x\\u00e9\n"


def test_quoted_names_of_columns_may_have_any_delimiter() -> None:
    document = b'"Title";"a, b, c"\nHi;no\n'
    assert texts_of("csv", document, Reading("en", "de", ("Title",))) == ["Hi"]


def test_properties_in_latin_1_get_escapes() -> None:
    translated = written(
        open_reader("properties", READING), "a=é\nb=x y\n".encode("latin-1"), hostile("ł")
    )
    assert translated == "a=\\u0142é\\u0142\nb=\\u0142x y\\u0142\n".encode("latin-1")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("json", "{", "line 1: not valid JSON"),
        ("json", '{"a": "b",\n}', "line 2: not valid JSON"),
        ("json", '{"a": "b"} x', "something is behind"),
        ("json", "[" * 10**5, "200 values"),
        ("json", '[{"a": "Some text"}]', "it is data"),
        ("json", '{"a": 1, "b": "1.0", "c": "Some text"}', "1 of its 3 values"),
        ("strings", '"a" = "b', "line 1: this is no entry"),
        ("csv", "a,b\n1,2", "no column 'Title', only a, b"),
        ("csv", 'Title,note\n"a', "line 2: a quotation mark"),
    ],
)
def test_other_files_are_refused(name: str, content: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(open_reader(name, _TABLE), content.encode())


def test_a_table_needs_columns() -> None:
    with pytest.raises(ValueError, match="give columns or --columns"):
        open_reader("csv", READING)
