"""Attention of all heads as an option, through the engine and the scorer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dragoman_options.arguments import OptionArguments
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.scoring import assessment
from dragoman_serving.translation.translator import Translator

from dragoman.kernel.attention_maps import KINDS, Attention
from dragoman.kernel.errors import InvalidRequest


@pytest.fixture(scope="module")
def translator(random_bundle: Path) -> Iterator[Translator]:
    running = Translator(random_bundle, EngineSettings(precision="fp32"))
    yield running
    running.close()


def options(**given: Any) -> dict[str, Any]:
    return {"return_attention": True, **given}


def check(attention: Attention | None, said: int) -> Attention:
    assert attention is not None
    assert len(attention.said) == len(attention.read) == said
    assert attention.read[0] == "<s>"
    assert attention.read[1:] == attention.said[:-1]
    for kind in KINDS:
        weights = attention.weights(kind)
        assert weights.shape[2:] == (len(attention.queries(kind)), len(attention.keys(kind)))
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    return attention


def test_attention_of_translations_and_their_alternatives(translator: Translator) -> None:
    arguments = options(max_tokens=6, num_return_sequences=2, target_language="de")
    for text, best in zip(
        ["red blue", "green"], translator.translate(["red blue", "green"], arguments), strict=True
    ):
        for translation in (best, *best.others):
            assert translation.assessment is not None
            attention = check(
                translation.assessment.attention, translation.output_tokens + translation.complete
            )
            assert attention.source[0] == "<2de>"
            assert attention.source[-1] == "</s>"
            assert "".join(attention.source[1:-1]).replace("▁", " ").strip() == text


def test_attention_of_given_translations(translator: Translator) -> None:
    (scored,) = translator.score(["red"], ["blue green"], options()).future.result(60)
    attention = check(scored.attention, len(scored.tokens))
    assert attention.said == scored.tokens
    assert attention.said[-1] == "</s>"


def test_attention_is_returned_only_on_request(translator: Translator) -> None:
    (translation,) = translator.translate(
        ["red"], OptionArguments(return_token_scores=True, max_tokens=4)
    )
    assert translation.assessment is not None
    assert translation.assessment.attention is None


def test_its_json_has_six_digits(translator: Translator) -> None:
    (scored,) = translator.score(["red"], ["blue"], options()).future.result(60)
    assert scored.attention is not None
    written = json.loads(scored.attention.to_json())
    assert set(written) == {"source", "read", "said", "alignment_heads", "aligns_when_read", *KINDS}
    for kind in KINDS:
        np.testing.assert_allclose(written[kind], scored.attention.weights(kind), atol=1e-6)
    assert max(map(len, str(written["cross"]).strip("[]").split(", "))) <= len("0.123456]]]]")


def test_unavailable_attention_is_refused(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidRequest, match="return_attention: not with split_sentences"):
        translator.translate(["red. blue."], options(split_sentences=True))
    monkeypatch.setattr(assessment, "MOST_WEIGHTS", 100)
    with pytest.raises(
        InvalidRequest, match=r"return_attention: .* weights, more than 100: send fewer or"
    ):
        translator.score(["red"], ["blue"], options())
    before = translator.counts
    with pytest.raises(InvalidRequest, match=r"\d or more weights, more than 100: send fewer or"):
        translator.submit(["red"], options())
    assert translator.counts == before


def test_an_older_bundle_reports_what_it_lacks(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = {n: g for n, g in translator.manifest.graphs.items() if n != "attention"}
    old = replace(translator.manifest, graphs=graphs)
    monkeypatch.setattr(translator._assessor, "_manifest", old)
    with pytest.raises(InvalidRequest, match="dragoman export attention BUNDLE"):
        translator.translate(["red"], options())
    with pytest.raises(InvalidRequest, match="the bundle has no graph 'attention'"):
        translator.score(["red"], ["blue"], options())
