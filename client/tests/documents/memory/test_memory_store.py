"""Tests of the translation memory: what it finds, and what it stores."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from dragoman_documents.memory.memory_store import Memory
from dragoman_documents.memory.pairs import MOST_CHARACTERS, Pair
from dragoman_options.markup import Code

_WORDS = [
    *("the", "a", "committee", "report", "city"),
    *("harbour", "light", "old", "new", "reads", "takes"),
    *("under", "over", "seven", "漢字", "größe"),
]


def _sentence(chance: random.Random, number: int) -> str:
    return " ".join(chance.choices(_WORDS, k=8)) + f" {number}."


@pytest.fixture
def memory() -> Memory:
    """An empty memory."""
    return Memory.create(None, ("en", "de"))


@pytest.mark.parametrize("seed", range(5))
def test_every_stored_pair_is_found_again(memory: Memory, seed: int) -> None:
    """White space does not matter, and neither does the number of pairs."""
    chance = random.Random(seed)
    pairs = [Pair(_sentence(chance, number), f"t{number}") for number in range(200)]
    assert memory.add(pairs) == len(memory) == 200
    for pair in pairs:
        spaced = pair.source.replace(" ", chance.choice([" ", "  ", "\n", "\t "]))
        match = memory.exact(f" {spaced}\n")
        assert match is not None
        assert match.pair == pair
        assert match.similarity == 100
        assert memory.similar(spaced)[0] == match
    assert [pair for _, pair in memory.pairs()] == pairs


@pytest.mark.parametrize("seed", range(5))
def test_a_changed_sentence_is_found_as_similar_and_never_as_equal(
    memory: Memory, seed: int
) -> None:
    """One word of nine is another one."""
    chance = random.Random(seed)
    pairs = [Pair(_sentence(chance, number), f"t{number}") for number in range(500)]
    memory.add(pairs)
    for pair in chance.sample(pairs, 50):
        words = pair.source.split()
        words[chance.randrange(8)] = "otherwise"
        text = " ".join(words)
        assert memory.exact(text) is None
        similar = memory.similar(text, least=60)
        assert pair in [match.pair for match in similar]
        assert all(60 <= match.similarity < 100 for match in similar)
        assert similar == sorted(similar, key=lambda match: -match.similarity)


def test_neighbours_choose_between_translations(memory: Memory) -> None:
    """Of equal texts the one between the same texts counts, else the one stored last."""
    texts = [("Open", "Öffnen"), ("File", "Datei"), ("Open", "Offen"), ("State", "Zustand")]
    memory.add([Pair(*text) for text in texts])

    def chosen(before: str | None, after: str | None) -> str:
        match = memory.exact("Open", before=before, after=after)
        assert match is not None
        return match.pair.target

    assert chosen(None, "File") == "Öffnen"
    assert chosen("File", "State") == "Offen"
    assert chosen("File", "Another") == "Offen"
    assert chosen("Another", None) == "Offen"


def test_codes_are_part_of_a_text_but_not_their_names(memory: Memory) -> None:
    """A text whose elements are elsewhere is similar, not equal."""
    pair = Pair("Click here now.", "Jetzt hier klicken.", (Code(6, 10),), ((6, 10),))
    memory.add([pair])
    match = memory.exact("Click  here now.", (Code(7, 11),))
    assert match is not None
    assert match.pair == pair
    for codes in ((), (Code(11, 14),), (Code(6, 10), Code(7, 8, 0))):
        assert memory.exact(pair.source, codes) is None
        assert [match.similarity for match in memory.similar(pair.source, codes)] == [99]


def test_a_second_import_replaces_translations(memory: Memory) -> None:
    """A document that was translated again does not double its segments."""
    for target in ("first", "second"):
        memory.add([Pair("One text.", target), Pair("Another.", target)])
    assert [pair.target for _, pair in memory.pairs()] == ["second", "second"]


@pytest.mark.parametrize("seed", range(3))
def test_the_pair_stored_last_wins_and_its_text_stays_similar(memory: Memory, seed: int) -> None:
    """Also if it replaces the first one of several with the same text."""
    chance = random.Random(seed)
    last: dict[str, str] = {}
    behind: dict[tuple[str, str], str] = {}
    for number in range(60):
        names = chance.choices(["open a file", "close the door", "read this book"], k=3)
        pairs = [Pair(name, f"t{number} {place}") for place, name in enumerate(names)]
        memory.add(pairs)
        last |= {pair.source: pair.target for pair in pairs}
        before = zip(names, pairs[1:], strict=False)
        behind |= {(name, pair.source): pair.target for name, pair in before}
        for text, target in last.items():
            (match,) = memory.similar(f"{text}s")
            assert (match.pair.source, match.pair.target) == (text, target)
            equal = memory.exact(text)
            assert equal is not None
            assert equal.pair.target == target
        for (name, text), target in behind.items():
            match_behind = memory.exact(text, before=name, after="otherwise")
            assert match_behind is not None
            assert match_behind.pair.target == target
    assert [pair.target for _, pair in memory.pairs()][-3:] == [pair.target for pair in pairs]


def test_an_import_above_the_limit_changes_nothing(memory: Memory) -> None:
    """All of a file is added, or nothing."""
    memory.add([Pair("One text.", "Ein Text.")])
    with pytest.raises(ValueError, match="more than 3"):
        memory.add([Pair(f"Text {number}.", "x") for number in range(3)], most=3)
    assert len(memory) == 1
    assert memory.similar("Text 1.", least=1) == []
    assert memory.similar("One text!") != []
    assert memory.add([Pair("Two.", "Zwei."), Pair("Three.", "Drei.")], most=3) == 2


@pytest.mark.parametrize("seed", range(3))
def test_an_import_counts_only_its_own_entries(seed: int) -> None:
    """Its work does not grow with the memory, and the index is the same as if all were counted."""
    chance = random.Random(seed)
    work: list[int] = []
    for size in (2000, 8000):
        memory = Memory.create(None, ("en", "de"))
        memory.add([Pair(_sentence(chance, number), "t") for number in range(size)])
        steps: list[None] = []
        connection = memory._connection
        connection.set_progress_handler(lambda steps=steps: steps.append(None), 100)
        for begin in range(size, size + 40, 8):
            texts = [_sentence(chance, number) for number in range(begin, begin + 8)]
            memory.add([Pair(text, "t") for text in texts])
        connection.set_progress_handler(None, 0)
        work.append(len(steps))
        counted = connection.execute("SELECT * FROM gram_counts ORDER BY gram").fetchall()
        query = "SELECT term, doc FROM gram_totals WHERE doc >= 32 ORDER BY term"
        assert counted == connection.execute(query).fetchall()
        memory.close()
    assert work[1] < 1.5 * work[0]


def test_what_is_no_segment_is_left_out(memory: Memory) -> None:
    """Empty and very long texts."""
    long = "a" * (MOST_CHARACTERS + 1)
    pairs = [Pair("", "x"), Pair("x", " \n"), Pair(long, "x"), Pair("x", long), Pair(" ", "y")]
    assert memory.add(pairs) == 0


def test_long_and_strange_texts_are_looked_up(memory: Memory) -> None:
    """No text is an error; a long one is found if it is equal."""
    texts = ["word " * 5000, "\0\x01'\"*(", "\ud800", "ab", "a", "%_", "NOT AND OR"]
    memory.add([Pair(text, "t") for text in texts if text != "\ud800"])
    for text in texts:
        assert len(memory.similar(text)) == (text != "\ud800")
        assert memory.similar(f"{text} otherwise and more of it", least=99) == []
    assert memory.similar("") == []
    assert memory.exact("") is None


def test_a_file_is_opened_again(tmp_path: Path) -> None:
    """Its languages and pairs are in it; other files are refused in one line."""
    path = tmp_path / "memory.sqlite"
    with Memory.create(path, ("en", "pt-BR")) as memory:
        memory.add([Pair("One.", "Um.")])
    assert path.stat().st_mode & 0o777 == 0o600
    with Memory.open(path) as memory:
        assert memory.languages == ("en", "pt-BR")
        assert memory.exact("One.") is not None
    with pytest.raises(FileExistsError):
        Memory.create(path, ("en", "de"))
    with pytest.raises(FileNotFoundError):
        Memory.open(tmp_path / "none")
    for content in (b"", b"text" * 1000, b"SQLite format 3\0" * 300):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a translation memory") as error:
            Memory.open(path)
        assert "\n" not in str(error.value)
