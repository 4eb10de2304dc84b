"""An imported model, served over both protocols in fp32, compared with `transformers`."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from dragoman.cli import main
from dragoman.kernel.manifest import AlignmentHeads, Manifest
from tests.marian_models import MarianModel, sentences, write_marian
from tests.servers import serving

MOST_TOKENS = 30


def run(*words: str | Path) -> None:
    assert main([str(word) for word in words]) == 0


def test_an_imported_model_is_served(tmp_path: Path) -> None:
    from transformers import MarianMTModel, MarianTokenizer

    folder, made, bundle = tmp_path / "opus-mt-en-mul", tmp_path / "checkpoint", tmp_path / "bundle"
    repository = tmp_path / "repository"
    write_marian(folder, MarianModel(tags=("deu", "fra")))
    run("import-marian", folder, "--out", made)
    run("export", "onnx", made, "--out", bundle)
    heads = AlignmentHeads(((1, 0), (2, 3)), True, "agreement", 0.5, 100, "none")
    dataclasses.replace(Manifest.load(bundle), alignment=heads).write(bundle)
    run("publish", bundle, "--to", repository)
    config = repository / "translate" / "config.pbtxt"
    precision = 'key: "precision" value: { string_value: "%s" }'
    config.write_text(config.read_text().replace(precision % "auto", precision % "fp32"))

    theirs, tokenizer = (
        MarianMTModel.from_pretrained(folder).eval(),
        MarianTokenizer.from_pretrained(folder),
    )
    texts = sentences(2000)[0][-6:]
    right = {}
    for language, tag in (("de", ">>deu<<"), ("fr", ">>fra<<")):
        batch = tokenizer([f"{tag} {text}" for text in texts], return_tensors="pt", padding=True)
        ids = theirs.generate(
            **batch,
            num_beams=4,
            length_penalty=0.0,
            early_stopping=True,
            max_new_tokens=MOST_TOKENS,
        )
        # These random models may generate a tag, which is not text here.
        decoded = tokenizer.batch_decode(ids, skip_special_tokens=True)
        said = [re.sub(r">>\w+<<", "", text) for text in decoded]
        # A text without a translation stays.
        right[language] = [line or text for line, text in zip(said, texts, strict=True)]
    assert right["de"] != right["fr"]

    plain: dict[str, Any] = {"max_tokens": MOST_TOKENS, "length_penalty": 0.0}
    with serving(repository) as served:
        for client in (served.grpc, served.http):
            for language, expected in right.items():
                translations = client.translate(
                    texts, target_language=language, repair=False, **plain
                )
                assert [translation.text for translation in translations] == expected
                *_, last = client.translate_stream(texts[0], target_language=language, **plain)
                assert last.text == expected[0]
            begun = client.translate(texts, prefix="nicht", **plain)
            assert all(translation.text.startswith("nicht") for translation in begun)
            word = texts[0].split()[0]
            held = client.translate(texts[0], glossary={word: "nicht"}, max_tokens=60)
            assert "nicht" in held.text
            translation = client.translate(
                texts[0], return_scores=True, return_alignments="hard", **plain
            )
            assert translation.score is not None
            assert translation.alignments
