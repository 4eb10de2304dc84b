"""From text to a served translation, on a task small enough to train on in a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli import main
from tests.servers import serving
from tests.toy import reverse_pairs, write_pairs

SETTINGS = (
    "vocabulary.size=320",
    "model.preset=tiny",
    "model.norm=pre",
    "model.dropout=0.0",
    "training.optimizer=muon",
    "training.steps=250",
    "training.batch_tokens=1000",
    "training.warmup_steps=30",
    "training.cooldown_steps=120",
    "training.peak_learning_rate=4e-3",
    "training.label_smoothing=0.0",
    "training.precision=fp32",
    "training.checkpoint_every_steps=50",
    "training.average_last=2",
)


def run(*words: str | Path) -> None:
    assert main([str(word) for word in words]) == 0


def reversed_links(words: int) -> set[str]:
    """Hard alignment of a text with itself in reverse order."""
    return {f"{index}-{words - 1 - index}" for index in range(words)}


@pytest.mark.thorough
@pytest.mark.parametrize("decoder", ["attention", "ssru"])
def test_the_reverse_task_is_trained_and_served(
    decoder: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_pairs(tmp_path / "text", reverse_pairs(5000, seed=1), ("xx", "yy"))
    held_out = reverse_pairs(200, seed=2)
    write_pairs(tmp_path / "held", held_out, ("xx", "yy"))
    checkpoint, bundle = tmp_path / "run" / "final", tmp_path / "bundle"
    repository = tmp_path / "repository"
    options = [f"--set={setting}" for setting in (*SETTINGS, f"model.decoder={decoder}")]
    text = (tmp_path / "text.xx", tmp_path / "text.yy")
    run("train", "--text", *text, "--out", tmp_path / "run", *options)
    held = ("--alignment-text", "held", "--data-dir", tmp_path)
    run("export", "onnx", checkpoint, "--out", bundle, *held)
    run("verify", bundle, "--test", "held", "--data-dir", tmp_path)
    printed = capfd.readouterr().out
    assert "FAIL" not in printed
    assert "200 of 200 sentences equal" in printed
    run("publish", bundle, "--to", repository)
    with serving(repository) as served:
        for client in (served.grpc, served.http):
            translations = client.translate([source for source, _ in held_out])
            right = sum(
                translation.text == target
                for translation, (_, target) in zip(translations, held_out, strict=True)
            )
            assert right / len(held_out) > 0.99
            sources = [source for source, _ in held_out]
            aligned = client.translate(sources, return_alignments="hard")
            links = [set(str(translation.alignments).split()) for translation in aligned]
            expected = [reversed_links(len(source.split())) for source in sources]
            correct = sum(len(of & right) for of, right in zip(links, expected, strict=True))
            # Which weights a run of this length reaches depends on the CPU.
            assert correct / sum(map(len, expected)) > 0.6
