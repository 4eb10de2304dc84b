"""The figures of the shipped model in the documentation are those in its manifest."""

from __future__ import annotations

from dragoman.kernel.manifest import Manifest
from lab.quality.model_card import DIRECTIONS, of_direction, quality
from tests.conftest import REPOSITORY

MEASURED = Manifest.load(REPOSITORY / "model_repository/translate/1/bundle").measured
README_ROWS = {
    "everyday sentences (Tatoeba)": "tatoeba-en-{}/test",
    "encyclopaedia and travel (FLORES devtest)": "flores200/devtest",
    "news (newstest2014)": "newstest/newstest2014.en-{}",
}


def test_the_model_card_has_the_recorded_quality() -> None:
    rows = list(quality(MEASURED))
    assert len(rows) > len(DIRECTIONS)
    assert "\n".join(rows) in (REPOSITORY / "docs/model-card.md").read_text("utf-8")


def test_the_readme_has_the_recorded_quality() -> None:
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    for title, test in README_ROWS.items():
        figures = [
            MEASURED[f"BLEU {of_direction(test, src, tgt)} {src}-{tgt}, beam 4, int8"]
            for src, tgt in DIRECTIONS
        ]
        assert f"| {title} | {' | '.join(f'{figure:.1f}' for figure in figures)} |" in readme
