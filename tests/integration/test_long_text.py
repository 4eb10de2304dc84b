"""Long texts, over both protocols, in streams, and files of them."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from dragoman_client import Document, Translator

from tests.servers import WAIT_S, Served

LONG = "I would like a cup of coffee, " * 100 + "but my brother does not."
TEXT = f"""# A heading

- First item. It has two sentences.
  1. Nested item.

* * *

    I went to the station yesterday, because I wanted to meet my friend from
Boston there. He did not come.\r
\t{LONG}
"""
LAYOUT = re.compile(r"\s*\n\s*")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_long_text_keeps_its_layout(shipped: Served, protocol: str) -> None:
    translator: Translator = getattr(shipped, protocol)
    translation = translator.translate(TEXT, split_sentences=True, beam_width=1)
    assert LAYOUT.findall(translation.text) == LAYOUT.findall(TEXT)
    assert translation.text.startswith("# ")
    assert "\n\n* * *\n\n" in translation.text
    parts = list(translator.translate_stream(TEXT, split_sentences=True, beam_width=1))
    assert parts[-1] == translation
    assert all(b.text.startswith(a.text) for a, b in itertools.pairwise(parts))


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_no_sentence_is_lost(shipped: Served, protocol: str) -> None:
    """The model was trained on single sentences, and omits some of several sentences."""
    translator: Translator = getattr(shipped, protocol)
    sentences = ["I am hungry.", "I have time.", "See you tomorrow."]
    apart = [
        translation.text for translation in translator.translate(sentences, target_language="de")
    ]
    text = " ".join(sentences)
    assert translator.translate(text, target_language="de").text == " ".join(apart)
    parts = list(translator.translate_stream(text, target_language="de"))
    assert parts[-1].text == " ".join(apart)


@pytest.mark.parametrize("protocol", ["grpc", pytest.param("http", marks=pytest.mark.thorough)])
def test_a_text_of_maximum_length_is_streamed(shipped: Served, protocol: str) -> None:
    """The total amount sent is bounded, although each update has the text from its start."""
    translator: Translator = getattr(shipped, protocol)
    both = "I am hungry. Good night."
    said = translator.translate(both, split_sentences=True, beam_width=1).text
    text = (f"{both} " * 10 + "\n\n") * 360
    assert 90_000 <= len(text) <= 100_000
    sent = count = 0
    for part in translator.translate_stream(text, split_sentences=True, beam_width=1):
        sent, count = sent + len(part.text), count + 1
    assert part.finish_reason == "stop"
    assert part.text.count("\n\n") == 360
    assert said.startswith("Ich habe Hunger. ")
    assert part.text.count(said) == 3600
    assert count > 10
    assert sent < 1_100 * len(part.text)


def test_a_cut_within_a_joined_text_is_reported(shipped: Served) -> None:
    text = "Hello. I would like a cup of coffee, but my brother does not want to. Hello."
    for translator in (shipped.grpc, shipped.http):
        whole = translator.translate(text, split_sentences=True)
        cut = translator.translate(text, split_sentences=True, max_tokens=6)
        assert (whole.finish_reason, cut.finish_reason) == ("stop", "length")
        assert (
            list(translator.translate_stream(text, split_sentences=True, max_tokens=6))[-1] == cut
        )


def test_shorter_parts_on_request(shipped: Served) -> None:
    text = "I am hungry, and I would like a cup of coffee; my brother is in Boston."
    pieces = ["I am hungry, and I would like a cup of coffee;", "my brother is in Boston."]
    for translator in (shipped.grpc, shipped.http):
        translation = translator.translate(text, split_sentences=True, max_sentence_tokens=16)
        assert translation.text == " ".join(part.text for part in translator.translate(pieces))
        # As a whole, the model omits most of it.
        translation = translator.translate(LONG, split_sentences=True, max_sentence_tokens=16)
        assert translation.text.lower().count("kaffee") == 100


def test_a_book_keeps_its_layout(shipped: Served, tmp_path: Path) -> None:
    """The command translates it to a file and to standard output, and the client does too."""
    source, target = tmp_path / "book.txt", tmp_path / "german.txt"
    text = f"{TEXT}\n\n" * 4 + "The end."
    source.write_bytes(text.encode())
    command = [str(Path(sys.executable).parent / "dragoman"), "translate", "--format", "document"]
    options = ["--target-language", "de", "--beam-width", "1"]
    environment = {**os.environ, "DRAGOMAN_URL": shipped.server.grpc_url}
    files = ["--input", str(source), "--output", str(target)]
    subprocess.run([*command, *options, *files], env=environment, check=True, timeout=WAIT_S)
    with source.open("rb") as file:
        printed = subprocess.run(
            [*command, *options],
            stdin=file,
            capture_output=True,
            env=environment,
            check=True,
            timeout=WAIT_S,
        )
    assert target.read_bytes() == printed.stdout
    translated = printed.stdout.decode()
    assert LAYOUT.findall(translated) == LAYOUT.findall(text)
    again = tmp_path / "again.txt"
    done = shipped.http.translate_file(
        source, again, form=Document(), target_language="de", beam_width=1
    )
    assert again.read_bytes() == target.read_bytes()
    assert done.refused == 0
