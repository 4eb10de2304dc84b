"""The measurements of heads, and the figures of docs/attention.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from dragoman_export.bundle import export_bundle
from dragoman_training.marian.importing import import_marian
from dragoman_training.marian.languages import Languages

from lab.attention import figures, heads
from lab.attention.figures import FIGURES
from lab.attention.head_probes import Case, Probe, probes
from lab.attention.heads import (
    FINDING_COLUMNS,
    Floats,
    Looker,
    cross_habits,
    decoder_habits,
    encoder_habits,
    entropy,
    examine,
    halves,
    weigh,
)
from lab.measurement import SHIPPED
from tests.conftest import REPOSITORY
from tests.drawings import texts_of
from tests.marian_models import MarianModel, write_marian


@pytest.fixture(scope="module")
def looker() -> Looker:
    return Looker(REPOSITORY / SHIPPED)


def heads_that_look(*offsets: int, size: int) -> np.ndarray:  # type: ignore[type-arg]
    """One layer with a head for each offset: each query attends at that distance, or to the
    first."""
    weights = np.zeros((1, len(offsets), size, size))
    for head, offset in enumerate(offsets):
        for query in range(size):
            key = query + offset
            weights[0, head, query, key if 0 <= key < size else 0] = 1.0
    return weights


def test_encoder_heads_are_recognized_by_their_attention() -> None:
    habits = encoder_habits(heads_that_look(-1, 0, 1, 3, 6, size=12))
    names = ("token before", "itself", "token after", "2 to 4 away", "5 or more")
    for head, name in enumerate(names):
        largest = max(names, key=lambda habit, head=head: habits[habit][0, head])  # type: ignore[misc]
        assert largest == name
    assert habits["token before"][0, 0] == pytest.approx(1.0)
    assert habits["itself"][0, 1] == pytest.approx(1.0)
    assert (habits["bits"] == 0).all()
    parts = sum(habits[name] for name in names)
    np.testing.assert_allclose(parts, 1.0)


def test_decoder_steps_are_identified_by_the_tokens_read() -> None:
    habits = decoder_habits(heads_that_look(0, -1, -9, size=8))
    assert habits["token just read"][0].tolist() == [1, 0, 0]
    # In the second step the token before is the start symbol.
    assert habits["token before"][0].tolist() == pytest.approx([0, 1, 1 / 7])
    assert habits["start"][0].tolist() == pytest.approx([0, 1 / 7, 1])


def test_cross_attention_and_entropy() -> None:
    weights = np.array([[[[0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0]]]])
    habits = cross_habits(weights)
    assert habits["tag"][0, 0] == 0.5
    assert habits["one token"][0, 0] == 0.25
    assert habits["end"][0, 0] == 0.0  # the end symbol's own step is excluded
    assert habits["bits"][0, 0] == pytest.approx(1.5)
    assert entropy(np.full(8, 1 / 8)) == pytest.approx(3.0)


def test_the_words_of_every_probe_are_found(looker: Looker) -> None:
    for probe in probes():
        for case in (*probe.cases, *probe.controls):
            places = [
                looker.tokens(case.text, case.span(word))
                for word in (case.looks, case.wanted, case.other)
            ]
            assert all(places)
            flat = [place for row in places for place in row]
            assert len(set(flat)) == len(flat), case
        assert len(probe.controls) in (0, len(probe.cases))
        if probe.twins:
            for first, second in zip(probe.cases[::2], probe.cases[1::2], strict=True):
                assert (first.wanted, first.other) == (second.other, second.wanted)


def test_a_positional_head_is_right_in_one_twin(looker: Looker) -> None:
    text = "The dog saw the cat because it was {}."
    twins = [
        Case(text.format(word), "de", "it", *nouns)
        for word in ("tired", "quiet", "old", "young")
        for nouns in (("dog", "cat"), ("cat", "dog"))
    ]
    finding = examine(looker, Probe("made up", tuple(twins), twins=True))
    assert finding.cases == 4
    assert finding.right == 0.5  # the texts of twins are the same here
    assert finding.row[4] == "50%"


def judged_weights(looker: Looker, cases: Sequence[Case], probe: Probe) -> Floats:
    """Mean attention to the wanted word and to the other, [2, L, H], on the evaluation half."""
    _, judged = halves(len(cases), probe.twins)
    weights: Floats = np.mean([weigh(looker, cases[index]) for index in judged], axis=0)
    return weights


def test_the_shipped_model_has_the_heads_that_the_page_names(looker: Looker) -> None:
    """Those that are not in the page's table, which another test compares."""
    named = {probe.name: probe for probe in probes()}
    make = named['"make" and the adjective after its object']
    cases, controls = (
        judged_weights(looker, some, make)[0] for some in (make.cases, make.controls)
    )
    for head, weight, control in (((5, 1), 0.55, 0.00), ((1, 0), 0.53, 0.01), ((4, 1), 0.44, 0.02)):
        assert (cases[head], controls[head]) == pytest.approx((weight, control), abs=0.011)
    it = named['"it" and its noun, by sense']
    noun, other = judged_weights(looker, it.cases, it)
    assert (noun[5, 2], other[5, 2]) == pytest.approx((0.10, 0.10), abs=0.011)


@pytest.mark.thorough
def test_the_pictures_can_be_reproduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert figures.main(["--out", str(tmp_path)]) == 0
    page = (REPOSITORY / "docs" / "attention.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\(images/([\w.-]+)\)", page))
    assert shown == set(FIGURES) == {path.name for path in tmp_path.iterdir()}
    for name in FIGURES:
        texts = texts_of(tmp_path / name)
        # Fonts and the last digits may differ; the content of the figure may not.
        assert texts == texts_of(REPOSITORY / "docs" / "images" / name), name
        assert texts


def test_the_page_quotes_the_current_code() -> None:
    page = (REPOSITORY / "docs" / "attention.md").read_text(encoding="utf-8")
    quoted = [
        code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if code[0] == " "
    ]
    code = "".join(
        (REPOSITORY / name).read_text(encoding="utf-8")
        for name in (
            "training/dragoman_training/network/transformer.py",
            "dragoman/kernel/positions.py",
        )
    )
    assert len(quoted) == 5
    for quote in quoted:
        assert quote in code, quote
    for link in re.findall(r"\]\(\.\./([\w/.]+)\)", page):
        assert (REPOSITORY / link).is_file(), link


def test_the_pages_table_equals_the_measurements(looker: Looker) -> None:
    page = (REPOSITORY / "docs" / "attention.md").read_text(encoding="utf-8")
    table = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in page.splitlines()
        if line.startswith("|")
    ]
    assert table[0] == FINDING_COLUMNS
    for row, probe in zip(table[2:], probes(), strict=True):
        measured = tuple(examine(looker, probe).row)
        assert row[:5] == measured[:5]
        # The last digit may differ on another machine.
        for shown, actual in zip(row[5:], measured[5:], strict=True):
            assert float(shown or 0) == pytest.approx(float(actual or 0), abs=0.011)


def imported_bundle(folder: Path, tags: tuple[str, ...]) -> Path:
    """A bundle with separate vocabularies for the two sides."""
    alone = {"share_encoder_decoder_embeddings": False}
    write_marian(folder / "model", MarianModel(separate_lists=True, tags=tags, settings=alone))
    languages = Languages(("en",), () if tags else (("de", None),))
    import_marian(folder / "model", folder / "checkpoint", languages)
    export_bundle(folder / "checkpoint", folder / "bundle")
    return folder / "bundle"


def test_a_translation_is_tokenized_with_its_own_vocabulary(tmp_path: Path) -> None:
    looker = Looker(imported_bundle(tmp_path, ("deu", "fra")))
    text, target = "Tom is here.", "Das schöne Haus ist für dich."
    vocabulary = looker.tokenizer.target
    assert len(vocabulary.encode(target)) != len(looker.tokenizer.encode(target))
    encoder, decoder, cross = looker.look(text, "de", target)
    steps, tokens = len(vocabulary.encode(target)) + 1, len(looker.tokenizer.encode(text)) + 2
    assert encoder.shape[2:] == (tokens, tokens)
    assert decoder.shape[2:] == (steps, steps)
    assert cross.shape[2:] == (steps, tokens)


def test_bundles_without_tags_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = imported_bundle(tmp_path, ())
    assert heads.main(["--data-dir", "none", "--bundle", str(bundle)]) == 2
    assert f"{bundle}: has no language tags" in capsys.readouterr().err
