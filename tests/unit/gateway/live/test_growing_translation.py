"""The words of a growing text's translation that are shown, whatever the engine answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from dragoman_gateway.live.growing_translation import (
    GrowingTranslation,
    continuation,
    erased_words,
)
from hypothesis import example, given
from hypothesis import strategies as st

Engine = Callable[[str, str], str]
_WORDS = st.sampled_from(
    [
        *("Dr.", "no", "3", "3.5", "Yes.", "Why?", "“Go!”"),
        *("tea,", "\n", "- one", "» Name:", "你好。", "茶", "a" * 300),
    ]
)
_TARGETS = st.sampled_from(
    ["Tee", "Tee,", "Teekanne", "Tee-Ei", "3", "3.000", "ja.", "茶", "。", "?"]
)
_CHANGES = st.lists(st.tuples(_WORDS, st.booleans(), st.booleans()), max_size=12)


def states_of(
    changes: Sequence[tuple[str, bool, bool]], engine: Engine, state: GrowingTranslation
) -> list[GrowingTranslation]:
    """The states of a text that grows by words, some of which replace the last sentence."""
    states = [state]
    for word, replaces, finish in changes:
        source = state.source[: state.begin] if replaces else state.source
        source = f"{source} {word}"
        parts = state.parts(source, "en", finish=finish)
        answers = [engine(part.text, part.prefix) for part in parts]
        state = state.after(source, parts, answers)
        states.append(state)
    return states


def test_a_sentence_that_is_deleted_leaves_nothing() -> None:
    state = GrowingTranslation(source="One. two three", begin=4, finished="Eins.")
    for translation in ("zwei drei vier", "zwei drei fünf"):
        parts = state.parts(state.source, "en", finish=False)
        state = state.after(state.source, parts, [translation])
    assert state.text == "Eins. zwei"
    state = state.after("One.", state.parts("One.", "en", finish=False), [])
    assert (state.text, state.latest) == ("Eins.", "")


@given(_CHANGES, st.data(), st.integers(0, 3))
def test_words_that_were_shown_never_change(
    changes: Sequence[tuple[str, bool, bool]], data: st.DataObject, revise: int
) -> None:
    def engine(_text: str, prefix: str) -> str:
        """Sometimes ignores the prefix, or continues its last word."""
        begin = prefix if data.draw(st.booleans()) else ""
        return (
            begin
            + data.draw(st.sampled_from(["", " "]))
            + " ".join(data.draw(st.lists(_TARGETS, max_size=5)))
        )

    for former, state in pairwise(states_of(changes, engine, GrowingTranslation(revise))):
        if state.begin == former.begin and not state.source[state.begin :].strip():
            assert state.text == former.finished  # the unfinished sentence was deleted
            continue
        stable = former.text.removesuffix(former.revisable)
        assert former.text == stable + former.revisable
        assert erased_words(stable.rstrip(), state.text) == 0
        assert erased_words(former.text, state.text) <= revise
        assert state.text.removesuffix(state.revisable).startswith(stable.rstrip())


@given(_CHANGES, st.booleans(), st.integers(0, 2))
@example([(word, False, False) for word in ("no", "- one") * 2], False, 0)
def test_in_the_end_each_sentence_has_its_own_translation(
    changes: Sequence[tuple[str, bool, bool]], revise_sentences: bool, revise: int
) -> None:
    def engine(text: str, _prefix: str) -> str:
        return text.upper()

    growing = [(word[:20], False, finish) for word, _, finish in changes]  # longer ones are cut
    state = states_of(
        [*growing, ("the end", False, True)], engine, GrowingTranslation(revise, revise_sentences)
    )[-1]
    assert state.text.split() == state.source.upper().split()
    assert state.revisable == ""


@pytest.mark.parametrize("revise_sentences", [False, True])
def test_a_sentence_may_change_when_it_ends(revise_sentences: bool) -> None:
    answers = {
        "I": "Ich",
        "I can": "Ich kann es",
        "I can see": "Ich kann es jetzt sehen",
        "I can see it.": "Das sehe ich.",
    }
    state, texts = GrowingTranslation(revise_sentences=revise_sentences), []
    for source in answers:
        (part,) = state.parts(source, "en", finish=False)
        state = state.after(source, [part], [answers[source]])
        texts.append(state.text)
    assert texts[:3] == ["", "Ich", "Ich kann es"]
    assert texts[3] == ("Das sehe ich." if revise_sentences else "Ich kann es")
    (part,) = state.parts(source, "en", finish=True)
    assert part.prefix == ("" if revise_sentences else "Ich kann es")


@pytest.mark.parametrize(
    ("former", "text", "number"),
    [
        ("", "a b", 0),
        ("a b", "a b c", 0),
        ("a b", "a b, c", 0),
        ("a b", "a bc", 1),
        ("a b", "a b-c", 1),
        ("a b c", "a x c", 2),
        ("a b", "", 2),
        ("你好", "你们", 1),
        ("你", "你好", 0),
    ],
)
def test_erased_words(former: str, text: str, number: int) -> None:
    assert erased_words(former, text) == number


@pytest.mark.parametrize(
    ("prefix", "translation", "text"),
    [
        ("Ich mag", "Ich mag Tee.", "Ich mag Tee."),
        ("Ich mag", "Ich mag, was ich sehe.", "Ich mag, was ich sehe."),
        ("Ein Tee", "Ein Teeladen in Berlin", "Ein Tee in Berlin"),
        ("5 Tassen", "Fünf Tassen Tee", "5 Tassen Tee"),
        ("Ich mag Tee", "Tee", "Ich mag Tee"),
    ],
)
def test_a_translation_without_its_prefix(prefix: str, translation: str, text: str) -> None:
    assert continuation(prefix, translation) == text
