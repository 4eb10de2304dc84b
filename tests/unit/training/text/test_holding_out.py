from __future__ import annotations

from pathlib import Path

import pytest
from dragoman_training.text import holding_out
from dragoman_training.text.holding_out import hold_out, number_held_out
from dragoman_training.text.parallel_text import TextFiles, read_pairs

from tests.toy import write_pairs

BOTH = ("en", "de")


def numbered(number: int) -> list[tuple[str, str]]:
    return [(f"Sentence {n}.", f"Satz {n}.") for n in range(number)]


def divide(folder: Path, pairs: list[tuple[str, str]]) -> int:
    write_pairs(folder / "my", pairs, BOTH)
    text = TextFiles(folder / "my", BOTH)
    hold_out(text, folder / "run" / "text")
    return number_held_out(text)


def test_every_pair_is_in_one_of_the_two(tmp_path: Path) -> None:
    pairs = numbered(1300)
    held_out = divide(tmp_path, [*pairs, ("", "leer")])
    train, valid = (read_pairs(tmp_path / "run/text" / name, BOTH) for name in ("train", "valid"))
    assert len(valid) == held_out
    assert 40 < held_out < 90  # about a twentieth
    assert sorted(train + valid) == sorted(pairs)


def test_the_same_pairs_are_held_out_again_if_text_is_added(tmp_path: Path) -> None:
    divide(tmp_path, numbered(1300))
    before = read_pairs(tmp_path / "run/text/valid", BOTH)
    divide(tmp_path, [*numbered(1300)[::-1], ("One more.", "Noch einer.")])
    assert set(before) <= set(read_pairs(tmp_path / "run/text/valid", BOTH))


def test_pairs_of_one_sentence_stay_together(tmp_path: Path) -> None:
    pairs = numbered(300)
    divide(tmp_path, pairs + [(f" {src.upper()}", f"Oder: {tgt}") for src, tgt in pairs])
    train, valid = (
        {pair[0].strip().casefold() for pair in read_pairs(tmp_path / "run/text" / name, BOTH)}
        for name in ("train", "valid")
    )
    assert valid
    assert not train & valid


@pytest.mark.parametrize("pairs", [numbered(199), [("Yes.", "Ja.")] * 500])
def test_with_too_few_sentences_none_are_held_out(
    tmp_path: Path, pairs: list[tuple[str, str]]
) -> None:
    write_pairs(tmp_path / "my", pairs, BOTH)
    assert number_held_out(TextFiles(tmp_path / "my", BOTH)) == 0


def test_large_text_keeps_its_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding_out, "_MOST_PAIRS", 10)
    assert 1 <= divide(tmp_path, numbered(2000)) <= 25
