from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from dragoman_training.config import CleaningConfig, CorpusConfig
from dragoman_training.text.cleaning import Cleaner, HeldOut, Report, folded, write_pairs
from dragoman_training.text.parallel_text import read_pairs

from dragoman.cli import main
from dragoman.kernel.errors import UsageError
from tests.conftest import CommandLine, files_no_larger_than

BOTH = ("en", "de")
GOOD = ("I would like a cup of coffee.", "Ich hätte gern eine Tasse Kaffee.")
GERMAN = "Ich hätte gern eine Tasse Kaffee und ein Stück Kuchen."


def reports(
    pairs: list[tuple[str, str]],
    corpus: CorpusConfig | None = None,
    config: CleaningConfig | None = None,
) -> Report:
    held_out = HeldOut("set", {"en": ["Held out!"], "de": ["Nicht zu lernen."]})
    cleaner = Cleaner(config or CleaningConfig(), [held_out])
    return cleaner.clean(corpus or CorpusConfig("text", BOTH), pairs)[1]


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("", "Ja."), "empty"),
        (("Yes.", " \t"), "empty"),
        (("word " * 250, "Wort " * 250), "too long"),
        (("Yes.", "Das will ich wirklich sehr gern tun."), "lengths too different"),
        (("42 %", "42 %."), "no words"),
        (("Tom!", "tom"), "sides alike"),
        (("held  out", "Behalten."), "held out in set"),
        (("Held in.", "nicht zu lernen!"), "held out in set"),
        ((GERMAN, "Ich hätte gern eine Tasse Tee und ein Stück Brot."), "other language"),
    ],
)
def test_unfit_pairs_are_dropped_and_counted(pair: tuple[str, str], reason: str) -> None:
    assert reports([GOOD, pair]) == Report("text", BOTH, 2, 1, {reason: 1})


@pytest.mark.parametrize("hidden_by", ["text.de", "text.de.xz"])
def test_files_that_another_form_would_hide_are_not_written(
    tmp_path: Path, hidden_by: str, cli: CommandLine
) -> None:
    write_pairs(tmp_path / "text", BOTH, [GOOD])
    (tmp_path / "recipe.toml").write_text('[data]\ntrain = ["text"]\n')
    out = tmp_path / "out"
    words = ["clean", "--config", str(tmp_path / "recipe.toml"), "--data-dir", str(tmp_path)]
    assert main([*words, "--out", str(out)]) == 0
    (out / hidden_by).write_text("older\n")
    printed = cli.refuses(*words, "--out", out)
    assert f"{out / hidden_by} exists, and text.de.gz and it would hide one another" in printed


def test_text_that_ends_with_an_error_leaves_no_files(tmp_path: Path) -> None:
    def pairs() -> Iterator[tuple[str, str]]:
        yield GOOD
        raise UsageError("line 2 is not UTF-8")

    with pytest.raises(UsageError, match="line 2"):
        write_pairs(tmp_path / "out/text", BOTH, pairs())
    assert list((tmp_path / "out").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        write_pairs(tmp_path / "file/text", BOTH, [GOOD])


def test_short_answers_and_names_pass() -> None:
    pairs = [("Yes.", "Ja, doch."), ("Tom is here.", "Tom ist hier."), ("Thanks!", "Danke!")]
    assert reports(pairs).dropped == {}


def test_a_pair_passes_once_in_any_corpus_and_order() -> None:
    cleaner = Cleaner(CleaningConfig(), [])
    first = cleaner.clean(CorpusConfig("a", BOTH), [GOOD])[1]
    english, german = GOOD
    again = [(german.upper(), english), (german, "I'd like a cup of coffee.")]
    second = cleaner.clean(CorpusConfig("b", ("de", "en")), again)[1]
    assert (first.kept, second.kept, second.dropped) == (1, 1, {"duplicate": 1})


def test_a_pair_passes_once_in_each_direction() -> None:
    cleaner = Cleaner(CleaningConfig(), [])
    english, german = GOOD
    there = CorpusConfig("there", ("en", "de"), one_way=True)
    back = CorpusConfig("back", ("de", "en"), one_way=True)
    both = CorpusConfig("both", ("en", "de"))
    kept = [
        cleaner.clean(corpus, [(german, english) if corpus == back else GOOD])[1].kept
        for corpus in (there, there, back, both, there, back)
    ]
    assert kept == [1, 0, 1, 1, 0, 0]


def test_the_same_words_in_other_languages_are_not_duplicates() -> None:
    cleaner = Cleaner(CleaningConfig(), [])
    for languages in (("en", "de"), ("en", "fr")):
        corpus = CorpusConfig("a", languages)
        assert cleaner.clean(corpus, [("Good taxi.", "Bon taxi.")])[1].kept == 1


def test_a_corpus_has_its_own_limits() -> None:
    corpus = CorpusConfig("text", BOTH, max_characters=20)
    assert reports([GOOD, ("Yes.", "Ja.")], corpus).dropped == {"too long": 1}
    corpus = CorpusConfig("text", BOTH, drop_matching=r"\bvux\b")
    assert reports([GOOD, ("vows", "les vux")], corpus).dropped == {"drop_matching": 1}
    lenient = CleaningConfig(detect_languages=False)
    assert reports([(GERMAN, GERMAN + " Ja.")], config=lenient).dropped == {}


def test_text_in_an_undetectable_language_is_refused_or_kept() -> None:
    corpus = CorpusConfig("text", ("en", "xx"))
    with pytest.raises(UsageError, match="text: language detection does not know 'xx'"):
        Cleaner(CleaningConfig(), []).clean(corpus, [GOOD])
    lenient = Cleaner(CleaningConfig(detect_languages=False), [])
    assert lenient.clean(corpus, [GOOD])[1].kept == 1


def test_only_the_needed_part_of_a_large_corpus_is_read() -> None:
    pairs = [(f"The word {index}.", f"Das Wort {index}.") for index in range(200)]
    corpus = CorpusConfig("text", BOTH, max_pairs=20)
    kept, report = Cleaner(CleaningConfig(), []).clean(corpus, pairs)
    kept = list(kept)
    assert (len(kept), report.read, report.kept) == (20, 20, 20)
    assert kept == [pair for pair in pairs if pair in kept]
    assert kept != pairs[:20]


def test_folding_keeps_only_letters_and_digits() -> None:
    assert folded(" L\u2019Été, c'est 2 fois STRASSE\u00a0! ") == folded(
        "l'été c'est 2 fois Straße"
    )
    assert folded("No. 1") != folded("No. 2")


def test_folding_keeps_marks_and_knows_other_spellings_of_a_letter() -> None:
    assert folded("Cafe\u0301 \ufb01n") == folded("Café fin")
    assert folded("कि") != folded("का"), "the vowels are marks"


RECIPE = """
[data]
train = ["a/train"]
valid = ["a/valid"]
[cleaning]
held_out = ["b/test"]
"""


def test_the_command_writes_a_folder_for_training(tmp_path: Path, cli: CommandLine) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    texts = {
        "a/train": (f"{GOOD[0]}\n\nSeen.\nTested.\n", f"{GOOD[1]}\nJa.\nGesehen.\nGeprüft.\n"),
        "a/valid": ("Seen.\n", "Gesehen.\n"),
        "b/test": ("Tested.\n", "Getestet.\n"),
    }
    for prefix, sides in texts.items():
        for language, side in zip(BOTH, sides, strict=True):
            (tmp_path / f"{prefix}.{language}").write_text(side)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    words = ["clean", "--config", str(tmp_path / "recipe.toml"), "--data-dir", str(tmp_path)]
    printed = json.loads(cli.prints(*words, "--out", tmp_path / "clean", "--json"))
    assert (printed["read"], printed["kept"]) == (4, 1)
    assert printed["dropped"] == {"empty": 1, "held out in a/valid": 1, "held out in b/test": 1}
    assert json.loads((tmp_path / "clean" / "cleaning.json").read_text()) == [printed]
    assert read_pairs(tmp_path / "clean/a/train", BOTH) == [GOOD]
    assert read_pairs(tmp_path / "clean/a/valid", BOTH) == [("Seen.", "Gesehen.")]
    assert not (tmp_path / "clean/b").exists()
    assert "holds the text to be cleaned" in cli.refuses(*words, "--out", tmp_path)


ALTERED = """[data]
train = [
  { prefix = "a", drop_lines = "lines.txt", strip_tags = true },
  { prefix = "altered/train.de-en", languages = ["de", "en"], one_way = true, altered_share = 0.5 },
]
"""


def test_listed_lines_are_dropped_and_a_share_of_the_others_altered(
    tmp_path: Path, cli: CommandLine
) -> None:
    numbers = ("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "fünf")
    pairs = [
        (f"<b>I have {en}</b> &amp; more.", f"Ich <i>habe</i> {de} und mehr.") for en, de in numbers
    ]
    write_pairs(tmp_path / "a", BOTH, [("Gone.", "Weg."), *pairs])
    (tmp_path / "lines.txt").write_text("1\n")
    (tmp_path / "recipe.toml").write_text(ALTERED)
    words = ["clean", "--config", str(tmp_path / "recipe.toml"), "--data-dir", str(tmp_path)]
    first, second = cli.rows(*words, "--out", tmp_path / "out", "--json")
    assert (first["kept"], first["dropped"]) == (4, {"drop_lines": 1})
    assert read_pairs(tmp_path / "out/a", BOTH)[0] == (
        "I have two & more.",
        "Ich habe zwei und mehr.",
    )
    assert (second["read"], second["kept"]) == (4, 2)
    assert read_pairs(tmp_path / "out/altered/train.de-en", ("de", "en")) == [
        ("ich habe drei und mehr.", "I have three & more."),
        ("Ich habe fünf und mehr", "I have five & more"),
    ]
    (tmp_path / "lines.txt").write_text("one\n")
    assert "lines.txt is no file of line numbers" in cli.refuses(
        *words, "--out", tmp_path / "other"
    )


def cleaned(folder: Path, out: Path, data: str, *more: str) -> int:
    """Exit code of the command on corpora `a`, `b` in three languages."""
    source = folder / "corpora"
    source.mkdir(exist_ok=True)
    for prefix in "ab":
        for language, text in (("en", "I am.\n"), ("de", "Ich bin.\n"), ("fr", "Je suis.\n")):
            (source / f"{prefix}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    recipe = folder / "recipe.toml"
    recipe.write_text(f"[data]\n{data}\n[cleaning]\ndetect_languages = false\n")
    words = ["clean", "--config", str(recipe), "--data-dir", str(source), "--out", str(out)]
    return main([*words, *more])


TWICE = """languages = ["en", "de", "fr"]
train = [{prefix = "a", languages = ["en", "de"]}, {prefix = "./a", languages = ["en", "fr"]}]"""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('train = ["{corpora}/a"]', "leads out of --out"),
        ('train = ["../corpora/a"]', "leads out of --out"),
        ('train = ["a"]\nvalid = ["../corpora/b"]', "leads out of --out"),
        (TWICE, "'./a': is named twice with 'en'"),
        ('train = ["a"]\nvalid = ["a"]', "is named twice"),
        ('train = ["b"]\nvalid = ["a", "a"]', "is named twice"),
        ("train = []", "data.train is empty"),
        ('train = [""]', "the corpus '': names no text"),
    ],
)
def test_no_corpus_is_overwritten(
    data: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = data.replace("{corpora}", str(tmp_path / "corpora"))
    assert cleaned(tmp_path, tmp_path / "out", data) == 2
    printed = capsys.readouterr().err.strip()
    assert message in printed
    assert "\n" not in printed
    assert not (tmp_path / "out").exists(), "refused before anything is written"


def test_cleaned_text_is_replaced_only_by_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cleaned(tmp_path, out, 'train = ["a"]') == 0
    capsys.readouterr()
    assert cleaned(tmp_path, out, 'train = ["a"]') == 2
    assert "a.de.gz exists: give --force to replace it" in capsys.readouterr().err
    assert cleaned(tmp_path, out, 'train = ["b"]') == 2
    assert "cleaning.json exists: give --force to replace it" in capsys.readouterr().err
    assert cleaned(tmp_path, out, 'train = ["a"]', "--force") == 0


def test_nothing_is_written_through_a_link_to_the_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "corpora").mkdir()
    (tmp_path / "out/sub").symlink_to(tmp_path / "corpora")
    (tmp_path / "corpora/sub").symlink_to(tmp_path / "corpora")
    assert cleaned(tmp_path, tmp_path / "out", 'train = ["sub/a"]') == 2
    assert "a.en.gz is an input; name another" in capsys.readouterr().err
    file = tmp_path / "corpora/a.en.gz"
    assert cleaned(tmp_path, file, 'train = ["a"]') == 2
    assert f"{file} is a file; name a folder" in capsys.readouterr().err
    assert cleaned(tmp_path, tmp_path / "other", 'train = ["a"]\nvalid = ["b"]') == 0


def test_a_full_disk_leaves_no_incomplete_file(tmp_path: Path) -> None:
    pairs = [(f"{index * 7919}", f"{index * 104729}") for index in range(5000)]
    with (
        files_no_larger_than(1000),
        pytest.raises(UsageError, match=r"text\.\{en,de\}\.gz: cannot be"),
    ):
        write_pairs(tmp_path / "a" / "text", BOTH, pairs)
    assert list((tmp_path / "a").iterdir()) == []
