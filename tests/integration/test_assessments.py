"""The model's assessments of its translations, served over both protocols."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Literal

import pytest
from dragoman_client import AsyncTranslator, SoftAlignment
from dragoman_client import Translator as Client
from dragoman_options.arguments import OptionArguments
from dragoman_serving.translation.translator import Translator

from tests.conftest import CommandLine
from tests.integration.test_served_translations import BUNDLE
from tests.servers import Served

TEXTS = ["I would like a cup of coffee.", "Good morning, Tom."]
Protocol = Literal["grpc", "http"]


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("width", [1, 4])
def test_assessments_equal_the_engines(shipped: Served, protocol: Protocol, width: int) -> None:
    client: Client = getattr(shipped, protocol)
    options = OptionArguments(
        beam_width=width,
        return_token_scores=True,
        return_confidence=True,
        return_alignments="hard",
    )
    translations = client.translate(TEXTS, **options)
    translator = Translator(BUNDLE)
    expected = translator.translate(TEXTS, options)
    translator.close()
    for translation, right in zip(translations, expected, strict=True):
        assert translation.text == right.text
        assert translation.token_scores is not None
        assert right.assessment is not None
        assert translation.token_scores.tokens == right.assessment.tokens
        assert translation.token_scores.tokens[-1] == "</s>"
        assert translation.token_scores.log_probs == pytest.approx(
            right.assessment.log_probs, abs=1e-3
        )
        assert translation.confidence == pytest.approx(right.confidence, abs=1e-3)
        assert str(translation.alignments) == str(right.assessment.alignment)
        assert translation.score is None


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_given_translations_are_scored(shipped: Served, protocol: Protocol) -> None:
    client: Client = getattr(shipped, protocol)
    own = client.translate(TEXTS, return_token_scores=True, return_alignments="soft")
    targets = [translation.text for translation in own]
    scored = client.score(TEXTS, targets, return_token_scores=True, return_alignments="soft")
    for scores, right in zip(scored, own, strict=True):
        assert scores.token_scores is not None
        assert right.token_scores is not None
        assert scores.token_scores.tokens == right.token_scores.tokens
        log_probs = scores.token_scores.log_probs
        assert log_probs == pytest.approx(right.token_scores.log_probs, abs=1e-4)
        assert scores.confidence == pytest.approx(sum(log_probs) / len(log_probs), abs=1e-4)
        assert scores.perplexity == pytest.approx(math.exp(-scores.confidence))
        assert isinstance(scores.alignments, SoftAlignment)
        assert isinstance(right.alignments, SoftAlignment)
        assert scores.alignments.target == right.alignments.target
    pair = ("Gute Nacht.", "Good night.")
    good = client.score(*pair, target_language="en")
    bad = client.score("Gute Nacht.", "I have an apple.", source_language="auto")
    assert bad.score < good.score < 0
    assert good.token_scores is None
    assert client.score([], []) == []
    plain = client.score(*pair, target_language="en", length_penalty=0.0, return_token_scores=True)
    assert plain.token_scores is not None
    assert plain.score == pytest.approx(sum(plain.token_scores.log_probs), rel=1e-3)
    async with AsyncTranslator(getattr(shipped.server, f"{protocol}_url")) as translator:
        assert await translator.score(*pair, target_language="en") == good


def test_the_command_shows_the_assessments(shipped: Served, cli: CommandLine) -> None:
    words = ["translate", "--url", shipped.server.grpc_url, "Good morning, Tom."]
    options = ["--return-token-scores", "--return-confidence", "--return-scores", "--beam-width=1"]
    for form, kind in (("hard", str), ("soft", dict)):
        row = json.loads(cli.prints(*words, "--json", *options, "--return-alignments", form))
        assert row["token_scores"]["tokens"][-1] == "</s>"
        assert row["score"] < row["confidence"] < 0
        assert isinstance(row["alignments"], kind)
    assert "--return-confidence: only --json and jsonl show it" in cli.refuses(
        *words, "--return-confidence"
    )


def test_the_command_scores_by_bundle_and_by_server(
    shipped: Served, tmp_path: Path, cli: CommandLine
) -> None:
    (tmp_path / "a.en").write_text("Good night.\nGood morning, Tom.\n")
    (tmp_path / "a.de").write_text("Gute Nacht.\nGuten Morgen, Tom.\n")
    (tmp_path / "a.tsv").write_text("Good night.\tGute Nacht.\nTea.\t\nTea.\t" + "Tee. " * 400)
    files = ["--source", str(tmp_path / "a.en"), "--target", str(tmp_path / "a.de")]
    printed = []
    for where in ([str(BUNDLE)], ["--url", shipped.server.http_url]):
        printed_lines = cli.prints("score", *where, *files, "--return-alignments=hard").splitlines()
        rows = [line.split("\t") for line in printed_lines]
        assert rows[0][3] == "0-0 1-1"
        assert all(float(row[2]) == pytest.approx(math.exp(-float(row[1])), 1e-2) for row in rows)
        scores = cli.rows("score", *where, *files, "--json", "--batch-size", "1")
        assert scores[1]["token_scores"]["tokens"][-1] == "</s>"
        assert [f"{score['score']:.2f}" for score in scores] == [f"{float(r[0]):.2f}" for r in rows]
        printed.append(rows)
        assert "line 3: target has " in cli.refuses("score", *where, "--tsv", tmp_path / "a.tsv")
        assert "target_language 'xx' is unknown" in cli.refuses(
            "score", *where, *files, "--target-language", "xx"
        )
    assert [row[3] for row in printed[0]] == [row[3] for row in printed[1]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give --source and --target, or --tsv"),
        (["--source", "a"], "give --source and --target, or --tsv"),
        (["--tsv", "a", "--source", "a", "--target", "a"], "give --source and --target, or"),
        (["--tsv", "nowhere"], "nowhere: cannot be read"),
        (["--tsv", "one"], "line 2 has 1 columns: give 2"),
        (["--tsv", "latin"], "line 1 is not UTF-8"),
        (["--source", "one", "--target", "good"], "one has 2 lines, good 1: give a translation"),
        (["--tsv", "one", "--batch-size", "0"], "--batch-size 0: give at least 1"),
        (["--tsv", "good", "--url", "ftp://x"], "ftp://x"),
    ],
)
def test_input_that_the_command_cannot_read_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: CommandLine,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one").write_text("a\tb\nc\n")
    Path("good").write_text("a\tb\n")
    Path("latin").write_bytes(b"\xe4\tb\n")
    printed = cli.refuses("score", *words)
    assert message in printed
    assert len(printed.splitlines()) == 1
