"""What the model thinks of its translations, served over both protocols."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from dragoman_client import AsyncTranslator, InvalidRequest, Translation, WordAlignment
from dragoman_client import Translator as Client

from serving.request_options import RequestOptions
from serving.translator import Translator
from tests.integration.conftest import Served
from tests.integration.test_served_translations import BUNDLE

TEXTS = ["I would like a cup of coffee.", "Good morning, Tom."]
Protocol = Literal["grpc", "http"]


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("width", [1, 4])
def test_token_scores_and_confidence_are_the_engines(
    shipped: Served, protocol: Protocol, width: int
) -> None:
    client: Client = getattr(shipped, protocol)
    found = client.translate(
        TEXTS, beam_width=width, return_token_scores=True, return_confidence=True
    )
    translator = Translator(BUNDLE)
    options = RequestOptions(beam_width=width, return_confidence=True)
    expected = translator.translate(TEXTS, options)
    translator.close()
    for one, right in zip(found, expected, strict=True):
        assert one.text == right.text
        assert one.token_scores is not None
        assert right.assessment is not None
        assert one.token_scores.tokens == right.assessment.tokens
        assert one.token_scores.tokens[-1] == "</s>"
        assert one.token_scores.log_probs == pytest.approx(right.assessment.log_probs, abs=1e-3)
        assert one.confidence == pytest.approx(right.assessment.confidence, abs=1e-3)
        assert one.alignments is None
        assert one.score is None


def test_greedy_search_is_scored_on_request(shipped: Served) -> None:
    (plain,) = shipped.grpc.translate(TEXTS[:1], beam_width=1)
    (found,) = shipped.grpc.translate(TEXTS[:1], beam_width=1, return_scores=True)
    (beam,) = shipped.grpc.translate(TEXTS[:1], beam_width=2, return_scores=True)
    assert plain.score is None
    assert found.text == plain.text
    assert found.score is not None
    assert beam.score is not None
    # int8 and fp32 differ by little.
    assert found.score <= beam.score + 0.1


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_words_are_linked(shipped: Served, protocol: Protocol) -> None:
    client: Client = getattr(shipped, protocol)
    found = client.translate(TEXTS, return_alignments="hard", num_return_sequences=2)
    for text, best in zip(TEXTS, found, strict=True):
        for one in (best, *best.alternatives):
            assert isinstance(one.alignments, WordAlignment)
            links = one.alignments.links
            assert {target for _, target in links} == set(range(len(one.text.split())))
            assert {source for source, _ in links} <= set(range(len(text.split())))
    (tom,) = client.translate(["Tom and Mary live in Boston."], return_alignments="hard")
    words = tom.text.split()
    assert isinstance(tom.alignments, WordAlignment)
    assert (0, words.index("Tom")) in tom.alignments.links
    assert (5, words.index("Boston.")) in tom.alignments.links


def test_under_asyncio_it_is_the_same(shipped: Served) -> None:
    options: Any = {"return_token_scores": True, "return_alignments": "soft"}
    expected = shipped.grpc.translate(TEXTS, **options)

    async def translate(url: str) -> list[Translation]:
        async with AsyncTranslator(url) as translator:
            return await translator.translate(TEXTS, **options)

    for url in (shipped.server.grpc_url, shipped.server.http_url):
        assert asyncio.run(translate(url)) == expected


def test_generate_answers_with_what_was_asked_for(shipped: Served) -> None:
    names = {"token_scores", "alignments", "confidences", "scores"}
    _, plain = shipped.generate({"text_input": TEXTS[0]})
    assert not names & set(plain)
    _, found = shipped.generate(
        {"text_input": TEXTS[0], "return_confidence": True, "return_alignments": "hard"}
    )
    assert names & set(found) == {"confidences", "alignments"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"return_alignments": "both"}, "return_alignments is 'both': give hard or soft"),
        ({"return_scores": True, "split_sentences": True}, "return_scores: not with split_sent"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    shipped: Served, options: dict[str, Any], message: str
) -> None:
    status, answer = shipped.generate({"text_input": "a", **options})
    assert status == 400
    assert message in answer["error"]
    for client in (shipped.grpc, shipped.http):
        with pytest.raises((InvalidRequest, ValueError), match="return_"):
            client.translate("a", **options)
