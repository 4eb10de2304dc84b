"""Attacks the readers of documents for some time: `markup_attack.py [--seconds S] [--seed N]`.

Each document is checked by the laws in `markup_laws`. Prints JSON: how many of each kind were
checked, and of what broke a law the smallest document that shows it.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import xml_documents
from document_trees import xml_tree
from dragoman_client.markup.html_reader import HtmlReader
from dragoman_client.markup.xml_reader import XmlReader
from html_documents import damaged, inputs, pages, soups, trees
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from lxml import etree
from markup_laws import NOISE, check_bilingual, check_document, check_html, check_xml

SHARED = Path(__file__).parents[3] / "shared"
_BATCH = 100
_MOST_FOUND = 20
_REDUCING_S = 60
_CHARSETS = (b"utf-8", b"gbk", b"shift_jis", b"big5", b"euc-jp", b"iso-8859-1", b"koi8-r", b"utf-7")

Check = Callable[[bytes, str, Random], object]


def check_any_xml(document: bytes, noise: str, random: Random) -> None:
    """Check XML that may not be well-formed: then one line says so."""
    try:
        check_document(XmlReader, document, random)
    except ValueError as error:
        if "\n" in str(error):
            raise AssertionError("the message has several lines") from error
        return
    try:
        tree = xml_tree(document)
    except etree.XMLSyntaxError:  # a prefix without a namespace, which is not looked at
        return
    if any(one.tag is etree.Entity for one in tree.iter()):
        return  # it may be written as the character that it stands for
    check_xml(document, noise, random)


def check_bytes(document: bytes, noise: str, random: Random) -> None:
    """Check a page in any encoding, valid or not."""
    check_document(HtmlReader, document, random)


def check_tree(document: bytes, noise: str, random: Random) -> None:
    """Check a page without mistakes."""
    check_html(document, noise, random, is_tree=True)


@st.composite
def _bytes(draw: st.DrawFn) -> bytes:
    head = b"<meta charset=" + draw(st.sampled_from(_CHARSETS)) + b"><p title='"
    return draw(st.sampled_from((b"", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", head))) + draw(
        st.binary(max_size=60)
    )


def kinds() -> dict[str, tuple[st.SearchStrategy[bytes], Check]]:
    """What is attacked with, by name."""
    found: dict[str, tuple[st.SearchStrategy[bytes], Check]] = {
        "soup": (soups(), check_html),
        "trees": (trees(), check_tree),
        "bytes": (_bytes(), check_bytes),
        "xml": (xml_documents.documents(), check_xml),
        "formats": (xml_documents.monolingual(), check_xml),
        "bilingual": (xml_documents.bilingual(), check_bilingual),
    }
    real = pages(SHARED / "documents" / "html")
    if real:
        tokens = [text.encode("utf-8", "surrogatepass") for text in inputs(SHARED / "documents")]
        lines = sorted(set(corpus_lines()))
        found["html5lib inputs"] = (st.sampled_from(tokens), check_html)
        found["real pages"] = (damaged(real), check_html)
        found["real XML"] = (damaged(real_xml()), check_any_xml)
        found["corpora"] = (st.sampled_from(lines), check_any_xml)
        found["corpora as HTML"] = (st.sampled_from(lines), check_html)
    return found


def real_xml() -> list[bytes]:
    """Documents of all formats of XML."""
    paths = itertools.chain.from_iterable(
        (SHARED / "documents").glob(f"*/*.{ending}") for ending in ("xml", "resx")
    )
    return [path.read_bytes() for path in sorted(paths)]


def corpus_lines(most: int = 3000) -> Iterator[bytes]:
    """Lines with tags of the corpora, each in an element."""
    for path in sorted((SHARED / "corpora").glob("markup-*/*.en*")):
        open_file = gzip.open if path.suffix == ".gz" else open
        with open_file(path, "rt", encoding="utf-8") as file:
            tagged = (line.strip() for line in file if re.search("<[a-z]", line))
            for line in itertools.islice(tagged, most):
                yield f"<para>{line}</para>".encode()


def attack(documents: st.SearchStrategy[bytes], check: Check, number: int, until: float) -> str:
    """Check documents of one kind.

    Args:
        documents: to choose from.
        check: by the laws.
        number: seed of all choices.
        until: the time at which no other one is begun.

    Returns:
        What broke a law, and the smallest document that shows it; nothing if none did.
    """
    shown: tuple[bytes, str, int] = b"", "", 0

    @seed(number)
    @settings(
        max_examples=_BATCH,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(documents, NOISE, st.integers(0, 1 << 16))
    def check_one(document: bytes, noise: str, chance: int) -> None:
        nonlocal shown
        if time.monotonic() > until:
            return
        try:
            check(document, noise, Random(chance))
        except Exception:
            shown = document, noise, chance
            raise

    try:
        check_one()
    except Exception as error:
        document, noise, chance = shown
        kind = type(error)

        def fails(one: bytes) -> bool:
            try:
                check(one, noise, Random(chance))
            except Exception as other:
                return type(other) is kind
            return False

        smallest = reduced(document, fails) if fails(document) else document
        last = traceback.format_exc(limit=-3, chain=False)
        return f"{smallest!r} with noise {noise!r}, seed {chance}: {last}"
    return ""


def reduced(document: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """The smallest part of a document that fails too, as far as it is found in time."""
    until = time.monotonic() + _REDUCING_S
    size = len(document) // 2
    while size:
        at = 0
        while at < len(document) and time.monotonic() < until:
            smaller = document[:at] + document[at + size :]
            if fails(smaller):
                document = smaller
            else:
                at += size
        size //= 2
    return document


def main() -> None:
    """Attack, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given_ones = parser.parse_args()
    warnings.simplefilter("ignore")
    checked: Counter[str] = Counter()
    found: dict[str, str] = {}
    until = time.monotonic() + given_ones.seconds
    of_kinds = kinds()
    for number in itertools.count(given_ones.seed << 16):
        for name, (documents, check) in of_kinds.items():
            if time.monotonic() > until or len(found) >= _MOST_FOUND:
                print(json.dumps({"documents": checked, "violations": list(found.values())}))
                return
            checked[name] += _BATCH
            if broken := attack(documents, check, number, until):
                found.setdefault(f"{name} {broken.splitlines()[-2:]}", f"{name}: {broken}")


if __name__ == "__main__":
    main()
