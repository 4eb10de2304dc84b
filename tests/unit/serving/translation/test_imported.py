"""Requests to imported models: two vocabularies, with tags or without, and every kind of option."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from dragoman_export.bundle import export_bundle
from dragoman_options.arguments import OptionArguments
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator
from dragoman_training.marian.importing import import_marian
from dragoman_training.network.attention_weights import look
from dragoman_training.oracle.search import Translator as Oracle
from dragoman_training.run import checkpoint, checkpoint_folder

from dragoman.cli import main
from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import AlignmentHeads, Manifest
from dragoman.kernel.text import BEGIN_ID, END_ID, UNKNOWN_ID
from tests.marian_models import MarianModel, sentences, write_marian
from tests.toy import write_pairs

MODELS = {
    "two vocabularies": MarianModel(
        separate_lists=True, settings={"share_encoder_decoder_embeddings": False}
    ),
    "tags": MarianModel(tags=("deu", "fra")),
}
MOST_TOKENS = 30


@dataclasses.dataclass(frozen=True)
class Served:
    translator: Translator
    oracle: Oracle
    texts: list[str]
    bundle: Path

    def translate(self, **options: Any) -> list[Translation]:
        options = {"max_tokens": MOST_TOKENS, **options}
        # A model with random weights repeats itself.
        return self.translator.translate(self.texts, {"repair": False, **options})


@pytest.fixture(scope="module", params=MODELS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    parent = tmp_path_factory.mktemp("imported")
    folder, made, bundle = parent / "model", parent / "checkpoint", parent / "bundle"
    write_marian(folder, MODELS[request.param])
    import_marian(folder, made)
    manifest = export_bundle(made, bundle)
    heads = AlignmentHeads(((1, 0), (2, 3)), True, "agreement", 0.5, 100, "none")
    dataclasses.replace(manifest, alignment=heads).write(bundle)
    loaded = checkpoint.load(made)
    limits = dataclasses.replace(manifest.limits, max_target_tokens=MOST_TOKENS, target_ratio=1000)
    oracle = Oracle(loaded.model, loaded.tokenizer, limits)
    translator = Translator(bundle, EngineSettings(precision="fp32"))
    yield Served(translator, oracle, sentences(2000)[0][-8:], bundle)
    translator.close()


def test_translations_equal_the_oracles(served: Served) -> None:
    for target in served.oracle.tokenizer.tags * ["fr"] or ["de"]:
        translations = served.translate(target_language=target)
        right = served.oracle.translate(served.texts, target)
        decode = served.oracle.tokenizer.target.decode
        texts = [decode(hypothesis.ids) for hypothesis in right]
        kept = [text or src for text, src in zip(texts, served.texts, strict=True)]
        assert [translation.text for translation in translations] == kept
        assert [translation.complete for translation in translations] == [
            translation.complete for translation in right
        ]
        assert len({translation.text for translation in translations}) > 4


def test_attention_equals_the_oracles(served: Served) -> None:
    tokenizer, model = served.oracle.tokenizer, served.oracle.model
    target = "fr" if tokenizer.tags else "de"
    translations = served.translate(target_language=target, return_attention=True)
    hypotheses = served.oracle.translate(served.texts, target)
    for text, translation, hypothesis in zip(served.texts, translations, hypotheses, strict=True):
        assert translation.assessment
        assert translation.assessment.attention
        seen = translation.assessment.attention
        src_ids = tokenizer.encode_source(text, target)
        tgt_ids = [*hypothesis.ids, *([END_ID] if hypothesis.complete else [])]
        assert seen.source == tuple(map(tokenizer.piece, src_ids))
        assert seen.said == tuple(map(tokenizer.target.piece, tgt_ids))
        src = torch.tensor([src_ids])
        read = torch.tensor([[BEGIN_ID, *tgt_ids][: len(tgt_ids)]])
        right = look(model, src, torch.ones_like(src, dtype=torch.bool), read)
        for weights, expected in zip((seen.encoder, seen.decoder, seen.cross), right, strict=True):
            torch.testing.assert_close(torch.tensor(weights), expected[0], rtol=0, atol=1e-4)


def test_directions_are_those_that_were_imported(served: Served) -> None:
    targets = ["de", "fr"] if served.oracle.tokenizer.tags else ["de"]
    assert served.translator.manifest.all_directions == tuple(("en", to) for to in targets)
    right = [translation.text for translation in served.translate()]
    for options in ({"source_language": "en"}, {"target_language": "de"}):
        assert [translation.text for translation in served.translate(**options)] == right
    assert [translation.text for translation in served.translate(source_language="auto")] == right
    if len(targets) > 1:
        assert [translation.text for translation in served.translate(target_language="fr")] != right
    with pytest.raises(InvalidRequest, match="does not translate from 'de'"):
        served.translate(source_language="de")
    with pytest.raises(InvalidRequest, match="target_language 'es' is unknown"):
        served.translate(target_language="es")


def test_constraints_use_the_target_vocabulary(served: Served) -> None:
    term = "nicht"
    tokenizer = served.oracle.tokenizer.target
    assert tokenizer.decode(tokenizer.encode(term)) == term
    for translation in served.translate(prefix=[term]):
        assert translation.text.startswith(term)
    glossary = {text.split()[0].strip(".,!?"): term for text in served.texts}
    for translation in served.translate(glossary=json.dumps(glossary), max_tokens=60):
        assert term in translation.text.casefold()
    with pytest.raises(InvalidRequest, match="prefix: the model's vocabulary cannot write '漢字'"):
        served.translate(prefix=["漢字"])
    for translation in served.translate(glossary=json.dumps(dict.fromkeys(glossary, "漢字"))):
        assert "漢字" in translation.text
    words = " ".join(translation.text for translation in served.translate()).split()
    said = next(word for word in words if tokenizer.decode(tokenizer.encode(word)) == word)
    for translation in served.translate(suppress=[said]):
        assert said not in translation.text.split()


def test_assessments_belong_to_the_right_tokens(served: Served) -> None:
    translations = served.translate(
        return_scores=True, return_token_scores=True, return_alignments="soft", beam_width=4
    )
    tokenizer, model = served.oracle.tokenizer, served.oracle.model
    for text, translation in zip(served.texts, translations, strict=True):
        sentence = translation.assessment
        assert sentence is not None
        tokens = json.loads(str(sentence.token_scores))["tokens"]
        right = served.oracle.translate([text], "de")[0]
        ids = [*right.ids, *([END_ID] if right.complete else [])]
        assert tokens == [tokenizer.target.piece(token) for token in ids]
        src_ids = torch.tensor([tokenizer.encode_source(text, "de")])
        with torch.no_grad():
            prefix = torch.tensor([[BEGIN_ID, *ids[:-1]]])
            logits = model.project(model(src_ids, torch.ones_like(src_ids).bool(), prefix))[0]
        log_probs = logits.log_softmax(-1).gather(-1, torch.tensor(ids)[:, None])[:, 0]
        assert torch.tensor(sentence.log_probs) == pytest.approx(log_probs, abs=1e-4)
        aligned = json.loads(str(sentence.alignment))
        assert aligned["source"] == [piece.text for piece in tokenizer.pieces(text)]
        assert len(aligned["weights"]) == len(right.ids)


def test_other_kinds_of_requests_give_the_same_result(served: Served) -> None:
    text = served.texts[0]
    options = OptionArguments(max_tokens=MOST_TOKENS)
    plain = served.translate()[0].text
    stream = served.translator.stream(text, options, lambda: None)
    assert stream.future.result()[0].text == plain
    assert stream.read() == plain
    (scored,) = served.translator.score([text], ["Das ist gut."], OptionArguments()).future.result()
    tokenizer = served.oracle.tokenizer.target
    assert len(scored.tokens) == len(tokenizer.encode("Das ist gut.")) + 1
    served.translate(coverage_penalty=0.2, num_return_sequences=2)
    kept = served.translator.translate(
        ["www.tom.de is good."], OptionArguments(keep_placeholders=True, max_tokens=60)
    )
    assert "www.tom.de" in kept[0].text
    translations = served.translator.translate(
        [" ".join(served.texts)], OptionArguments(split_sentences=True, max_tokens=MOST_TOKENS)
    )
    assert plain in translations[0].text


def test_heads_are_chosen_by_words_with_the_same_spelling(served: Served, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(served.bundle, tmp_path / "bundle"))
    texts, others = sentences(400)
    write_pairs(tmp_path / "held", list(zip(texts, others, strict=True)), ("en", "de"))
    words = ["align-heads", str(bundle), "--text", "held", "--data-dir", str(tmp_path)]
    assert main(words) == 0
    chosen = Manifest.load(bundle).alignment
    assert chosen is not None
    assert (chosen.criterion, chosen.text) == ("anchors", "held")


def test_a_manifest_has_all_that_serving_needs(served: Served) -> None:
    manifest = served.translator.manifest
    assert manifest.limits.max_source_tokens == manifest.limits.max_target_tokens == 96
    assert manifest.activation == "silu"
    assert manifest.tgt_tokenizer == checkpoint_folder.TGT_TOKENIZER
    assert set(manifest.special_ids.tags) == ({"de", "fr"} if manifest.special_ids.tags else set())
    assert isinstance(manifest, Manifest)


def test_literals_that_the_source_cannot_read_are_kept(served: Served) -> None:
    tokenizer = served.oracle.tokenizer
    assert UNKNOWN_ID in tokenizer.encode("ö") or tokenizer.tags
    (translation,) = served.translator.translate(
        ["Tom www.ö.de and www.ö.com"], {"target_language": "de", "beam_width": 2}
    )
    assert translation.text.count("www.ö.de") == translation.text.count("www.ö.com") == 1
