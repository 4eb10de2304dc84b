"""Both sides of the engine's benchmark are restricted to one instruction set."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from dragoman_serving.engine.compiled.library import choose_instruction_set
from dragoman_training.network.architecture import ModelConfig

from dragoman.kernel.errors import CheckFailed, DragomanError, UsageError
from lab.measurement import conditions
from lab.peers import instruction_sets
from lab.peers.instruction_sets import (
    INSTRUCTION_SETS,
    InstructionSet,
    PeerReport,
    check_ours,
    check_peer,
    environment,
    hold,
    probe_peer,
    read_report,
)
from lab.peers.models.base_model import write_random_bundle
from lab.peers.processes import converted, start_engine

SMALL = ModelConfig(1000, 64, 64, 4, encoder_layers=1, decoder_layers=1)
ONEDNN_LOG = """\
onednn_verbose,info,oneDNN v3.1.1 (commit 7f59ae1)
onednn_verbose,info,cpu,runtime:OpenMP,nthr:1
onednn_verbose,info,cpu,isa:Intel AVX-512 with Intel DL Boost and bfloat16 support\x20
onednn_verbose,exec,cpu,gemm_api,,undef,src_u8::blocked:ab:f0 wei_s8::blocked:ba:f0,,,3x256:256x768
[2026-11-24 11:59:55.578] [ctranslate2] [thread 1] [info]  - Selected ISA: AVX2
[2026-11-24 11:59:55.578] [ctranslate2] [thread 1] [info]  - SGEMM backend: DNNL (packed: false)
[2026-11-24 11:59:55.578] [ctranslate2] [thread 1] [info]  - GEMM_S16 backend: none (packed: false)
[2026-11-24 11:59:55.578] [ctranslate2] [thread 1] [info]  - GEMM_S8 backend: DNNL (packed: false)
"""
MKL_LOG = """\
MKL_VERBOSE oneMKL 2025 Update 3 Product build 20251007 for Intel(R) 64 architecture Intel(R) \
Advanced Vector Extensions 2 (Intel(R) AVX2) enabled processors, Lnx 2.60GHz ilp64 gnu_thread
MKL_VERBOSE GEMM_S8U8S32_PACK_GET_SIZE(B,1,256,256) 40.80us CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:1
[2026-11-24 11:59:56.677] [ctranslate2] [thread 1] [info]  - Selected ISA: AVX2
[2026-11-24 11:59:56.677] [ctranslate2] [thread 1] [info]  - SGEMM backend: MKL (packed: true)
[2026-11-24 11:59:56.677] [ctranslate2] [thread 1] [info]  - GEMM_S8 backend: MKL (packed: true)
"""


def choose(monkeypatch: pytest.MonkeyPatch, detected: str | None) -> None:
    """Make our library choose an instruction set, with an environment that is restored."""
    monkeypatch.setattr(os, "environ", {"PATH": "/bin"})
    monkeypatch.setattr(
        instruction_sets,
        "choose_instruction_set",
        lambda: os.environ.get("DRAGOMAN_ISA", detected),
    )


def test_our_librarys_or_the_requested_instruction_set_is_used_by_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choose(monkeypatch, "avxvnni")
    assert hold(None) == "avxvnni"
    assert os.environ == {"PATH": "/bin", **environment("avxvnni")}
    recorded = conditions("lab.peers.engine", [], 0.0)["environment"]
    assert recorded == environment("avxvnni")
    assert hold("avx2") == "avx2"
    assert {os.environ[name] for name in environment("avx2")} == {"avx2", "AVX2"}


@pytest.mark.parametrize(("chosen", "named"), [("neon", "neon"), (None, "no compiled code")])
def test_an_instruction_set_that_the_peer_lacks_is_refused(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None, named: str
) -> None:
    choose(monkeypatch, chosen)
    with pytest.raises(UsageError, match=f"our library uses {named} here.*give --isa one of avx2"):
        hold(None)


def test_reports_of_the_libraries_in_use_are_read() -> None:
    onednn = read_report(ONEDNN_LOG)
    assert onednn.ctranslate2 == "AVX2"
    assert onednn.libraries == {"oneDNN": "Intel AVX-512 with Intel DL Boost and bfloat16 support"}
    newer = ONEDNN_LOG.replace("onednn_verbose,info,cpu", "onednn_verbose,v1,info,cpu")
    assert read_report(newer) == onednn
    assert read_report(MKL_LOG).libraries == {
        "oneMKL": "Intel(R) Advanced Vector Extensions 2 (Intel(R) AVX2) enabled processors"
    }
    assert read_report("nothing") == PeerReport(None, {})


@pytest.mark.parametrize(
    "log", [MKL_LOG, ONEDNN_LOG.replace("AVX-512 with Intel DL Boost and bfloat16 support", "AVX2")]
)
def test_a_peer_with_the_requested_instruction_set_is_measured(log: str) -> None:
    check_peer("int8", read_report(log), "avx2")
    with pytest.raises(CheckFailed, match=r"^avxvnni, int8: the peer reports CTranslate2 AVX2, "):
        check_peer("int8", read_report(log), "avxvnni")
    with pytest.raises(CheckFailed, match=r"not CTranslate2 AVX512, (oneDNN|oneMKL)"):
        check_peer("int8", read_report(log), "avx512vnni")


@pytest.mark.parametrize(
    "report",
    [
        PeerReport("AVX2", {"oneDNN": "Intel AVX-512 with Intel DL Boost and bfloat16 support"}),
        PeerReport("AVX512", {"oneDNN": "Intel AVX2"}),
        PeerReport("AVX2", {"oneDNN": None}),
        PeerReport("AVX2", {"oneDNN": "Intel AVX2", "Ruy": None}),
        PeerReport("AVX2", {}),
        PeerReport(None, {"oneDNN": "Intel AVX2"}),
    ],
)
def test_a_peer_with_another_instruction_set_is_not_measured(report: PeerReport) -> None:
    with pytest.raises(CheckFailed, match=r"^avx2, float32: the peer reports CTranslate2 "):
        check_peer("float32", report, "avx2")


def test_our_process_must_use_the_requested_instruction_set() -> None:
    check_ours("avx2", "avx2")
    with pytest.raises(CheckFailed, match="our engine uses avx512vnni instead of avx2"):
        check_ours("avx512vnni", "avx2")
    with pytest.raises(CheckFailed, match="our engine uses no compiled code instead of avx2"):
        check_ours(None, "avx2")


@pytest.mark.thorough
def test_both_sides_use_the_instruction_set_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2")
    chosen = choose_instruction_set()
    if chosen not in INSTRUCTION_SETS:
        pytest.skip(f"CTranslate2 cannot be held to {chosen}")
    instruction_set: InstructionSet = "avx2"  # all of them include it
    for name, value in environment(instruction_set).items():
        monkeypatch.setenv(name, value)
    bundle = write_random_bundle(tmp_path, SMALL)
    with (
        start_engine(bundle, "int8", "ids") as ours,
        start_engine(bundle, "fp32", "texts") as exact,
        converted(bundle) as model,
    ):
        check_ours(ours.instruction_set, instruction_set)
        assert exact.instruction_set is None
        check_peer("int8", probe_peer(model, "int8"), instruction_set)
        check_peer("float32", probe_peer(model, "float32"), instruction_set)
    with pytest.raises(DragomanError, match=r"^CTranslate2 in int8 does not translate: "):
        probe_peer(tmp_path / "missing", "int8")
