"""The shipped model through Triton: its translations, over both protocols."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from dragoman_client import AsyncTranslator, InvalidRequest
from dragoman_client import Translator as Client
from dragoman_options.arguments import OptionArguments
from dragoman_serving.translation.translator import Translator
from dragoman_training.oracle.search import beam_search, greedy_search
from dragoman_training.run import checkpoint
from dragoman_training.text.parallel_text import read_pairs

from dragoman.commands.demo import SENTENCES
from dragoman.kernel.manifest import Manifest
from tests.conftest import CORPORA, REPOSITORY
from tests.exchanges import send
from tests.servers import Served

BUNDLE = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"


def sentences(number: int, language: str = "en") -> list[str]:
    """From the test sets if the corpora are available, else from the demonstration."""
    other = "fr" if language == "fr" else "de"
    prefix = CORPORA / f"tatoeba-en-{other}" / "test"
    if prefix.parent.is_dir():
        pairs = read_pairs(prefix, ("en", other))[:number]
        return [pair[language != "en"] for pair in pairs]
    return list(SENTENCES[language])


def test_translations_are_in_the_requested_language(shipped: Served) -> None:
    assert shipped.grpc.translate("I'm hungry.").text == "Ich habe Hunger."
    assert shipped.grpc.translate("I'm hungry.", target_language="fr").text == "J'ai faim."
    for text, language in (("Tom schläft.", "de"), ("Tom dort.", "fr")):
        assert "Tom" in shipped.grpc.translate(text, source_language=language).text


def test_the_server_lists_its_languages(shipped: Served) -> None:
    assert shipped.grpc.languages() == shipped.http.languages() == ("en", "de", "fr")
    assert shipped.grpc.health()
    assert shipped.http.health()


def test_the_source_language_is_detected(shipped: Served) -> None:
    french = "Je ne sais pas quoi dire à ma mère, qui est malade depuis hier."
    texts = ["I would like a cup of coffee.", "Ich habe heute keine Zeit.", french]
    for client in (shipped.grpc, shipped.http):
        translations = client.translate(texts, source_language="auto")
        assert [translation.detected_language for translation in translations] == ["en", "de", "fr"]
        assert all(
            0.9 < (translation.detected_probability or 0) <= 1 for translation in translations
        )
        assert client.translate(texts[0]).detected_language is None
        mixed = client.translate(["", texts[1]], source_language="auto")
        assert [translation.detected_language for translation in mixed] == [None, "de"]
        *_, last = client.translate_stream(texts[1], source_language="auto")
        assert last.detected_language == "de"
    translated = [translation.text for translation in translations]
    assert translated[0] == shipped.grpc.translate(texts[0], target_language="de").text
    for text, translation in zip(texts[1:], translated[1:], strict=True):
        assert translation == shipped.grpc.translate(text, target_language="en").text
    *_, last = shipped.http.translate_stream(texts[1], source_language="auto")
    assert last.text == translated[1]
    italian = "Non so cosa dire a mia madre, che è malata da ieri."
    with pytest.raises(InvalidRequest, match="text 1 seems to be in 'it'"):
        shipped.grpc.translate([texts[0], italian], source_language="auto")
    with pytest.raises(InvalidRequest, match="target_language 'auto' is unknown"):
        shipped.grpc.translate(texts[0], target_language="auto")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_other_translations_with_scores(shipped: Served, protocol: Literal["grpc", "http"]) -> None:
    client: Client = getattr(shipped, protocol)
    texts = ["I'm hungry.", "Good morning, my friend."]
    translations = client.translate(texts, num_return_sequences=3, return_scores=True)
    plain = client.translate(texts)
    assert [translation.text for translation in translations] == [
        translation.text for translation in plain
    ]
    for translation in translations:
        every = [translation, *translation.alternatives]
        assert len({other.text for other in every}) == 3
        scores = [other.score for other in every if other.score is not None]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)
    assert [translation.score for translation in plain] == [None, None]
    with pytest.raises(InvalidRequest, match="num_return_sequences is 9: give 1 to 4"):
        client.translate("a", num_return_sequences=9)


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
async def test_compressed_requests_get_the_same_answers(
    shipped: Served, compression: Literal["gzip", "deflate"]
) -> None:
    texts = ["I would like a cup of coffee."] * 20
    expected = shipped.grpc.translate(texts)
    url = shipped.server.grpc_url
    with Client(url, compression=compression) as client:
        assert client.translate(texts) == expected
        assert list(client.translate_stream(texts[0]))[-1] == expected[0]
    async with AsyncTranslator(url, compression=compression) as translator:
        assert await translator.translate(texts) == expected


@pytest.mark.parametrize("width", [pytest.param(1, marks=pytest.mark.thorough), 4])
def test_served_tokens_equal_the_oracles(shipped_fp32: Served, width: int) -> None:
    loaded = checkpoint.load(BUNDLE)
    manifest = Manifest.load(BUNDLE)
    limits = manifest.limits
    for source, target in manifest.directions:
        texts = sentences(5, source)
        src = [loaded.tokenizer.encode_source(text, target) for text in texts]
        most = [limits.target_tokens(len(ids)) for ids in src]
        if width == 1:
            right = greedy_search(loaded.model, src, most)
        else:
            right = beam_search(loaded.model, src, most, beam_width=4, alpha=limits.length_penalty)
        expected = [(loaded.tokenizer.decode(h.ids), len(h.ids)) for h in right]
        for client in (shipped_fp32.grpc, shipped_fp32.http):
            translations = client.translate(
                texts,
                source_language=source,
                target_language=target,
                beam_width=width,
                split_sentences=False,
                repair=False,
            )
            assert [(t.text, t.output_tokens) for t in translations] == expected


@pytest.mark.parametrize("width", [1, 4])
def test_served_tokens_equal_the_engines(shipped: Served, width: int) -> None:
    """Uses this machine's default precision, and sends all sentences in one request."""
    texts = sentences(60)
    translator = Translator(BUNDLE)
    expected = [
        translator.translate([text], OptionArguments(beam_width=width))[0].text for text in texts
    ]
    translator.close()
    for client in (shipped.grpc, shipped.http):
        translations = client.translate(texts, beam_width=width)
        assert [translation.text for translation in translations] == expected


def test_generate_answers_a_text_and_a_list(shipped: Served) -> None:
    status, single = shipped.generate({"text_input": "I'm hungry."})
    assert (status, single["text_output"]) == (200, "Ich habe Hunger.")
    status, several = shipped.generate(
        {"text_input": ["I'm hungry.", "Good morning."], "target_language": "de"}
    )
    assert status == 200
    assert several["text_output"][0] == single["text_output"]
    assert several["finish_reason"] == ["stop", "stop"]


def test_options_work_as_request_parameters_too(shipped: Served) -> None:
    address = shipped.server.grpc_url.removeprefix("grpc://")
    with triton_grpc.InferenceServerClient(address) as client:
        text = triton_grpc.InferInput("text_input", [1, 1], "BYTES")
        text.set_data_from_numpy(np.array([[b"Ich habe Hunger."]], dtype=np.object_))
        answer = client.infer("translate", [text], parameters={"target_language": "en"})
        assert answer.as_numpy("text_output").item().decode() == "I'm hungry."


def test_metrics_count_the_requests(shipped: Served) -> None:
    shipped.grpc.translate("Good morning.")
    metrics = send(f"http://127.0.0.1:{shipped.server.ports.metrics}/metrics").body.decode()
    assert 'nv_inference_request_success{model="translate"' in metrics
