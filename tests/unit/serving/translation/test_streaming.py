"""A text that is read while it grows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from dragoman_serving.engine.futures import Future
from dragoman_serving.engine.sentence import SearchOptions
from dragoman_serving.translation.segments import Piece, SourceSentence
from dragoman_serving.translation.streaming import TextStream

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.texts.sentences import LineBreaks

SENTENCE = SourceSentence((1, 2), 9, SearchOptions())


def decode(_sentence: SourceSentence, ids: Sequence[int], _is_whole: bool) -> str:
    return " ".join(f"w{number}" for number in ids)


def begin(pieces: list[Piece]) -> tuple[TextStream, list[Future[Hypothesis]]]:
    stream = TextStream(pieces, decode, lambda: None)
    futures: list[Future[Hypothesis]] = [
        Future() for piece in pieces if isinstance(piece, SourceSentence)
    ]
    stream.follow(futures)
    return stream, futures


def hypothesis(ids: tuple[int, ...]) -> Hypothesis:
    return Hypothesis(ids, None, True)


def test_a_short_text_grows_by_every_token() -> None:
    stream, (first, second) = begin([SENTENCE, "\n", SENTENCE, " "])
    tell_first, tell_second = stream.reports(2)
    read = []
    for count in range(1, 4):
        tell_first(tuple(range(count)))
        read.append(stream.read())
    assert read == ["w0", "w0 w1", "w0 w1 w2"]
    tell_second((7,))
    assert stream.read() == "w0 w1 w2"
    first.set_result(hypothesis((0, 1, 2)))
    assert stream.read() == "w0 w1 w2\nw7"
    second.set_result(hypothesis((7, 8)))
    assert stream.read() == "w0 w1 w2\nw7 w8 "


def test_line_breaks_are_sent_with_the_complete_sentence() -> None:
    breaks = LineBreaks.of("a b\nc d")
    stream, (only,) = begin(["- ", SENTENCE, breaks, "\n"])
    (tell,) = stream.reports(1)
    tell((1, 2))
    assert stream.read() == "- "
    only.set_result(hypothesis((1, 2, 3, 4)))
    assert stream.read() == "- w1 w2\nw3 w4\n"


def test_the_total_read_of_a_long_text_is_linear() -> None:
    """Four times the text takes some four times as long, not sixteen times."""

    def characters_read(sentences: int) -> tuple[int, int]:
        pieces: list[Piece] = [SENTENCE, " "] * sentences
        stream, futures = begin(pieces)
        read = [stream.read()]
        for number, future in enumerate(futures):
            future.set_result(hypothesis((number,) * 9))
            text = stream.read()
            if text != read[-1]:
                read.append(text)
        assert all(b.startswith(a) for a, b in itertools.pairwise(read))
        return sum(map(len, read)), len(read[-1])

    (few, _), (many, length) = characters_read(2_000), characters_read(8_000)
    assert many < 8 * few
    assert many < 1_100 * length
