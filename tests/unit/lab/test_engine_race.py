"""The comparison of the in-process engine with CTranslate2: what is measured, and when it stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from dragoman_export.bundle import export_bundle
from dragoman_serving.translation.translator import Translator
from dragoman_training.network.architecture import ModelConfig
from dragoman_training.oracle.search import greedy_search
from dragoman_training.run import checkpoint
from dragoman_training.text.parallel_text import Side

from dragoman.kernel.errors import CheckFailed, UsageError
from dragoman.kernel.manifest import Limits, Manifest
from dragoman.kernel.text import END_ID, Tokenizer
from lab.engine.student import Model, qualities_of, speeds_of
from lab.peers import engine_race, same_translations, test_set
from lab.peers.engine_race import Best, Case, Workload, check_lengths, peer_settings, race
from lab.peers.models import base_model
from lab.peers.processes import (
    PeerSetting,
    Precision,
    Threads,
    converted,
    start_engine,
    start_peer,
)
from lab.peers.same_translations import OURS, PEER, ContenderTranslations, Likeness
from lab.peers.workers.worker_protocol import (
    Answer,
    BatchSearch,
    Inputs,
    Sample,
    Texts,
    TokenIds,
    in_batches,
    read_request,
    write_request,
)
from lab.served.overhead import run_in_process
from tests.conftest import MakeBundle
from tests.toy import reverse_pairs, write_pairs

SMALL = ModelConfig(
    vocab_size=1000,
    model_size=32,
    feed_forward_size=48,
    heads=4,
    encoder_layers=2,
    decoder_layers=2,
)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_race, "PAUSE_S", 0.0)
    monkeypatch.setattr("lab.engine.student.PAUSE_S", 0.0)


def samples(*elapsed_s: float, tokens: int = 64) -> tuple[Sample, ...]:
    return tuple(Sample(value, tokens, 0) for value in elapsed_s)


CASE = Case(
    "base",
    4,
    1,
    "fp32",
    2,
    62,
    "int8, intra 1, inter 1",
    dragoman=samples(1.0, 2.0, 4.0),
    ctranslate2=samples(3.0, 3.0, 3.0),
)


@pytest.mark.parametrize("inputs", [Texts(["a", "ä"], "de"), TokenIds([[4, 3], [3]], [5, 6])])
def test_a_request_is_received_unchanged(inputs: Inputs) -> None:
    search = BatchSearch(4, 32, 0.5, "tokens")
    line = write_request(inputs, search)
    assert "\n" not in line
    assert read_request(line) == (inputs, search)
    assert len(inputs) == 2
    assert len(inputs.first(1)) == 1
    assert list(in_batches("abcde", 2)) == ["ab", "cd", "e"]


def test_a_call_has_one_part_for_each_thread() -> None:
    pytest.importorskip("ctranslate2")
    from lab.peers.workers.ctranslate2_worker import batch_parts

    sources = [["a"] * 3, ["a"], ["a"]]
    assert batch_parts(sources, 1, "tokens") == (0, "examples")
    assert batch_parts(sources, 2, "examples") == (2, "examples")
    assert batch_parts(sources, 2, "tokens") == (3, "tokens")


def test_speeds_are_those_of_the_median_round() -> None:
    assert CASE.ratios == [3.0, 1.5, 0.75]
    assert CASE.per_s(CASE.dragoman) == (1.0, 32.0)


def test_the_peer_may_use_all_cores_in_either_way_or_one() -> None:
    assert [str(setting) for setting in peer_settings(2)] == [
        *("int8, intra 1, inter 2", "int8, intra 2, inter 1", "int8, intra 1, inter 1"),
        *("float32, intra 1, inter 2", "float32, intra 2, inter 1", "float32, intra 1, inter 1"),
    ]
    assert len(peer_settings(1)) == 2


@dataclass
class FakeWorker:
    """Records its requests; takes half as long if batches are split by tokens."""

    name: str
    sentence_s: float
    log: list[tuple[str, int, str]] = field(repr=False)
    penalties: set[float] = field(default_factory=set)
    texts: Sequence[str] = ()

    def run(self, inputs: Inputs, search: BatchSearch) -> Answer:
        self.penalties.add(search.length_penalty)
        self.log.append((self.name, len(inputs), search.batching))
        elapsed_s = len(inputs) * self.sentence_s / (1 + (search.batching == "tokens"))
        count = len(inputs)
        return Answer(elapsed_s, [3] * count, [False] * count, list(self.texts))


def test_a_race_is_against_the_best_setting() -> None:
    log: list[tuple[str, int, str]] = []
    slow, fast = PeerSetting("float32", Threads(1, 1)), PeerSetting("int8", Threads(1, 2))
    ours: dict[Precision, FakeWorker] = {
        "int8": FakeWorker("ours", 1.0, log),
        "fp32": FakeWorker("ours in fp32", 4.0, log),
    }
    peers = {slow: FakeWorker("slow", 5.0, log), fast: FakeWorker("fast", 4.0, log)}
    workload = Workload("toy", Texts("abcdefgh", "de"), BatchSearch(1, 4, 1.5), 30, 0.9)
    cases, setting = race(workload, ours, peers, 2)
    assert setting == fast
    trial = [("slow", 4, "examples"), ("fast", 4, "examples"), ("fast", 4, "tokens")]
    assert log[:8] == [*(2 * trial), ("ours", 4, "examples"), ("ours in fp32", 4, "examples")]
    last = [("ours", 8, "examples"), ("ours in fp32", 8, "examples"), ("fast", 8, "tokens")]
    assert log[8:] == 2 * last
    assert [(case.precision, case.ratios) for case in cases] == [
        *(("int8", [2.0, 2.0]), ("fp32", [0.5, 0.5])),
    ]
    assert {case.setting for case in cases} == {str(Best(fast, "tokens"))}
    assert [worker.penalties for worker in (*ours.values(), *peers.values())] == [
        *({1.5}, {1.5}),
        *({0.9}, {0.9}),
    ]


def test_translations_of_another_length_are_detected() -> None:
    check_lengths([CASE], 32)
    with pytest.raises(CheckFailed, match=r"base: wrote \[64, 65\] tokens instead of 64"):
        check_lengths([replace(CASE, dragoman=(*samples(1.0), *samples(1.0, tokens=65)))], 32)


def translated(greedy: Sequence[int], texts: Sequence[str]) -> ContenderTranslations:
    ids = [(token,) for token in greedy]
    return ContenderTranslations(ids, ids, texts)


def test_all_contenders_are_compared_with_our_fp32() -> None:
    texts = ["one two three four", "five six seven eight"]
    worse = ["one two three four", "nine"]
    ours, peer = same_translations.compare(
        {OURS: translated([1, 2], texts), PEER: translated([1, 3], worse)}, references=texts
    )
    assert (ours.greedy_equal, ours.bleu, ours.bleu_to_fp32) == (1.0, 100.0, 100.0)
    assert (peer.greedy_equal, peer.beam_equal) == (0.5, 0.5)
    assert peer.bleu == peer.bleu_to_fp32 < 100.0


def test_only_similar_translations_are_raced() -> None:
    ours = Likeness(OURS, 1.0, 1.0, 30.0, 100.0, "signature")
    peer = Likeness(PEER, 0.99, 0.9, 30.3, 99.0, "signature")
    same_translations.check([ours, peer])
    with pytest.raises(CheckFailed, match=r"only 98\.0% of the greedy"):
        same_translations.check([ours, replace(peer, greedy_equal=0.98)])
    with pytest.raises(CheckFailed, match=r"beam 4 in fp32 differs by 0\.31 BLEU"):
        same_translations.check([ours, replace(peer, bleu=29.69)])


def test_too_long_sentences_are_omitted(tmp_path: Path, random_bundle: Path) -> None:
    limits = Limits()
    pairs = [("red blue", "blue red"), ("red " * limits.max_source_tokens, "x"), ("red", "red")]
    write_pairs(tmp_path / "test", pairs, ("en", "de"))
    manifest = Manifest.load(random_bundle)
    test = test_set.read_test_set(tmp_path, "test", None, random_bundle, manifest)
    assert test.texts == ("red blue", "red")
    assert test.references == ("blue red", "red")
    assert test.left_out == 1


def test_base_sources_are_of_one_length_and_always_the_same() -> None:
    inputs = base_model.random_sources(3, vocab_size=1000)
    assert inputs == base_model.random_sources(3, vocab_size=1000)
    assert {len(source) for source in inputs.sources} == {base_model.SOURCE_TOKENS}
    assert all(min(source[:-1]) > END_ID for source in inputs.sources)
    assert all(max(source) < 1000 and source[-1] == END_ID for source in inputs.sources)


def test_random_texts_have_the_expected_lengths(tmp_path: Path) -> None:
    bundle = base_model.write_random_bundle(tmp_path, SMALL)
    tokenizer = Tokenizer(bundle / "tokenizer.model")
    texts = base_model.random_texts(20, SMALL)
    lengths = [len(tokenizer.encode_source(text, "de")) for text in texts]
    assert all(abs(length - base_model.SOURCE_TOKENS) <= 1 for length in lengths)
    assert len(set(texts)) == 20
    translator = Translator(bundle)
    assert run_in_process(translator, texts, beam_width=2, seconds=1.0)[0] > 0
    translator.close()


@pytest.mark.thorough
def test_both_generate_translations_without_end_symbols(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    bundle = base_model.write_random_bundle(tmp_path, SMALL)
    inputs = base_model.random_sources(3, SMALL.vocab_size)
    answers = []
    with (
        converted(bundle) as model,
        start_engine(bundle, "fp32", "ids", endless=True) as ours,
        start_peer(model, bundle, PeerSetting("float32", Threads(1, 1)), endless=True) as peer,
    ):
        for process in (ours, peer):
            answers.append([process.run(inputs, BatchSearch(width, 2)) for width in (1, 4)])
            assert process.peak_bytes > 2**20
    for answer in (answer for both in answers for answer in both):
        assert answer.tokens == [base_model.TARGET_TOKENS] * 3
        assert all(answer.cut)
    assert answers[0][0].ids == answers[1][0].ids


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_converted_model_generates_the_oracles_tokens(
    tmp_path: Path, random_checkpoint: MakeBundle, norm: str
) -> None:
    pytest.importorskip("ctranslate2")
    from lab.peers.models.ctranslate2_model import convert

    bundle, model = tmp_path / "bundle", tmp_path / "model"
    limits = export_bundle(random_checkpoint(norm), bundle).limits
    convert(bundle, model)
    loaded = checkpoint.load(bundle)
    texts = [src for src, _ in reverse_pairs(20, seed=1)]
    src = [loaded.tokenizer.encode_source(text, "de") for text in texts]
    expected = greedy_search(loaded.model, src, [limits.target_tokens(len(ids)) for ids in src])
    with start_peer(model, bundle, PeerSetting("float32", Threads(intra=1, inter=2))) as process:
        answer = process.run(Texts(texts, "de"), BatchSearch(1, 1))
        # All in one call with one limit, which must not be below any sentence's own.
        together = process.run(Texts(texts, "de"), BatchSearch(1, len(texts)))
    assert answer.ids == [list(hypothesis.ids) for hypothesis in expected]
    assert answer.cut == [not hypothesis.complete for hypothesis in expected]
    # Our tokenizer leaves out bytes that form no character; CTranslate2's writes U+FFFD.
    decoded = [loaded.tokenizer.decode(hypothesis.ids) for hypothesis in expected]
    assert [text.replace("\ufffd", "") for text in answer.texts or []] == decoded
    for ids, hypothesis in zip(together.ids or [], expected, strict=True):
        assert tuple(ids[: len(hypothesis.ids)]) == hypothesis.ids
    with pytest.raises(UsageError, match="exists"):
        convert(bundle, model)


def test_a_student_is_compared_with_its_own_length_penalty() -> None:
    target = ["Eins ist jetzt hier.", "Zwei sind heute da.", "Drei"]
    source = Side("en", ["One is here now.", "Two are there today.", "Three"])
    direction = (source, Side("de", target))
    large = FakeWorker("large", 0.5, [], texts=target)
    small = FakeWorker("small", 0.2, [], texts=[target[0], "Nichts davon.", target[2]])
    models = [Model(large, 0.6), Model(small, 1.5)]
    for _, _, (right, wrong) in qualities_of(models, [direction]):
        assert right.bleu == pytest.approx(100)
        assert wrong.bleu < 90
    for _, _, _, sentences, (large_s, small_s) in speeds_of(models, [direction], 2, 3):
        assert (sentences, large_s) == (2, [1.0] * 3)
        assert small_s == pytest.approx([0.4] * 3)
    assert (large.penalties, small.penalties) == ({0.6}, {1.5})
