from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from dragoman_training.config import resolve
from dragoman_training.text.distillation import TOO_LONG, Task, Translated, distil, nearest, tasks
from dragoman_training.text.parallel_text import TextFiles, read_pairs

from dragoman.kernel.errors import UsageError
from tests.conftest import REPOSITORY, CommandLine, files_no_larger_than
from tests.toy import reverse_pairs, write_pairs


class Reverser:
    """Reverses the words; texts of six words are too long for it, those of two are cut."""

    directions = (("en", "de"),)

    def __init__(self, candidates: int = 1, dies_after: int | None = None, name: str = "a") -> None:
        self.candidates, self._dies_after = candidates, dies_after
        self.settings: Mapping[str, object] = {"teacher": name, "beam_width": 4}
        self.asked: list[str] = []

    def reason_against(self, text: str, _target: str) -> str | None:
        return None if len(text.split()) < 6 else TOO_LONG

    def begin(self, texts: Sequence[str], source: str, target: str) -> Translated:
        assert (source, target) == ("en", "de")
        self.asked += texts

        def wait() -> list[tuple[str, ...]]:
            if self._dies_after is not None:
                self._dies_after -= 1
                if self._dies_after < 0:
                    raise KeyboardInterrupt
            return [self._translated(text) for text in texts]

        return wait

    def _translated(self, text: str) -> tuple[str, ...]:
        words = text.split()
        if len(words) == 2:
            return ()
        return ("grey\n grey", " ".join(reversed(words)))[2 - self.candidates :]


def written(folder: Path, pairs: int = 3000) -> Task:
    write_pairs(folder / "train", reverse_pairs(pairs, seed=1), ("en", "de"))
    text = TextFiles(folder / "train", ("en", "de"))
    return Task(text, ("en", "de"), folder / "out" / "train.en-de")


def lines(task: Task) -> tuple[list[str], list[str]]:
    src, tgt = (path.read_text().splitlines() for path in task.files)
    return src, tgt


def test_the_teachers_translations_are_written_beside_their_sources(tmp_path: Path) -> None:
    task, teacher = written(tmp_path), Reverser()
    done: list[int] = []
    counts = distil(task, teacher, done.append)
    sources = dict.fromkeys(pair[0] for pair in reverse_pairs(3000, seed=1))
    taken = [text for text in sources if 2 < len(text.split()) < 6]
    assert lines(task) == (taken, [" ".join(reversed(text.split())) for text in taken])
    lengths = [len(text.split()) for text in sources]
    assert counts == {
        "written": len(taken),
        "translation cut": lengths.count(2),
        "source too long": 3000 - len(teacher.asked) - counts["source repeated"],
        "source repeated": counts["source repeated"],
    }
    assert len(teacher.asked) == len(set(teacher.asked)) == len(taken) + lengths.count(2)
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 3000)


def test_a_killed_teacher_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole, cut = written(tmp_path / "whole"), written(tmp_path / "cut")
    expected = distil(whole, Reverser())
    with pytest.raises(KeyboardInterrupt):
        distil(cut, Reverser(dies_after=3))
    assert sorted(path.name for path in (tmp_path / "cut/out").iterdir()) == [cut.journal.name]
    with cut.journal.open("ab") as file:
        file.write(b'["half a li')
    done: list[int] = []
    second = Reverser()
    assert distil(cut, second, done.append) == expected
    assert done[0] == 3 * 512
    assert lines(cut) == lines(whole)
    assert len(second.asked) < len(lines(whole)[0])
    # Completed work is not done again.
    third = Reverser()
    assert distil(cut, third) == expected
    assert third.asked == []
    # Nor does it matter that it was killed before it could clean up.
    cut.journal.write_text("{}\n")
    assert distil(cut, third) == expected
    assert not cut.journal.exists()


def test_another_teacher_does_not_resume(tmp_path: Path) -> None:
    task = written(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        distil(task, Reverser(dies_after=1))
    with pytest.raises(
        UsageError, match=r"another teacher, 'a' instead of 'b'; name another --out"
    ):
        distil(task, Reverser(name="b"))
    distil(task, Reverser())
    write_pairs(tmp_path / "train", reverse_pairs(10, seed=2), ("en", "de"))
    with pytest.raises(UsageError, match=r"train\.en-de\.json: was started with another text"):
        distil(task, Reverser())


def test_missing_text_is_reported_in_one_line_and_leaves_no_files(tmp_path: Path) -> None:
    task = written(tmp_path, pairs=20)
    (tmp_path / "train.de").rename(tmp_path / "train.xx")
    with pytest.raises(UsageError, match=r"train\.de: no such file"):
        distil(task, Reverser())
    assert not (tmp_path / "out").exists()


def test_a_full_disk_is_reported_in_one_line_and_can_be_resumed(tmp_path: Path) -> None:
    task = written(tmp_path)
    with files_no_larger_than(30_000), pytest.raises(UsageError, match="cannot be written"):
        distil(task, Reverser())
    assert not any(path.exists() for path in task.files)
    (tmp_path / "other").mkdir()
    other = written(tmp_path / "other")
    assert distil(task, Reverser()) == distil(other, Reverser())
    assert lines(task) == lines(other)


def test_an_error_of_the_teacher_is_not_reported_as_a_disk_error(tmp_path: Path) -> None:
    class Unreachable(Reverser):
        def begin(self, _texts: Sequence[str], _source: str, _target: str) -> Translated:
            raise ConnectionError("the teacher is gone")

    with pytest.raises(ConnectionError, match="the teacher is gone"):
        distil(written(tmp_path), Unreachable())


def test_the_translation_closest_to_the_reference_is_chosen(tmp_path: Path) -> None:
    task = written(tmp_path, pairs=200)
    counts = distil(task, Reverser(candidates=2))
    src, tgt = lines(task)
    assert tgt == [" ".join(reversed(text.split())) for text in src]
    assert "source repeated" not in counts, "each has a reference of its own"
    assert nearest(["a b x d", "a b c d", "a b c d e"], "a b c d") == "a b c d"


def test_a_recipes_corpora_are_translated_in_the_teachers_directions(tmp_path: Path) -> None:
    one_way = "{prefix='c',one_way=true,languages=['fr','en']}"
    corpora = f"[{{prefix='x/a'}},{{prefix='b',languages=['de','fr']}},{one_way}]"
    languages = "data.languages=['en','de','fr']"
    config = resolve(None, [languages, f"data.train={corpora}"])
    planned = tasks(config, tmp_path, Path("out"), [("en", "de"), ("fr", "en"), ("fr", "de")])
    assert [str(task.written) for task in planned] == [
        *("out/x/a.en-de", "out/x/a.fr-en", "out/x/a.fr-de"),
        *("out/b.fr-de", "out/c.fr-en"),
    ]
    assert [path.name for path in planned[1].files] == ["a.fr-en.fr", "a.fr-en.en"]
    with pytest.raises(UsageError, match="no corpus is in a direction of the teacher: en-cs"):
        tasks(config, tmp_path, Path("out"), [("en", "cs")])
    twice = resolve(None, [languages, "data.train=['a','a']"])
    with pytest.raises(UsageError, match="'a': is named twice with en-de"):
        tasks(twice, tmp_path, Path("out"), [("en", "de")])
    above = resolve(None, ["data.train=['../a']"])
    with pytest.raises(UsageError, match=r"'\.\./a': leads out of --out"):
        tasks(above, tmp_path, Path("out"), [("en", "de")])
    both = resolve(None, ["data.train=['a','a.en-de']"])
    assert len(tasks(both, tmp_path, tmp_path / "out", [("en", "de")])) == 2
    with pytest.raises(
        UsageError, match=r"'a': its translations .* overwrite the corpus 'a\.en-de'"
    ):
        tasks(both, tmp_path, tmp_path, [("en", "de")])


def test_existing_files_are_replaced_by_force(tmp_path: Path) -> None:
    """The files are text of another origin, text of other settings, or a run in progress."""
    task = written(tmp_path, pairs=10)
    target = task.files[1]
    target.parent.mkdir()
    target.write_text("mine\n")
    counts = distil(task, Reverser(), force=True)
    made = target.read_text()
    assert made != "mine\n"
    task.report.write_text("{}")
    with pytest.raises(UsageError, match="name another --out, or give --force to start over"):
        distil(task, Reverser())
    assert distil(task, Reverser(), force=True) == counts
    assert target.read_text() == made


@pytest.mark.parametrize("name", ["train.en-de.de", "train.en-de.en.gz"])
def test_text_of_another_origin_is_not_overwritten_or_hidden(tmp_path: Path, name: str) -> None:
    task = written(tmp_path, pairs=10)
    there = task.written.with_name(name)
    there.parent.mkdir()
    there.write_text("mine\n")
    with pytest.raises(UsageError, match=r"exists already; name another --out|exists: give"):
        distil(task, Reverser())
    assert [path.name for path in there.parent.iterdir()] == [name]
    assert there.read_text() == "mine\n"


def test_no_more_pairs_are_translated_than_a_corpus_may_give(tmp_path: Path) -> None:
    task = written(tmp_path, pairs=100)
    few = Task(task.text, task.direction, task.written, max_pairs=20)
    chosen = list(few.sources())
    assert len(chosen) == few.count() == 20
    assert set(chosen) < set(reverse_pairs(100, seed=1))
    assert [*few.sources()] == chosen


def test_one_command_makes_text_for_training(tmp_path: Path, cli: CommandLine) -> None:
    pairs = [("Good morning.", "Guten Morgen!"), ("I am hungry.", "Hunger habe ich.")]
    write_pairs(tmp_path / "train", pairs, ("en", "de"))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[data]\ntrain = ["train"]\n')
    teacher = str(REPOSITORY / "model_repository/translate/1/bundle")
    words = ["distill", "--teacher", teacher, "--config", str(recipe), "--json"]
    words += ["--data-dir", str(tmp_path), "--out", str(tmp_path)]
    rows: list[dict[str, Any]] = cli.rows(*words, "--best-of", "2")
    assert rows == [
        {"prefix": name, "pairs": {"written": 2}} for name in ("train.en-de", "train.de-en")
    ]
    student = "[{prefix='train.en-de',one_way=true}]"
    config = resolve(None, [f"data.train={student}"])
    (corpus,) = config.data.train
    assert config.data.directions == (("en", "de"),)
    read = read_pairs(tmp_path / corpus.prefix, corpus.languages)
    assert [src for src, _ in read] == [src for src, _ in pairs]
    assert read[0][1].startswith("Gute")
    assert "another best_of, 2 instead of 1" in cli.refuses(*words)

    # A refused option leaves no files for a corrected command to resume from.
    fresh = tmp_path / "fresh"
    words[-1] = str(fresh)
    assert "beam_width is 99" in cli.refuses(*words, "--beam-width", "99")
    assert not fresh.exists()
    unknown = [("Good morning.", "Guten Morgen!"), ("\u200b", "Hallo."), ("a " * 9999, "b")]
    write_pairs(tmp_path / "train", unknown, ("en", "de"))
    one_way = "data.train=[{prefix='train',one_way=true}]"
    (row,) = cli.rows(*words, "--set", one_way)
    counted = {"written": 1, "source of unknown characters": 1, "source too long": 1}
    assert row["pairs"] == counted
