"""The speed of a page that is translated as a job of the gateway, over that of the command line.

The page has paragraphs of some lines of a text file; every third has a link. The ways take turns,
over one server without a cache: `dragoman translate`, a process of its own; the same translation by
the client in this process, which starts nothing; and the job, from the upload until its result is
downloaded. Each must always write the same page, and all of them the same tags.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from dragoman_client import Translator
from dragoman_load_test.texts import read_texts

from dragoman.kernel.errors import CheckFailed, DragomanError, UsageError
from dragoman.kernel.texts.sentences import split_sentences
from lab.measurement import TEXTS, Results, alternate, number, program, progress, seconds
from lab.report import markdown_table, spread
from lab.servers import run_gateway, serve

_COMMAND, _CLIENT, _JOB = "dragoman translate", "client", "job"
_OTHERS = (_COMMAND, _CLIENT)
_LINES = 3
"""Lines of a paragraph."""
_TAG = re.compile(rb"<[^>]*>")
_TIMEOUT_S = 600.0


def page_of(lines: Sequence[str]) -> str:
    """A page with these lines."""
    paragraphs = []
    for begin in range(0, len(lines), _LINES):
        text = escape(" ".join(lines[begin : begin + _LINES]), quote=False)
        if begin % (3 * _LINES) == 0:
            first, _, rest = text.partition(" ")
            text = f'<a href="#{begin}">{first}</a> {rest}'
        paragraphs.append(f"<p>{text}</p>\n")
    return f"<!doctype html>\n<meta charset=utf-8>\n<title>Page</title>\n{''.join(paragraphs)}"


def by_command(url: str, page: Path) -> bytes:
    """Translate a page with `dragoman translate`."""
    command = [sys.executable, "-m", "dragoman", "translate", "--url", url, "--format", "html"]
    command += ["--source-language", "en", "--target-language", "de", "--input", str(page)]
    return _written(
        lambda target: subprocess.run([*command, "--output", str(target), "--force"], check=True)
    )


def by_client(url: str, page: Path) -> bytes:
    """Translate a page with the client, as the command does."""

    def translate(target: Path) -> None:
        with Translator(url, timeout_s=_TIMEOUT_S) as translator:
            translator.translate_file(
                page, target, form="html", force=True, source_language="en", target_language="de"
            )

    return _written(translate)


def by_job(gateway: str, page: Path) -> bytes:
    """Translate a page as a job of the gateway."""
    fields = {"source_language": "en", "target_language": "de"}
    head = "--end\r\nContent-Disposition: form-data; name="
    parts = [f'{head}"{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()]
    parts.append(f'{head}"file"; filename="{page.name}"\r\n\r\n')
    body = "".join(parts).encode() + page.read_bytes() + b"\r\n--end--\r\n"
    documents = f"{gateway}/api/v1/documents"
    kind = {"Content-Type": "multipart/form-data; boundary=end"}
    job = json.loads(_answer(documents, data=body, headers=kind))
    while job["state"] in ("queued", "translating"):
        job = json.loads(_answer(f"{documents}/{job['id']}?wait_s=60"))
    if job["state"] != "done":
        raise DragomanError(f"the job ended as {job['state']}: {job.get('error')}")
    result = _answer(f"{documents}/{job['id']}/result")
    _answer(f"{documents}/{job['id']}", method="DELETE")
    return result


def _answer(url: str, **request: Any) -> bytes:
    sent = urllib.request.Request(url, **request)  # noqa: S310 - our gateway
    with urllib.request.urlopen(sent, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        content: bytes = answer.read()
    return content


def _written(translate: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "page.html"
        translate(target)
        return target.read_bytes()


@program(TEXTS, number("--lines", 900, "of the file"), number("--rounds", 3))
def main(arguments: argparse.Namespace) -> Results:
    """Print the table."""
    try:
        lines = read_texts(arguments.texts)[: arguments.lines]
    except ValueError as error:
        raise UsageError(str(error)) from error
    sentences = sum(len(split_sentences(line, "en")) for line in lines)
    with (
        tempfile.TemporaryDirectory() as folder,
        serve() as server,
        run_gateway(server, "--cache-bytes=0") as (gateway, _),
        progress(3 * (1 + arguments.rounds)) as advance,
    ):
        page = Path(folder) / "page.html"
        page.write_text(page_of(lines), encoding="utf-8")
        methods: dict[str, Callable[[], bytes]] = {
            _COMMAND: lambda: by_command(server.grpc_url, page),
            _CLIENT: lambda: by_client(server.grpc_url, page),
            _JOB: lambda: by_job(gateway, page),
        }
        written: dict[str, set[bytes]] = {name: set() for name in methods}

        def timed(name: str) -> Callable[[], float]:
            return lambda: seconds(lambda: written[name].add(methods[name]()))

        taken = alternate(
            {name: timed(name) for name in methods},
            arguments.rounds,
            warm_up=1,
            advance=lambda: advance(""),
        )
        size = page.stat().st_size
    pages = [page for of_way in written.values() for page in of_way]
    if len(pages) != len(methods) or len({tuple(_TAG.findall(page)) for page in pages}) != 1:
        raise CheckFailed("the ways do not write the same tags, or not always the same page")

    def over(name: str, other: str) -> str:
        return spread([b / a for a, b in zip(taken[name], taken[other], strict=True)])

    print(f"a page of {size:,} bytes and {sentences:,} sentences\n")
    rows = [
        [
            name,
            f"{sentences / statistics.median(times):.1f}",
            *(over(name, other) for other in _OTHERS),
        ]
        for name, times in taken.items()
    ]
    print(markdown_table(["way", "sentences/s", *(f"over {other}" for other in _OTHERS)], rows))
    return {"bytes": size, "sentences": sentences, "seconds": taken}


if __name__ == "__main__":
    sys.exit(main())
