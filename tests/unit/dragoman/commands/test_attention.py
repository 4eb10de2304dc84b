"""`dragoman attention`: its drawings and its refusals."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from dragoman_training.network.attention_weights import look
from dragoman_training.run import checkpoint, checkpoint_folder

from dragoman.cli import main
from dragoman.drawing.architecture import Architecture, draw_architecture
from dragoman.drawing.colours import head_colours
from dragoman.drawing.figures import draw_lines, save
from dragoman.drawing.page import write_page
from dragoman.kernel.attention_maps import KINDS, Attention
from dragoman.kernel.manifest import Dimensions, Manifest, digests
from dragoman.kernel.text import Tokenizer
from tests.conftest import CommandLine, MakeBundle
from tests.drawings import data_of, texts_of

TEXT, TRANSLATION = "red blue green", "green blue red"
Refusal = Callable[..., str]


def run(*words: object) -> int:
    return main(["attention", *map(str, words)])


@pytest.fixture
def refusal(cli: CommandLine) -> Refusal:
    return partial(cli.refusal, "attention")


@pytest.mark.parametrize("made", ["bundle", "checkpoint"])
def test_a_pages_weights_equal_pytorchs(
    made: str, random_bundle: Path, random_checkpoint: MakeBundle, tmp_path: Path
) -> None:
    model = random_bundle if made == "bundle" else random_checkpoint("post")
    out = tmp_path / "attention.html"
    assert run(TEXT, "--model", model, "--translation", TRANSLATION, "--out", out) == 0
    data = data_of(out)
    loaded = checkpoint.load(random_bundle)
    src = torch.tensor([loaded.tokenizer.encode_source(TEXT, "de")])
    read = torch.tensor([[2, *loaded.tokenizer.encode(TRANSLATION)]])
    right = look(loaded.model, src, torch.ones_like(src, dtype=torch.bool), read)
    for kind, weights in zip(KINDS, right, strict=True):
        np.testing.assert_allclose(data[kind], weights[0].numpy(), atol=1e-5)
    assert data["text"] == TEXT
    assert data["translation"] == TRANSLATION


def test_a_checkpoint_draws_its_own_translation(
    random_bundle: Path, random_checkpoint: MakeBundle, tmp_path: Path
) -> None:
    pages = []
    languages = ("--target-language", "en_GB", "--source-language", "DE")
    for model in (random_bundle, random_checkpoint("post")):
        out = tmp_path / f"{model.name}.html"
        assert run("red", "--model", model, *languages, "--out", out) == 0
        pages.append(data_of(out))
    assert pages[0]["source"] == pages[1]["source"]
    assert pages[1]["said"]


def test_pictures_have_the_requested_content(random_bundle: Path, tmp_path: Path) -> None:
    where = ("--model", random_bundle, "--translation", TRANSLATION, "--out")
    tokenizer = Tokenizer(random_bundle / "tokenizer.model")
    source = [tokenizer.piece(token_id) for token_id in tokenizer.encode_source(TEXT, "de")]
    said = [*map(tokenizer.piece, tokenizer.encode(TRANSLATION)), "</s>"]
    lines = tmp_path / "lines.svg"
    assert run(TEXT, *where, lines, "--kind", "cross", "--layer", 2, "--head", 1, 3) == 0
    assert texts_of(lines) == [*said, *source, "cross-attention, layer 2, heads 1, 3"]
    drawn = lines.read_text(encoding="utf-8")
    colours = head_colours(4)
    assert all((colour in drawn) == (head in (1, 3)) for head, colour in enumerate(colours))
    grid = tmp_path / "grid.svg"
    assert run(TEXT, *where, grid, "--kind", "decoder") == 0
    titles = {f"layer {layer}, head {head}" for layer in range(3) for head in range(4)}
    assert titles <= set(texts_of(grid))
    assert "<s>" in texts_of(grid)
    for name in ("a.png", "a.pdf"):
        assert run(TEXT, *where, tmp_path / name, "--layer", 0) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_a_single_token_can_be_drawn(random_bundle: Path, tmp_path: Path) -> None:
    where = ("--model", random_bundle, "--layer", 0, "--head", 0, "--out")
    assert run(TEXT, *where, tmp_path / "all.svg") == 0
    assert run(TEXT, *where, tmp_path / "one.svg", "--token", 1) == 0
    lines = [
        (tmp_path / name).read_text(encoding="utf-8").count(head_colours(1)[0])
        for name in ("all.svg", "one.svg")
    ]
    assert 0 < lines[1] < lines[0]


def test_the_model_itself_is_drawn_with_its_sizes(
    random_bundle: Path, tmp_path: Path, refusal: Refusal
) -> None:
    out = tmp_path / "model.svg"
    assert run("--figure", "architecture", "--model", random_bundle, "--out", out) == 0
    drawn = " ".join(texts_of(out))
    for what in ("2 layers", "3 layers", "4 heads of 16", "64 → 192 → 64", "vocabulary 320"):
        assert what in drawn
    positions = ("--figure", "positions", "--model", random_bundle, "--out", out)
    assert "model.svg exists: give --force to replace it" in refusal(*positions)
    assert run(*positions, "--force") == 0
    assert "position encodings [100, 64]" in texts_of(out)


def test_no_text_ends_the_script_that_contains_it() -> None:
    nasty = "</script><script>alert(1)</script><!-- \u2028 & @@script@@"
    weights = np.ones((1, 1, 1, 1), np.float32)
    page = write_page(Attention((nasty,), ("<s>",), (nasty,), *[weights] * 3), nasty, nasty)
    assert page.count("</script>") == 2
    assert "alert(1)</script>" not in page
    assert "<!--" not in page
    assert page.count('"use strict"') == 1
    assert data_of(page)["text"] == nasty
    assert not re.search(r"(src|href)\s*=|https?://(?!www\.w3\.org/2000/svg)|@import|url\(", page)


REFUSED_WITH_A_TEXT = [
    (("",), "the text is empty: give a sentence"),
    (("red " * 400,), "more than 254: shorten it"),
    (("red", "--target-language", "xx"), "target_language 'xx' is unknown; known: en, de"),
    (("red", "--source-language", "xx"), "source_language 'xx' is unknown"),
    (("red", "--translation", " "), "target 0 is empty, but its text is not"),
    (("red", "--layer", "3"), "--layer 3: cross attention has layers 0 to 2"),
    (("red", "--layer", "-1"), "--layer -1: cross"),
    (("red", "--head", "0", "4"), "--head 4: the model has heads 0 to 3"),
    (("red", "--token", "99"), "--token 99: there are tokens 0 to "),
    ((), "no text: give a sentence"),
    (("red \udcff",), "the text is not UTF-8 at character 4"),
    (("red", "--translation", "\udcff"), "the translation is not UTF-8 at character 0"),
    (("red", "--source-language", "de", "--target-language", "de"), "are both 'de'"),
    (("red", "--head", "0", "1", "0"), "--head 0: is named twice"),
    (("red", "--positions", "9999"), "--positions 9999: is for --figure positions"),
    (("red", "--figure", "positions"), "name a file that ends in .svg, .png, .pdf"),
]
REFUSED_WITHOUT_A_TEXT = [
    (("red",), "leave out the text"),
    (("--translation", "rot"), "leave out --translation"),
    (("--source-language", "en"), "leave out --source-language"),
    (("--target-language", "de"), "leave out --target-language"),
    (("--kind", "encoder"), "leave out --kind"),
    (("--layer", "0"), "leave out --layer"),
    (("--head", "0"), "leave out --head"),
    (("--token", "0"), "leave out --token"),
    (("--positions", "9"), "--positions 9: is for --figure positions"),
    (("--figure", "positions", "--positions", "0"), "--positions 0: give 1 to 512"),
    (("--figure", "positions", "--positions", "513"), "--positions 513: give 1 to 512"),
]
REFUSED_BY_A_CHECKPOINT = [
    (("",), "the text is empty"),
    (("red " * 400,), "more than 254: shorten it"),
    (("red", "--target-language", "xx"), "not translate from 'any' into 'xx': it has en-de, d"),
    (("red", "--translation", ""), "the translation is empty"),
]


@pytest.mark.parametrize(
    ("made", "name", "words", "message"),
    [
        *(("bundle", "a.html", *refused) for refused in REFUSED_WITH_A_TEXT),
        *(
            ("bundle", "a.svg", ("--figure", "architecture", *words), message)
            for words, message in REFUSED_WITHOUT_A_TEXT
        ),
        *(("checkpoint", "a.html", *refused) for refused in REFUSED_BY_A_CHECKPOINT),
    ],
)
def test_invalid_input_is_refused_in_one_line(
    made: str,
    name: str,
    words: tuple[str, ...],
    message: str,
    random_bundle: Path,
    random_checkpoint: MakeBundle,
    tmp_path: Path,
    refusal: Refusal,
) -> None:
    out = tmp_path / name
    model = random_bundle if made == "bundle" else random_checkpoint("post")
    assert message in refusal(*words, "--model", model, "--out", out)
    assert not out.exists()


@pytest.mark.parametrize("figure", ["architecture", "positions"])
@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ("model", "heads", 0),
        ("model", "heads", float("inf")),
        ("model", "model_size", 63),
        ("model", "model_size", -64),
        ("model", "activation", "$x^$"),
        ("model", "encoder_layers", -3),
        ("model", "norm", 5),
        ("model", None, "x"),
        ("data", "languages", [1, 2]),
    ],
)
def test_impossible_checkpoints_are_not_drawn(
    figure: str,
    table: str,
    name: str | None,
    value: object,
    random_checkpoint: MakeBundle,
    tmp_path: Path,
    refusal: Refusal,
) -> None:
    config = random_checkpoint("post") / checkpoint_folder.CONFIG
    values = json.loads(config.read_text(encoding="utf-8"))
    values[table] = {**values[table], name: value} if name else value
    config.write_text(json.dumps(values), encoding="utf-8")
    out = tmp_path / "a.svg"
    assert (name or table) in refusal("--figure", figure, "--model", config.parent, "--out", out)
    assert not out.exists()


@pytest.mark.parametrize("model", [{"norm": 5}, {"own_output": "x"}, [], "x"])
def test_impossible_bundles_are_not_drawn(
    model: object, random_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = Path(shutil.copytree(random_bundle, tmp_path / "bundle"))
    (bundle / "config.json").write_text(json.dumps({"model": model}))
    manifest = Manifest.load(random_bundle)
    files = manifest.files | digests(bundle, ["config.json"])
    replace(manifest, files=files).write(bundle)
    out = tmp_path / "a.svg"
    assert run("--figure", "architecture", "--model", bundle, "--out", out) == 2
    assert capsys.readouterr().err.endswith("config.json: is not a model's configuration\n")


@pytest.mark.parametrize("size", [63, 1 << 40])
def test_positions_of_odd_sizes_are_not_drawn(
    size: int, random_bundle: Path, tmp_path: Path, refusal: Refusal
) -> None:
    bundle = Path(shutil.copytree(random_bundle, tmp_path / "bundle"))
    manifest = Manifest.load(random_bundle)
    sizes = replace(manifest.dimensions, model_size=size, heads=1)
    replace(manifest, dimensions=sizes).write(bundle)
    out = tmp_path / "a.svg"
    assert f"model_size is {size}: position encodings can be drawn for" in refusal(
        "--figure", "positions", "--model", bundle, "--out", out
    )


def test_an_ssru_decoder_is_drawn_without_self_attention(
    ssru_bundle: Path, tmp_path: Path, refusal: Refusal
) -> None:
    page, picture = tmp_path / "a.html", tmp_path / "a.svg"
    models = ("--model", ssru_bundle), ("--model", ssru_bundle.parent / "checkpoint")
    for where in models:
        assert run(TEXT, *where, "--translation", TRANSLATION, "--out", page, "--force") == 0
        data = data_of(page)
        assert data["decoder"] == []
        assert set(data["sides"]) == {"encoder", "cross"}
        assert "--kind decoder: the model's decoder is recurrent" in refusal(
            TEXT, *where, "--kind", "decoder", "--out", picture
        )
    assert run("--figure", "architecture", *models[0], "--out", picture) == 0
    drawn = " ".join(texts_of(picture))
    assert "SSRU state of 64" in drawn
    assert "masked self-attention" not in drawn


def test_checkpoints_are_drawn_as_bundles_are(
    random_bundle: Path, random_checkpoint: MakeBundle, tmp_path: Path
) -> None:
    drawn: list[bytes] = []
    for model in (random_bundle, random_checkpoint("post"), random_checkpoint("pre")):
        out = tmp_path / f"{len(drawn)}.svg"
        assert run("--figure", "architecture", "--model", model, "--out", out) == 0
        drawn.append(out.read_bytes())
    assert drawn[0] == drawn[1] != drawn[2]


def test_names_of_languages_are_not_parsed_as_mathematics(tmp_path: Path) -> None:
    sizes = Dimensions(4, 4, 4, 4, 4, 4)
    figure = draw_architecture(Architecture(sizes, ("$x^$", "\ud800")))
    save(figure, tmp_path / "a.svg")
    assert any("$x^$, ?;" in text for text in texts_of(tmp_path / "a.svg"))


def test_characters_without_a_font_are_reported_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    weights = np.ones((1, 1, 1, 1), np.float32)
    odd = Attention(("\U000f0000\U000f0001",), ("<s>",), ("</s>",), *[weights] * 3)
    for name, lines in (("a.png", 1), ("a.pdf", 1), ("a.svg", 0)):
        caplog.clear()
        save(draw_lines(odd, "encoder", 0, [0]), tmp_path / name)
        assert len(caplog.messages) == lines
        assert all(r"has '\U000f0000\U000f0001'" in message for message in caplog.messages)
    assert "Warning" not in capfd.readouterr().err


def test_a_file_that_cannot_be_written_is_named_at_once(
    random_bundle: Path, tmp_path: Path, refusal: Refusal
) -> None:
    (tmp_path / "folder.html").mkdir()
    for out, message in (
        (tmp_path / "none" / "a.html", f"{tmp_path / 'none'} is not a folder"),
        (tmp_path / "folder.html", "is a folder: name a file"),
        (tmp_path / "a.txt", "name a file that ends in .html, .svg, .png, .pdf"),
        (Path("/dev/full.html"), "cannot be written: "),
        (Path("/proc/a.svg"), "cannot be written: "),
    ):
        words = ("--layer", "0") if out.suffix == ".svg" else ()
        if out.parent == Path("/dev") and os.access("/dev", os.W_OK):
            continue
        line = refusal("red", "--model", random_bundle, "--out", out, *words)
        assert message in line
        assert str(out) in line


def test_models_that_cannot_be_drawn_are_named(
    random_bundle: Path, tmp_path: Path, refusal: Refusal
) -> None:
    out = tmp_path / "a.svg"
    assert "no such folder" in refusal("red", "--model", tmp_path / "none", "--out", out)
    assert f"{tmp_path / 'config.json'}: cannot be read" in refusal(
        "red", "--model", tmp_path, "--out", out
    )
    assert "config.json: cannot be read" in refusal(
        "--figure", "architecture", "--model", tmp_path, "--out", out
    )
    assert "give a bundle or a checkpoint with --model" in refusal(
        "--figure", "architecture", "--out", out
    )
    damaged = tmp_path / "damaged"
    shutil.copytree(random_bundle, damaged)
    (damaged / "attention.onnx").write_bytes(b"")
    assert "attention.onnx: is not the file that manifest.json lists" in refusal(
        "red", "--model", damaged, "--out", out
    )
