from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from dragoman_training.config import VocabularyConfig
from dragoman_training.network.architecture import ModelConfig
from dragoman_training.network.transformer import Transformer
from dragoman_training.run import checkpoint
from dragoman_training.run.start import Start
from dragoman_training.text.vocabulary import train_vocabulary

from dragoman.cli import main
from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import Tokenizer
from tests.conftest import MakeBundle
from tests.tiny_models import tiny_config
from tests.toy import reverse_pairs, write_pairs


def command(text: Path, run: Path, *words: str) -> list[str]:
    """A run of three steps of a model as large as `tiny_config`'s, on German from English."""
    settings = (
        *("model.feed_forward_size=192", "model.encoder_layers=2", "model.decoder_layers=3"),
        *("model.model_size=64", "vocabulary.size=320", "training.batch_tokens=200"),
        *("training.steps=3", "training.log_every_steps=1", "training.average_last=1"),
        "training.valid_bleu_sentences=1",
    )
    options = [f"--set={word}" for word in settings]
    files = [str(text / name) for name in ("train.en", "train.de")]
    return ["train", "--text", *files, "--out", str(run), *options, *words]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    write_pairs(folder / "train", reverse_pairs(300, seed=1), ("en", "de"))
    return folder


@pytest.fixture
def with_french(tmp_path: Path) -> Tokenizer:
    """Another vocabulary with some new tokens and one new tag."""
    texts = [text for pair in reverse_pairs(500, seed=0) for text in pair]
    texts += ["rouge et bleu", "bleu et rouge", "blanc et rouge"] * 50
    config = VocabularyConfig(size=350)
    train_vocabulary(texts, ("en", "de", "fr"), config, tmp_path / "french.model")
    return Tokenizer(tmp_path / "french.model")


@pytest.mark.parametrize("kind", ["checkpoint", "bundle"])
def test_a_run_starts_with_the_weights_and_vocabulary_of_another(
    text: Path, tmp_path: Path, random_checkpoint: MakeBundle, random_bundle: Path, kind: str
) -> None:
    start = random_bundle if kind == "bundle" else random_checkpoint("post")
    run = tmp_path / "run"
    words = ("--start-from", str(start), "--set=training.peak_learning_rate=1e-12")
    assert main(command(text, run, *words)) == 0
    assert (run / "tokenizer.model").read_bytes() == (start / "tokenizer.model").read_bytes()
    right = checkpoint.load(start).model.state_dict()
    for name, tensor in checkpoint.load(run / "final").model.state_dict().items():
        torch.testing.assert_close(tensor, right[name])
    # A resumed run has everything it needs: the model that it started from may be gone.
    resumed = ("--start-from", str(tmp_path / "gone"), "--resume", "--set=training.steps=4")
    assert main(command(text, run, *resumed)) == 0


def test_new_entries_are_computed_from_those_that_they_replace(
    with_french: Tokenizer, random_checkpoint: MakeBundle
) -> None:
    folder = random_checkpoint("post")
    former = checkpoint.load(folder)
    model = Transformer(replace(tiny_config(), vocab_size=with_french.vocab_size))
    Start(folder, model.config).give_weights(model, with_french)

    rows, old = model.state_dict()["embedding.weight"], former.model.state_dict()
    ids = {former.tokenizer.piece(entry): entry for entry in range(former.tokenizer.vocab_size)}
    new = []
    for entry in range(with_french.vocab_size):
        piece = with_french.piece(entry)
        if piece in ids:
            assert torch.equal(rows[entry], old["embedding.weight"][ids[piece]]), piece
            continue
        new.append(piece)
        parts = (
            [former.tokenizer.tag_id(language) for language in ("en", "de")]
            if piece == "<2fr>"
            else former.tokenizer.encode(piece.replace("▁", " "))
        )
        torch.testing.assert_close(rows[entry], old["embedding.weight"][parts].mean(dim=0))
    assert {"<2fr>", "▁rouge"} <= set(new)
    for name, tensor in model.state_dict().items():
        assert name == "embedding.weight" or torch.equal(tensor, old[name]), name


def test_ssrus_take_the_place_of_self_attention(
    text: Path, tmp_path: Path, random_checkpoint: MakeBundle
) -> None:
    start, run = random_checkpoint("post"), tmp_path / "run"
    former = checkpoint.load(start).model.state_dict()
    words = ("--start-from", str(start), "--set=training.peak_learning_rate=1e-12")
    teacher = f"--set=training.teacher={start}"
    assert main(command(text, run, *words, "--set=model.decoder=ssru", teacher)) == 0
    state = checkpoint.load(run / "final").model.state_dict()
    new = set()
    for name, tensor in state.items():
        if ".ssru." in name:
            new.add(name.partition(".ssru.")[2])
        else:
            torch.testing.assert_close(
                tensor, former[name.replace("ssru_norm", "self_attention_norm")]
            )
    assert new == {"forget.weight", "forget.bias", "candidate.weight"}
    # Nothing takes the place of SSRUs.
    back = ("--start-from", str(run / "final"), "--set=model.decoder=attention")
    assert main(command(text, tmp_path / "back", *back)) == 2


def test_a_run_teaches_a_model_another_language(
    tmp_path: Path, random_checkpoint: MakeBundle
) -> None:
    pairs = [("red blue", "rouge bleu"), ("white", "blanc"), ("black red", "noir rouge")] * 40
    write_pairs(tmp_path / "train", pairs, ("en", "fr"))
    start, run = random_checkpoint("post"), tmp_path / "run"
    words = ["--start-from", str(start), "--set=training.peak_learning_rate=1e-12"]
    arguments = command(tmp_path, run, "--set=vocabulary.size=330", *words)
    arguments[arguments.index(str(tmp_path / "train.de"))] = str(tmp_path / "train.fr")
    assert main(arguments) == 0
    trained, former = checkpoint.load(run / "final"), checkpoint.load(start)
    assert trained.tokenizer.vocabulary[:320] == former.tokenizer.vocabulary
    assert trained.tokenizer.tag_id("fr") == 320
    rows, old = (loaded.model.state_dict()["embedding.weight"] for loaded in (trained, former))
    torch.testing.assert_close(rows[:320], old)
    tags = [former.tokenizer.tag_id(language) for language in ("en", "de")]
    torch.testing.assert_close(rows[320], old[tags].mean(dim=0))


def test_a_run_on_other_text_splits_it_into_fewer_tokens(
    tmp_path: Path, random_checkpoint: MakeBundle
) -> None:
    write_pairs(tmp_path / "train", [("violet", "lila"), ("orange", "orange")] * 60, ("en", "de"))
    start, run = random_checkpoint("post"), tmp_path / "run"
    words = ["--start-from", str(start), "--set=training.peak_learning_rate=1e-12"]
    assert main(command(tmp_path, run, "--set=vocabulary.size=335", *words)) == 0
    trained, former = checkpoint.load(run / "final"), checkpoint.load(start)
    assert trained.tokenizer.vocab_size == 335
    assert len(trained.tokenizer.encode("violet")) < len(former.tokenizer.encode("violet"))
    rows, old = (loaded.model.state_dict()["embedding.weight"] for loaded in (trained, former))
    torch.testing.assert_close(rows[:320], old)
    piece = trained.tokenizer.vocabulary[334].replace("▁", " ")
    torch.testing.assert_close(rows[334], old[former.tokenizer.encode(piece)].mean(dim=0))


def test_a_smaller_model_starts_with_weights_of_a_larger_one(
    text: Path, tmp_path: Path, random_checkpoint: MakeBundle
) -> None:
    start, run = random_checkpoint("post"), tmp_path / "run"
    sizes = ("vocabulary.size=300", "model.decoder_layers=1", "model.feed_forward_size=64")
    words = [f"--set={size}" for size in (*sizes, "training.peak_learning_rate=1e-12")]
    assert main([*command(text, run, "--start-from", str(start)), *words]) == 0
    trained, former = checkpoint.load(run / "final"), checkpoint.load(start)
    assert trained.tokenizer.vocab_size == 300
    weights, larger = trained.model.state_dict(), former.model.state_dict()
    for name, tensor in weights.items():
        if name.startswith("decoder_layers.0.") and "feed_forward." not in name:
            last = name.replace("layers.0", "layers.2")
            torch.testing.assert_close(tensor, larger[last])
    ids = {former.tokenizer.piece(entry): entry for entry in range(320)}
    kept = [entry for entry in range(300) if trained.tokenizer.piece(entry) in ids]
    assert len(kept) > 250
    rows = [ids[trained.tokenizer.piece(entry)] for entry in kept]
    torch.testing.assert_close(weights["embedding.weight"][kept], larger["embedding.weight"][rows])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            replace(tiny_config(), encoder_layers=3),
            "its model.encoder_layers is 2, but the settings",
        ),
        (replace(tiny_config(), heads=2), "its model.heads is 4, but the settings give 2"),
        (tiny_config("pre"), "its model.norm is post, but the settings give pre"),
    ],
)
def test_another_architecture_is_refused(
    config: ModelConfig, message: str, random_checkpoint: MakeBundle
) -> None:
    with pytest.raises(UsageError, match=message):
        Start(random_checkpoint("post"), config)


def test_the_vocabulary_of_the_start_model_keeps_its_size(
    text: Path, tmp_path: Path, random_checkpoint: MakeBundle, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    words = ("--start-from", str(random_checkpoint("post")), "--set=vocabulary.size=300")
    assert main(command(text, run, *words)) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.endswith("has 320 entries, but vocabulary.size is 300: set it to the same number")
    assert not run.exists()


def test_an_invalid_model_is_refused_in_one_line(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(text, tmp_path / "run", "--start-from", str(tmp_path / "gone"))) == 2
    assert "gone: no such folder" in capsys.readouterr().err.strip().splitlines()[-1]
    assert not (tmp_path / "run").exists()
