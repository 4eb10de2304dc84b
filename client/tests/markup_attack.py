"""Fuzzes the readers of documents: `markup_attack.py [--seconds S] [--seed N]`.

Each document is checked against the properties in `markup_laws`. Prints JSON: how many documents of
each kind were checked, and for each broken property the smallest document that shows it.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import xml_documents
from document_trees import xml_tree
from dragoman_documents.html.html_reader import HtmlReader
from dragoman_documents.xml.xml_reader import XmlReader
from html_documents import damaged, inputs, pages, soups, trees
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from lxml import etree
from markup_laws import NOISE, check_bilingual, check_document, check_html, check_xml

SHARED = Path(__file__).parents[3] / "shared"
_BATCH = 100
_REDUCING_S = 60
_CHARSETS = (b"utf-8", b"gbk", b"shift_jis", b"big5", b"euc-jp", b"iso-8859-1", b"koi8-r", b"utf-7")

Check = Callable[[bytes, str, Random], object]


def check_any_xml(document: bytes, noise: str, random: Random) -> None:
    """Check XML; if it is not well-formed, the error must be one line."""
    try:
        check_document(XmlReader, document, random)
    except ValueError as error:
        if "\n" in str(error):
            raise AssertionError("the message has several lines") from error
        return
    try:
        tree = xml_tree(document)
    except etree.XMLSyntaxError:  # a prefix without a namespace, which the reader does not check
        return
    if any(node.tag is etree.Entity for node in tree.iter()):
        return  # it may be written as the character that it represents
    check_xml(document, noise, random)


def check_bytes(document: bytes, _noise: str, random: Random) -> None:
    """Check a page in any encoding, valid or not."""
    check_document(HtmlReader, document, random)


def check_tree(document: bytes, noise: str, random: Random) -> None:
    """Check a page with correctly nested elements."""
    check_html(document, noise, random, is_tree=True)


@st.composite
def _bytes(draw: st.DrawFn) -> bytes:
    head = b"<meta charset=" + draw(st.sampled_from(_CHARSETS)) + b"><p title='"
    return draw(st.sampled_from((b"", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", head))) + draw(
        st.binary(max_size=60)
    )


def kinds() -> dict[str, tuple[st.SearchStrategy[bytes], Check]]:
    """Strategies for documents, with their checks, by name."""
    by_name: dict[str, tuple[st.SearchStrategy[bytes], Check]] = {
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
        by_name["html5lib inputs"] = (st.sampled_from(tokens), check_html)
        by_name["real pages"] = (damaged(real), check_html)
        by_name["real XML"] = (damaged(real_xml()), check_any_xml)
        by_name["corpora"] = (st.sampled_from(lines), check_any_xml)
        by_name["corpora as HTML"] = (st.sampled_from(lines), check_html)
    return by_name


def real_xml() -> list[bytes]:
    """The real documents of all XML formats."""
    paths = itertools.chain.from_iterable(
        (SHARED / "documents").glob(f"*/*.{ending}") for ending in ("xml", "resx")
    )
    return [path.read_bytes() for path in sorted(paths)]


def corpus_lines(most: int = 3000) -> Iterator[bytes]:
    """Lines of the corpora that contain tags, each wrapped in an element."""
    for path in sorted((SHARED / "corpora").glob("markup-*/*.en*")):
        open_file = gzip.open if path.suffix == ".gz" else open
        with open_file(path, "rt", encoding="utf-8") as file:
            tagged = (line.strip() for line in file if re.search("<[a-z]", line))
            for line in itertools.islice(tagged, most):
                yield f"<para>{line}</para>".encode()


class Attack:
    """Documents of one kind, and the check that they must pass."""

    def __init__(self, documents: st.SearchStrategy[bytes], check: Check) -> None:
        """Start with no document checked."""
        self.checked = 0
        self._documents, self._check = documents, check

    def run(self, number: int, until: float) -> tuple[str, str] | None:
        """Check some documents.

        Args:
            number: seed of the random choices.
            until: the time after which no further document is checked.

        Returns:
            The broken property, and a message with the smallest document that shows it.
        """
        broken: tuple[bytes, str, int] | None = None

        @seed(number)
        @settings(
            max_examples=_BATCH,
            deadline=None,
            database=None,
            phases=[Phase.generate],  # `_reduced` is faster, and works on real documents too
            suppress_health_check=list(HealthCheck),
        )
        @given(self._documents, NOISE, st.integers(0, 1 << 16))
        def check_one(document: bytes, noise: str, chance: int) -> None:
            nonlocal broken
            if broken is None and time.monotonic() < until:
                self.checked += 1
                if self._broken(document, noise, chance):
                    broken = document, noise, chance

        check_one()
        if broken is None:
            return None
        document, noise, chance = broken
        law = self._broken(*broken)
        smallest = _reduced(document, lambda smaller: self._broken(smaller, noise, chance) == law)
        return law, f"{law} does not hold of {smallest!r} with {noise!r}, {chance}"

    def _broken(self, document: bytes, noise: str, chance: int) -> str:
        """The property that a document breaks; empty if there is none."""
        try:
            self._check(document, noise, Random(chance))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            return f"{where.name}, {where.line}, {type(error).__name__}"
        return ""


def _reduced(document: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """The smallest part of a document, found in limited time, that also fails."""
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
    """Fuzz the readers, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given_ones = parser.parse_args()
    warnings.simplefilter("ignore")
    until = time.monotonic() + given_ones.seconds
    attacks = {name: Attack(*kind) for name, kind in kinds().items()}
    violations: dict[str, str] = {}
    for number, (name, attack) in enumerate(itertools.cycle(attacks.items())):
        if time.monotonic() > until:
            break
        if broken := attack.run((given_ones.seed << 16) + number, until):
            law, violation = broken
            violations.setdefault(law, f"{name}: {violation}")
    documents = {name: attack.checked for name, attack in attacks.items()}
    print(json.dumps({"documents": documents, "violations": list(violations.values())}))


if __name__ == "__main__":
    main()
