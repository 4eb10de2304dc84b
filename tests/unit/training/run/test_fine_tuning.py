"""Fine-tuning an imported model: what the run keeps, and what it gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from dragoman_export.bundle import export_bundle
from dragoman_export.parity import verify
from dragoman_training.config import RunConfig
from dragoman_training.marian.importing import import_marian
from dragoman_training.network.architecture import NEVER
from dragoman_training.oracle.search import Translator
from dragoman_training.run import checkpoint
from dragoman_training.run.evaluation import measure
from dragoman_training.text.parallel_text import read_lines, read_pairs

from dragoman.cli import main
from tests.made_up_text import KITCHEN, LANGUAGES, WORKSHOP, Domain, write_sentences
from tests.marian_models import MarianModel, sentences, write_marian

TEXT = (KITCHEN.sentences(300, seed=1), WORKSHOP.sentences(300, seed=2))
PIECES = (
    [src for pairs in TEXT for src, _ in pairs],
    [tgt for pairs in TEXT for _, tgt in pairs],
)
MODELS = {
    "one vocabulary": MarianModel(texts=PIECES),
    "own vocabularies and output": MarianModel(
        separate_lists=True,
        texts=([*PIECES[0], *sentences(1500)[0]], PIECES[1]),  # transformers needs more of these
        settings={
            "share_encoder_decoder_embeddings": False,
            "tie_word_embeddings": False,
            "activation_function": "relu",
            "scale_embedding": False,
        },
    ),
    "several targets": MarianModel(texts=PIECES, tags=("deu", "fra")),
}
ALL_TRAINED = ("training.start_share=0",)
"""The start's weights have no share: they are random, or those of a very small model."""
STEPS = ("training.log_every_steps=10", "training.checkpoint_every_steps=10")
PAIRS, TEST_PAIRS = 200, 20
LEARNING = ("training.steps=80", "training.optimizer=muon", "training.peak_learning_rate=4e-3")
"""Settings with which a model learns this many pairs of a domain."""


def train(run: Path, text: Sequence[Path], *words: str) -> int:
    """Words with `=` are settings."""
    files = list(map(str, text))
    options = [f"--set={word}" if "=" in word else word for word in (*STEPS, *words)]
    return main(["train", "--text", *files, "--out", str(run), *options])


@pytest.fixture
def text(tmp_path: Path) -> list[Path]:
    return write_sentences(tmp_path / "kitchen", TEXT[0])


@pytest.mark.parametrize("kind", MODELS)
def test_a_run_keeps_the_features_of_an_imported_model(
    kind: str, text: list[Path], tmp_path: Path
) -> None:
    write_marian(tmp_path / "opus-mt-en-de", MODELS[kind])
    start, run = tmp_path / "imported", tmp_path / "run"
    before = import_marian(tmp_path / "opus-mt-en-de", start)
    words = ("training.steps=2", "data.valid=[]", "training.optimizer=muon")
    still = "training.peak_learning_rate=1e-12"
    # The model does not have the reverse direction.
    assert train(run, text[::-1], "--start-from", str(start), still, *words) == 0
    tuned, former = checkpoint.load(run / "final"), checkpoint.load(start)
    for name, tensor in tuned.model.state_dict().items():
        torch.testing.assert_close(tensor, former.model.state_dict()[name])
    assert tuned.config.imported == before.imported
    assert [corpus.languages for corpus in tuned.config.data.train] == [LANGUAGES]
    assert tuned.config.directions == before.directions
    for name in ("tokenizer.model", "tokenizer_target.model"):
        assert (run / "final" / name).read_bytes() == (start / name).read_bytes()
    bias = tuned.model.state_dict()["output_bias"]
    never = former.model.state_dict()["output_bias"] == NEVER
    assert never.any()
    # Even at a rate that changes everything else, such entries keep probability zero.
    assert train(run, text, "--resume", "training.peak_learning_rate=1e-2", "training.steps=4") == 0
    changed = checkpoint.load(run / "final").model.state_dict()["output_bias"]
    assert torch.equal(changed[never], bias[never])
    last = checkpoint.load(run / "checkpoints" / "step-0000004").model.state_dict()["output_bias"]
    start_bias = former.model.state_dict()["output_bias"]
    torch.testing.assert_close(changed, (last + start_bias) / 2)
    assert not torch.equal(changed[~never], bias[~never])
    manifests = [
        export_bundle(folder, tmp_path / folder.name / "it") for folder in (start, run / "final")
    ]
    assert manifests[0].languages == manifests[1].languages
    assert manifests[0].special_ids == manifests[1].special_ids
    assert manifests[0].all_directions == manifests[1].all_directions


def test_settings_that_do_not_fit_an_imported_model_are_refused(
    text: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_marian(tmp_path / "opus-mt-en-de", MODELS["one vocabulary"])
    start = tmp_path / "imported"
    config = import_marian(tmp_path / "opus-mt-en-de", start)
    size = config.model.vocab_size

    def refusal(text: Sequence[Path], *words: str) -> str:
        run = tmp_path / "refused"
        assert train(run, text, "--start-from", str(start), "training.steps=1", *words) == 2
        return capsys.readouterr().err.strip().splitlines()[-1]

    more = f"entries, but vocabulary.size is {size + 1}: set it to the same number"
    assert more in refusal(text, f"vocabulary.size={size + 1}")
    french = [text[0], text[1].rename(tmp_path / "kitchen.fr")]
    assert refusal(french).endswith("no corpus is in a direction of the model: en-de")
    assert "imported cannot be set; --start-from names" in refusal(french, "imported.name=other")
    drawn = refusal(write_sentences(tmp_path / "it", TEXT[0]), "data.subword_dropout=0.1")
    assert "an imported vocabulary has no other pieces" in drawn


def test_text_that_an_imported_vocabulary_cannot_encode_is_omitted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_marian(tmp_path / "opus-mt-en-de", MODELS["one vocabulary"])
    import_marian(tmp_path / "opus-mt-en-de", tmp_path / "imported")
    pairs = [*TEXT[0][:20], ("Where is the cup?", "Где чашка?"), ("Чашка.", TEXT[0][0][1])]
    caplog.set_level("INFO")
    words = ("--start-from", str(tmp_path / "imported"), "training.steps=1")
    assert train(tmp_path / "run", write_sentences(tmp_path / "my", pairs), *words) == 0
    assert "21 examples (en-de)" in caplog.text
    assert "left out: 1 pairs that are longer than" in caplog.text


@dataclass(frozen=True)
class Trained:
    """A model trained from random weights, and text of two domains.

    Attributes:
        model: trained on the kitchen's sentences.
        folder: with training text `kitchen` and `workshop`, and `kitchen-test`, `workshop-test`.
    """

    model: Path
    folder: Path

    def bleu(self, model: Path, domain: str) -> float:
        """BLEU of a checkpoint's greedy translations."""
        loaded = checkpoint.load(model)
        src, tgt = (read_lines(self.folder / f"{domain}-test", language) for language in LANGUAGES)
        translator = Translator(loaded.model, loaded.tokenizer, loaded.limits, beam_width=1)
        hypotheses = translator.translate(src, LANGUAGES[1])
        return measure(
            [loaded.tokenizer.target.decode(hypothesis.ids) for hypothesis in hypotheses], tgt
        ).bleu

    def text(self, domain: str) -> list[Path]:
        return [self.folder / f"{domain}.{language}" for language in LANGUAGES]


def few(domain: Domain) -> Domain:
    """A part of a domain, on which a model can be trained in seconds."""
    return Domain(domain.things[:6], domain.actions[:3], domain.templates[:3])


@pytest.fixture(scope="module")
def few_trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A random Marian model that was trained in seconds on the sentences of the first domain."""
    folder = tmp_path_factory.mktemp("trained")
    domains = {"kitchen": few(KITCHEN), "workshop": few(WORKSHOP)}
    for seed, (name, domain) in enumerate(domains.items()):
        sentences = domain.sentences(PAIRS + TEST_PAIRS, seed)
        write_sentences(folder / name, sentences[:PAIRS])
        write_sentences(folder / f"{name}-test", sentences[PAIRS:])
    experiment = Trained(folder / "general" / "final", folder)
    write_marian(folder / "opus-mt-en-de", MODELS["one vocabulary"])
    import_marian(folder / "opus-mt-en-de", folder / "imported")
    words = ("model.dropout=0.0", "data.valid=[]", "training.batch_tokens=1000")
    start = ("--start-from", str(folder / "imported"), *ALL_TRAINED)
    run = folder / "general"
    assert train(run, experiment.text("kitchen"), *start, *LEARNING, *words) == 0
    return experiment


@pytest.mark.thorough
def test_fine_tuning_adds_a_domain_without_forgetting(few_trained: Trained, tmp_path: Path) -> None:
    general = list(map(str, few_trained.text("kitchen")))
    start = ("--start-from", str(few_trained.model), "--general-text", *general, *ALL_TRAINED)
    often = ("training.validate_every_steps=80", "training.valid_bleu_sentences=10")
    run = tmp_path / "run"
    assert train(run, few_trained.text("workshop"), *start, *LEARNING, *often) == 0
    gained, kept = (
        [few_trained.bleu(model, domain) for model in (few_trained.model, run / "final")]
        for domain in ("workshop", "kitchen")
    )
    assert gained[1] > gained[0] + 20
    assert kept[0] > 40
    assert kept[1] > kept[0] - 0.5
    data = RunConfig.from_json(run / "final" / "config.json").data
    assert [Path(corpus.prefix).parent.name for corpus in data.valid] == ["text", "general-text"]
    manifest = export_bundle(run / "final", run / "bundle")
    assert manifest.all_directions == (LANGUAGES,)
    pairs = read_pairs(few_trained.folder / "workshop-test", LANGUAGES)
    outcomes = verify(run / "bundle", [(src, "de") for src, _ in pairs[:4]])
    assert not [outcome for outcome in outcomes if outcome.failed]


@pytest.mark.thorough
def test_an_imported_model_teaches_a_student_with_some_of_its_layers(
    few_trained: Trained, tmp_path: Path
) -> None:
    teacher, distilled = tmp_path / "teacher", tmp_path / "distilled"
    export_bundle(few_trained.model, teacher)
    recipe = tmp_path / "sources.toml"
    recipe.write_text('[data]\ntrain = ["kitchen"]\n')
    options = ["--data-dir", str(few_trained.folder), "--out", str(distilled), "--beam-width=1"]
    assert main(["distill", "--teacher", str(teacher), "--config", str(recipe), *options]) == 0
    written = [distilled / f"kitchen.en-de.{language}" for language in LANGUAGES]
    sources, translations = (
        read_lines(distilled / "kitchen.en-de", language) for language in LANGUAGES
    )
    assert set(sources) <= set(read_lines(few_trained.folder / "kitchen", "en"))
    pairs = read_pairs(few_trained.folder / "kitchen", LANGUAGES)
    references = [tgt for src, tgt in pairs if src in set(sources)]
    assert measure(translations, references).bleu > 40
    run, still = tmp_path / "student", "training.peak_learning_rate=1e-12"
    words = ("model.decoder_layers=1", "training.steps=1", "data.valid=[]", still)
    assert train(run, written, "--start-from", str(teacher), *words) == 0
    assert not (run / "start").exists()
    student, former = (
        checkpoint.load(folder).model.state_dict() for folder in (run / "final", teacher)
    )
    name = "decoder_layers.{}.cross_attention.query.bias"
    torch.testing.assert_close(student[name.format(0)], former[name.format(2)])
    assert not any(tensor.startswith("decoder_layers.1") for tensor in student)
    torch.testing.assert_close(student["embedding.weight"], former["embedding.weight"])
