from __future__ import annotations

import gzip
import random
import sys
from itertools import product
from pathlib import Path

import pytest
from dragoman_training.text.word_aligner import Links, align, grow_diagonally
from dragoman_training.text.word_links import find_words

from dragoman.cli import main
from tests.conftest import CommandLine
from tests.toy import write_pairs

ALIGNER = """#!{python}
import sys
given, forward, reverse = (sys.argv[sys.argv.index(flag) + 1] for flag in ("-i", "-f", "-r"))
with open(given) as pairs, open(forward, "w") as one, open(reverse, "w") as other:
    for line in pairs:
        src, tgt = (side.split() for side in line.split(" ||| "))
        print(*(f"{{i}}-{{tgt.index(w)}}" for i, w in enumerate(src) if w in tgt), file=one)
        print(*(f"{{src.index(w)}}-{{j}}" for j, w in enumerate(tgt) if w in src), file=other)
"""
"""Links words to the first one spelt the same, where eflomal would be trained."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return script(tmp_path / "eflomal-align", ALIGNER.format(python=sys.executable))


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def read(path: Path) -> list[str]:
    with gzip.open(path, "rt") as file:
        return file.read().splitlines()


def naive_growth(forward: Links, reverse: Links) -> Links:
    """Repeats over all links until none is added."""
    links, grows = set(forward & reverse), True
    while grows:
        grows = False
        for src, tgt in sorted(links):
            for down, right in product((-1, 0, 1), repeat=2):
                near = (src + down, tgt + right)
                is_new = all(near[0] != linked for linked, _ in links) or all(
                    near[1] != linked for _, linked in links
                )
                if near in (forward | reverse) - links and is_new:
                    links.add(near)
                    grows = True
    return links


def test_links_grow_from_the_links_of_both_directions() -> None:
    forward, reverse = {(0, 0), (1, 1), (3, 3)}, {(0, 0), (1, 2), (5, 5)}
    assert grow_diagonally(forward, reverse) == {(0, 0), (1, 1), (1, 2)}
    assert grow_diagonally(forward, set()) == set()
    generator, grown = random.Random(1), 0
    every = [(src, tgt) for src in range(5) for tgt in range(5)]
    for _ in range(100):
        forward, reverse = (set(generator.sample(every, 6)) for _ in range(2))
        links = grow_diagonally(forward, reverse)
        assert forward & reverse <= links <= forward | reverse
        taken = naive_growth(forward, reverse)
        for side in (0, 1):  # the order in which links are added may differ, not the result
            assert {link[side] for link in links} == {link[side] for link in taken}
        grown += len(links - (forward & reverse))
    assert grown > 50


def test_pairs_without_words_have_no_links(program: Path) -> None:
    pairs = [("Red, blue", "blue RED"), ("", "blue"), (" ", ""), ("red", "red")]
    assert [word[0] for word in find_words(pairs[0][0])] == ["Red", ",", "blue"]
    none: Links = set()
    linked = {(0, 1), (2, 0)}
    assert list(align(program, pairs)) == [
        (linked, linked),
        (none, none),
        (none, none),
        ({(0, 0)}, {(0, 0)}),
    ]
    assert list(align(program, [("", "")])) == [(none, none)]


def test_the_command_writes_links_beside_each_corpus(
    tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str], cli: CommandLine
) -> None:
    write_pairs(tmp_path / "one", [("red blue", "red grey red"), ("", "red")], ("en", "de"))
    write_pairs(tmp_path / "two", [("green blue red", "red blue")], ("de", "en"))
    write_pairs(tmp_path / "two", [("blue", "blue")], ("fr", "fr"))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[data]\nlanguages = ["en", "de", "fr"]\n'
        'train = [{prefix = "one", languages = ["en", "de"]},'
        ' {prefix = "two", languages = ["de", "en"]}, {prefix = "two", languages = ["en", "fr"]}]\n'
    )
    words = ["link-words", "--config", str(recipe), "--data-dir", str(tmp_path)]
    words += ["--eflomal", str(program)]
    assert main(words) == 0
    names = ["one.en-de.links.gz", "two.de-en.links.gz", "two.en-fr.links.gz"]
    assert capsys.readouterr().out.split() == [str(tmp_path / name) for name in names]
    assert [read(tmp_path / name) for name in names] == [["0-0", ""], ["1-1 2-0"], ["1-0"]]
    assert "one.en-de.links.gz exists: give --force to replace it" in cli.refusal(*words)
    assert main([*words, "--force"]) == 0
    (tmp_path / names[1]).rename(tmp_path / "two.en-de.links.gz")
    assert "two.en-de.links.gz has links of the same text: remove it" in cli.refusal(
        *words, "--force"
    )


def test_two_files_need_no_recipe(tmp_path: Path, program: Path) -> None:
    write_pairs(tmp_path / "my", [("red", "red")], ("en", "de"))
    words = ["link-words", "--text", str(tmp_path / "my.en"), str(tmp_path / "my.de")]
    assert main([*words, "--eflomal", str(program)]) == 0
    assert read(tmp_path / "my.en-de.links.gz") == ["0-0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be run: No such file or directory; pip install eflomal"),
        ("#!/bin/sh\necho no memory >&2\nexit 3\n", "failed with status 3: no memory"),
        ('#!/bin/sh\n: > "$4"\n: > "$6"\n', "wrote word alignments of only some of the pairs"),
    ],
)
def test_a_failing_aligner_is_reported_in_one_line(
    tmp_path: Path, text: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pairs(tmp_path / "my", [("red", "red")], ("en", "de"))
    program = tmp_path / "aligner"
    if text:
        script(program, text)
    words = ["link-words", "--text", str(tmp_path / "my.en"), str(tmp_path / "my.de")]
    assert main([*words, "--eflomal", str(program)]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "my.en-de.links.gz").exists()
