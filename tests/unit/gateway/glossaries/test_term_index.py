"""Glossary terms that occur in a text: omitted terms could not have matched."""

from __future__ import annotations

import pytest
from dragoman_gateway.glossaries.term_index import TermIndex, merged
from dragoman_serving.request.glossary import Glossary
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.kernel.texts.sentences import LineBreaks
from tests.timing import fastest_s

UNCUT_BYTES = 12
WORDS = st.sampled_from(
    ["tea", "Tea", "TEE", "ß", "SS", "ss", "a", "b", "ab", "a-b", "İ", "tea.", "of", "x" * 15]
)
SPACES = st.sampled_from([" ", "  ", "\n", " \r\n ", "\u2028", "", ",", ".", "-"])
TEXTS = st.lists(st.tuples(WORDS, SPACES), max_size=12).map(
    lambda all_: "".join(map("".join, all_))
)
TERMS = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)


@given(
    st.dictionaries(TERMS, st.sampled_from(["A", "B", "C", "D", "E"]), max_size=8),
    TEXTS,
    st.data(),
)
@settings(max_examples=200)
def test_occurring_terms_are_all_that_the_engine_can_find(
    terms: dict[str, str], text: str, data: st.DataObject
) -> None:
    """Checks the text, its joined line, and parts that are split between or within words."""
    occurring = TermIndex(terms).occurring(text, UNCUT_BYTES)
    assert occurring.items() <= terms.items()
    every, those = Glossary(terms), Glossary(occurring)
    runs = LineBreaks.of(text).line
    begin = data.draw(st.sampled_from(_cuts(text)))
    end = data.draw(st.sampled_from([at for at in _cuts(text) if at >= begin]))
    for piece in (text, runs, LineBreaks.of(text[begin:end]).line):
        assert those.of(piece) == every.of(piece)


def _cuts(text: str) -> list[int]:
    """Where the engine may split: at white space, and anywhere in long words."""
    cuts = [0, len(text)]
    for at in range(1, len(text)):
        before, after = text[:at].split(), text[at:].split()
        is_space = text[at - 1].isspace() or text[at].isspace()
        if is_space or len((before[-1] + after[0]).encode()) >= UNCUT_BYTES:
            cuts.append(at)
    return sorted(set(cuts))


def test_words_are_not_found_in_words() -> None:
    index = TermIndex({"tea": "Tee", "iced tea": "Eistee", "pot": "Topf", "C++ (beta)": "C"})
    assert index.occurring("Iced TEA for the teapot", UNCUT_BYTES) == {
        "tea": "Tee",
        "iced tea": "Eistee",
    }
    assert index.occurring("a c++ (beta) book", UNCUT_BYTES) == {"C++ (beta)": "C"}
    assert index.occurring("a steamed teapot", UNCUT_BYTES) == {}
    assert TermIndex({}).occurring("tea", UNCUT_BYTES) == {}


def test_a_term_may_span_a_line_break() -> None:
    assert TermIndex({"cup of tea": "x"}).occurring("a cup\r\n  of tea", 12) == {"cup of tea": "x"}


def test_earlier_glossaries_have_priority() -> None:
    assert merged([{"Tea": "a"}, {"tea": "b", "pot": "c"}]) == {"Tea": "a", "pot": "c"}
    assert merged([]) == {}


def test_time_does_not_grow_with_the_number_of_terms() -> None:
    text = "The tea of word77 and word99999, and nothing else at all. " * 20
    seconds = []
    for count in (1_000, 100_000):
        index = TermIndex({f"word{number}": "x" for number in range(count)})
        seconds.append(fastest_s(lambda: index.occurring(text, UNCUT_BYTES), 20))  # noqa: B023
        assert index.size_bytes > 400 * count
    assert seconds[1] < 10 * seconds[0]


@pytest.mark.parametrize("text", ["a", "aaab", "a-", "aaaaaa ", "-" * 40 + "a" * 40 + " "])
def test_time_depends_only_on_the_text_if_terms_share_prefixes(text: str) -> None:
    whole = (text * 20_000)[:20_000]
    # Every prefix of the text is a term, and so is every run of one letter.
    terms = {whole[:length]: "x" for length in range(1, 201)}
    terms |= {"a" * length: "x" for length in range(1, 201)}
    index = TermIndex(terms)
    occurring = index.occurring(whole, UNCUT_BYTES)
    took_s = fastest_s(lambda: index.occurring(whole, UNCUT_BYTES), 5)
    some = range(500)
    tried_s = fastest_s(lambda: [whole.startswith(term, at) for at in some for term in terms], 5)
    pairs_s = tried_s * len(whole) / len(some)
    assert took_s < pairs_s / 2  # far less than a step for each position and term
    assert set(occurring) <= set(terms)
    every, those = Glossary(terms), Glossary(occurring)
    assert those.of(whole[:300]) == every.of(whole[:300])
