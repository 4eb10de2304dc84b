"""The benchmark of the in-process engine: its requests, choices, refusals and output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from dragoman_serving.translation.translator import Translator
from dragoman_training.network.architecture import ModelConfig

from dragoman.kernel.errors import CheckFailed
from dragoman.kernel.text import END_ID, Tokenizer
from lab.peers import racing, same_translations
from lab.peers.base_model import (
    SOURCE_TOKENS,
    TARGET_TOKENS,
    random_sources,
    random_texts,
    write_random_bundle,
)
from lab.peers.contenders import Output, Run
from lab.peers.engine_part import CASES, base_workloads, check_lengths, converted, start_peer
from lab.peers.engine_race import (
    Field,
    PeerProcess,
    PeerSetting,
    Workload,
    count_runs,
    peer_processes,
    peer_settings,
    race,
)
from lab.peers.engine_report import (
    EngineCase,
    Memory,
    engine_table,
    memory_table,
    text_table,
)
from lab.peers.processes import EngineProcess, Precision, Threads
from lab.peers.same_translations import OURS, PEER, Found, Likeness
from lab.peers.worker_protocol import (
    BatchSearch,
    Inputs,
    Texts,
    TokenIds,
    in_batches,
    peak_resident_bytes,
    read_request,
    write_request,
)
from lab.report import Sample
from lab.served.overhead import run_in_process

SMALL = ModelConfig(
    vocab_size=1000,
    model_size=32,
    feed_forward_size=48,
    heads=4,
    encoder_layers=2,
    decoder_layers=2,
)


def samples(*elapsed_s: float, tokens: int = 64) -> tuple[Sample, ...]:
    return tuple(Sample(value, tokens, 0) for value in elapsed_s)


CASE = EngineCase(
    test="base",
    beam_width=4,
    batch_size=1,
    sentences=2,
    source_tokens=62,
    dragoman=samples(1.0, 2.0, 4.0),
    ctranslate2={"int8, intra 1, inter 1": samples(3.0, 3.0, 3.0)},
    precision="fp32",
)


def cells(table: str) -> list[str]:
    return [cell.strip() for cell in table.splitlines()[2].split("|")[1:-1]]


@pytest.mark.parametrize("inputs", [Texts(["a", "ä"], "de"), TokenIds([[4, 3], [3]], [5, 6])])
def test_a_request_is_received_unchanged(inputs: Inputs) -> None:
    search = BatchSearch(4, 32, 0.5, "tokens")
    line = write_request(inputs, search)
    assert "\n" not in line
    assert read_request(line) == (inputs, search)
    assert len(inputs) == 2
    assert len(inputs.first(1)) == 1


def test_batches_keep_the_order_and_lose_nothing() -> None:
    assert list(in_batches("abcde", 2)) == ["ab", "cd", "e"]


def test_peak_memory_is_read_from_the_status_of_a_process() -> None:
    assert peak_resident_bytes("Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t  3 kB\nVmRSS:\t1 kB\n") == 3072


def test_a_call_has_one_part_for_each_thread() -> None:
    pytest.importorskip("ctranslate2")
    from lab.peers.ctranslate2_worker import batch_parts

    sources = [["a"] * 3, ["a"], ["a"]]
    assert batch_parts(sources, 1, "tokens") == (0, "examples")
    assert batch_parts(sources, 2, "examples") == (2, "examples")
    assert batch_parts(sources, 2, "tokens") == (3, "tokens")


def test_the_fastest_has_the_fastest_single_run() -> None:
    assert racing.fastest({"steady": samples(2.0, 2.0), "disturbed": samples(9.0, 1.0)}) == (
        "disturbed"
    )


def test_the_peer_may_use_all_cores_in_either_way_or_one() -> None:
    assert [str(process) for process in peer_processes(2)] == [
        *("int8, intra 1, inter 2", "int8, intra 2, inter 1", "int8, intra 1, inter 1"),
        *("float32, intra 1, inter 2", "float32, intra 2, inter 1", "float32, intra 1, inter 1"),
    ]
    assert len(peer_processes(1)) == 2


def test_batching_by_tokens_is_only_tried_in_batches_of_several() -> None:
    peers = {process: FakeWorker("peer", 1.0, []) for process in peer_processes(2)}
    assert len(peer_settings(peers, batch_size=1)) == 6
    by_tokens = [s for s in peer_settings(peers, batch_size=8) if s.batching == "tokens"]
    assert [str(setting) for setting in by_tokens] == [
        "int8, intra 1, inter 2, by tokens",
        "float32, intra 1, inter 2, by tokens",
    ]


@dataclass
class FakeWorker:
    """Records its requests; takes half as long if batches are split by tokens."""

    name: str
    sentence_s: float
    log: list[tuple[str, int, str]] = field(repr=False)
    penalties: set[float] = field(default_factory=set)

    def run(self, inputs: Inputs, search: BatchSearch) -> Run:
        self.penalties.add(search.length_penalty)
        self.log.append((self.name, len(inputs), search.batching))
        elapsed_s = len(inputs) * self.sentence_s / (1 + (search.batching == "tokens"))
        return Run(elapsed_s, (Output("", 3, cut=False),) * len(inputs))


def test_a_race_is_against_the_best_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "PAUSE_S", 0.0)
    log: list[tuple[str, int, str]] = []
    slow, fast = PeerProcess("float32", Threads(1, 1)), PeerProcess("int8", Threads(1, 2))
    ours: dict[Precision, FakeWorker] = {
        "int8": FakeWorker("ours", 1.0, log),
        "fp32": FakeWorker("ours in fp32", 4.0, log),
    }
    peers: dict[PeerProcess, FakeWorker] = {
        slow: FakeWorker("slow", 5.0, log),
        fast: FakeWorker("fast", 4.0, log),
    }
    contenders = Field(ours, peers)
    workload = Workload("toy", Texts("abcdefgh", "de"), BatchSearch(1, 4, 1.5), 30, 0.9)
    runs = 0

    def advance() -> None:
        nonlocal runs
        runs += 1

    cases, best = race(workload, contenders, 2, advance)
    assert best == PeerSetting(fast, "tokens")
    assert runs == count_runs(workload, contenders, 2) == len(log)
    trial = [("slow", 4, "examples"), ("fast", 4, "examples"), ("fast", 4, "tokens")]
    assert log[:8] == [
        *(2 * trial),
        ("ours", 4, "examples"),
        ("ours in fp32", 4, "examples"),
    ]
    last = [("ours", 8, "examples"), ("ours in fp32", 8, "examples"), ("fast", 8, "tokens")]
    assert log[8:] == 2 * last
    assert [case.precision for case in cases] == ["int8", "fp32"]
    assert [case.ratios for case in cases] == [[2.0, 2.0], [0.5, 0.5]]
    assert cases[0].best_setting == "int8, intra 1, inter 2, by tokens"
    assert [worker.penalties for worker in (*ours.values(), *peers.values())] == [
        *({1.5}, {1.5}),
        *({0.9}, {0.9}),
    ]


def test_tables_name_the_measurements() -> None:
    assert cells(engine_table([CASE])) == [
        *("beam 4", "1", "fp32", "32", "21", "int8, intra 1, inter 1", "1.50 (0.75..3.00)"),
    ]
    assert cells(text_table([CASE])) == [
        *("beam 4", "1", "fp32", "1.0", "32", "0.7", "21", "int8, intra 1, inter 1"),
        *("1.50 (0.75..3.00)", "1.03 / 1.03", "0.0 % / 0.0 %"),
    ]
    assert cells(memory_table([Memory("base", "Dragoman", "int8", 3 * 2**20)])) == [
        *("base", "Dragoman", "int8", "3"),
    ]
    assert json.loads(json.dumps(CASE.summary()))["precision"] == "fp32"


def test_translations_of_another_length_are_detected() -> None:
    check_lengths([CASE])
    with pytest.raises(CheckFailed, match=r"base: wrote \[64, 65\] tokens instead of 64"):
        check_lengths([replace(CASE, dragoman=(*samples(1.0), *samples(1.0, tokens=65)))])


def found(greedy: Sequence[int], texts: Sequence[str]) -> Found:
    ids = [(token,) for token in greedy]
    return Found(ids, ids, texts)


def test_all_contenders_are_compared_with_our_fp32() -> None:
    texts = ["one two three four", "five six seven eight"]
    worse = ["one two three four", "nine"]
    ours, peer = same_translations.compare(
        {OURS: found([1, 2], texts), PEER: found([1, 3], worse)}, references=texts
    )
    assert (ours.greedy_equal, ours.bleu, ours.bleu_to_fp32) == (1.0, 100.0, 100.0)
    assert (peer.greedy_equal, peer.beam_equal) == (0.5, 0.5)
    assert peer.bleu == peer.bleu_to_fp32 < 100.0
    table = same_translations.likeness_table([replace(peer, bleu=31.256, bleu_to_fp32=99.0)])
    assert cells(table) == [PEER, "50.0 %", "50.0 %", "31.26", "99.00"]


def test_only_similar_translations_are_raced() -> None:
    ours = Likeness(OURS, 1.0, 1.0, 30.0, 100.0, "signature")
    peer = Likeness(PEER, 0.99, 0.9, 30.3, 99.0, "signature")
    same_translations.check([ours, peer])
    with pytest.raises(CheckFailed, match=r"only 98\.0% of the greedy"):
        same_translations.check([ours, replace(peer, greedy_equal=0.98)])
    with pytest.raises(CheckFailed, match=r"beam 4 in fp32 differs by 0\.31 BLEU"):
        same_translations.check([ours, replace(peer, bleu=29.69)])


def test_base_sources_are_of_one_length_and_always_the_same() -> None:
    inputs = random_sources(3, vocab_size=1000)
    assert inputs == random_sources(3, vocab_size=1000)
    assert {len(source) for source in inputs.sources} == {SOURCE_TOKENS}
    assert all(min(source[:-1]) > END_ID for source in inputs.sources)
    assert all(max(source) < 1000 and source[-1] == END_ID for source in inputs.sources)
    workloads = base_workloads()
    assert [(one.search.beam_width, one.search.batch_size) for one in workloads] == list(CASES)
    assert all(len(one.trial) <= len(one.inputs) for one in workloads)


def test_random_texts_have_the_expected_lengths(tmp_path: Path) -> None:
    bundle = write_random_bundle(tmp_path, SMALL)
    tokenizer = Tokenizer(bundle / "tokenizer.model")
    texts = random_texts(20, SMALL)
    lengths = [len(tokenizer.encode_source(text, "de")) for text in texts]
    assert all(abs(length - SOURCE_TOKENS) <= 1 for length in lengths)
    assert len(set(texts)) == 20
    translator = Translator(bundle)
    assert run_in_process(translator, texts, beam_width=2, seconds=1.0) > 0
    translator.close()


def test_both_generate_translations_without_end_symbols(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    bundle = write_random_bundle(tmp_path, SMALL)
    inputs = random_sources(3, SMALL.vocab_size)
    runs = []
    with (
        converted(bundle, endless=True) as models,
        EngineProcess(bundle, "fp32", "ids", endless=True) as ours,
        start_peer(models, PeerProcess("float32", Threads(1, 1))) as peer,
    ):
        for process in (ours, peer):
            runs.append([process.run(inputs, BatchSearch(width, 2)) for width in (1, 4)])
            assert process.peak_bytes > 2**20
    outputs = [output for both in runs for run in both for output in run.outputs]
    assert len(outputs) == 12
    assert all(output.cut and output.tokens == TARGET_TOKENS for output in outputs)
    our_greedy, peer_greedy = (both[0] for both in runs)
    assert [o.ids for o in our_greedy.outputs] == [o.ids for o in peer_greedy.outputs]
