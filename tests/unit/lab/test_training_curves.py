"""The curves of training runs."""

from __future__ import annotations

from lab.training.training_curves import curves, draw, read_curves
from tests.conftest import REPOSITORY
from tests.drawings import texts_of

RUNS = REPOSITORY / "docs" / "training-runs"


def row(kind: str, millions: float, loss: float, **more: object) -> dict[str, object]:
    return {"kind": kind, "tgt_tokens": int(millions * 1e6), "loss": loss, **more}


def test_each_metric_has_its_curve() -> None:
    drawn = curves(
        [
            row("train", 1, 5.0),
            row("valid", 2, 4.0, corpora={"a": 3.5, "b": 4.5}, bleu=10.0),
            row("train", 3, 3.0),
        ]
    )
    assert {name: (curve.tokens, curve.values) for name, curve in drawn.items()} == {
        "training": ([1.0, 3.0], [5.0, 3.0]),
        "a": ([2.0], [3.5]),
        "b": ([2.0], [4.5]),
        "BLEU": ([2.0], [10.0]),
    }
    assert "validation" in curves([row("valid", 1, 2.0)])


def test_every_documented_run_has_its_picture() -> None:
    page = (RUNS / "README.md").read_text(encoding="utf-8")
    logs = sorted(RUNS.glob("*.jsonl"))
    assert logs
    for log in logs:
        assert f"({log.name})" in page
        assert f"({log.stem}.svg)" in page
        # Fonts and the last digits may differ; the content of the chart may not.
        assert texts_of(draw(read_curves(log))) == texts_of(log.with_suffix(".svg"))
