"""Properties of translated packages that hold for any output of a translator."""

from __future__ import annotations

import io
import re
from functools import partial
from random import Random

from dragoman_documents.office.container import Container
from dragoman_documents.office.packages import package_of
from dragoman_documents.office.run_profiles import RunProfile
from dragoman_documents.office.runs import RunReader
from dragoman_documents.xml.xml_reader import XmlReader
from markup_laws import check_document, check_trees, hostile_noise, without_noise
from office_documents import heads, members, paragraphs, translated
from translated_documents import (
    Translator,
    blank,
    careless,
    hostile,
    identity,
    shuffled,
    swapped,
    written,
)

_SPACES = re.compile(r"\s+")


def check_package(document: bytes, form: str, noise: str, random: Random) -> None:
    """Check a package.

    Args:
        document: the package.
        form: name of its format.
        noise: text that a hostile translator adds to each text.
        random: chooses sizes of chunks and positions of codes.
    """
    assert translated(document, form, identity) == document
    container = Container(io.BytesIO(document))
    package = package_of(container)
    before, is_read = members(document), {container.names[part.index] for part in package.members}
    for translate in _translators(noise, random):
        output = translated(document, form, translate)
        assert heads(output) == heads(document)
        after = members(output)
        assert {name for name in before if before[name] != after[name]} <= is_read
    for member in package.members:
        content = before[container.names[member.index]]
        if isinstance(member.profile, RunProfile):
            check_runs(content, member.profile, noise, random)
        else:
            open_reader = partial(XmlReader, member.profile)
            check_document(open_reader, content, random)
            check_trees(open_reader, content, noise, random)


def check_runs(content: bytes, profile: RunProfile, noise: str, random: Random) -> None:
    """Check a document whose paragraphs consist of runs."""

    def open_reader() -> RunReader:
        return RunReader(profile)

    check_document(open_reader, content, random)
    before = paragraphs(content, profile, _words)
    objects = [counts for _, counts in before]
    for translate in _translators(noise, random):
        after = paragraphs(written(open_reader(), content, translate), profile)
        assert [counts for _, counts in after] == objects
    lower = [(text.lower(), counts) for text, counts in before]
    changed = paragraphs(written(open_reader(), content, swapped), profile, _words)
    assert [(text.lower(), counts) for text, counts in changed] == lower
    noisy = written(open_reader(), content, hostile(hostile_noise(noise)))
    shown = [_words(without_noise(text, noise)) for text, _ in paragraphs(noisy, profile)]
    assert shown == [text for text, _ in before]


def _translators(noise: str, random: Random) -> list[Translator]:
    return [
        *(swapped, blank(""), blank(" "), hostile(hostile_noise(noise))),
        *(shuffled(random), careless(random)),
    ]


def _words(text: str) -> str:
    return _SPACES.sub("", text)
