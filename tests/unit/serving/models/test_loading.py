from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.cpu import INSTRUCTION_SETS, has_instruction_set
from dragoman_serving.engine.settings import BatchLimits, EngineSettings, Tuning
from dragoman_serving.models import loading
from dragoman_serving.models.loading import (
    Layout,
    batch_limits,
    choose_cpu_layout,
    choose_layout,
    default_lone_threads,
    open_engine,
)
from dragoman_serving.service.configuration import engine_settings, request_rules

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import CheckedPrecision, Dimensions, Manifest
from tests.conftest import REPOSITORY

BASE = Dimensions(32_000, 512, 2048, 8, 6, 6)
SMALL = Dimensions(8_000, 256, 1024, 4, 6, 3)


@pytest.fixture(params=[True, False], ids=["exact", "saturating"])
def exact(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether ONNX Runtime's 8-bit products are exact."""
    monkeypatch.setattr(loading, "exact_int8_products", lambda: request.param)
    return bool(request.param)


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "sizes_obstacle", lambda _sizes: None)
    monkeypatch.setattr(loading, "choose_instruction_set", lambda: "avx2")


@pytest.fixture
def not_native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "sizes_obstacle", lambda _sizes: "the moon is full")


def layout(**settings: Any) -> Layout:
    return choose_cpu_layout(EngineSettings(**settings), SMALL)


@pytest.mark.usefixtures("native", "exact")
def test_native_int8_is_used_if_available() -> None:
    native = Layout("native", "int8", "avx2")
    assert str(native) == "int8 (native, avx2)"
    assert layout() == layout(precision="int8") == layout(runtime="native") == native
    assert layout(precision="fp32") == Layout("onnxruntime", "fp32")
    with pytest.raises(UsageError, match="runtime is native, but it computes in int8"):
        layout(precision="fp32", runtime="native")


def test_onnx_runtime_computes_in_int8_if_that_is_exact(exact: bool) -> None:
    assert layout(runtime="onnxruntime").precision == ("int8" if exact else "fp32")
    if exact:
        assert layout(runtime="onnxruntime", precision="int8").precision == "int8"
    else:
        with pytest.raises(UsageError, match="8-bit products saturate"):
            layout(runtime="onnxruntime", precision="int8")


@pytest.mark.usefixtures("native")
def test_a_precision_whose_check_failed_is_used_only_if_it_is_named(random_bundle: Path) -> None:
    manifest = Manifest.load(random_bundle)

    def chosen(failed: Sequence[CheckedPrecision], **settings: Any) -> str:
        counts = {f"verify: failed checks in {precision}": 1.0 for precision in failed}
        checked = replace(manifest, measured=counts)
        return choose_layout(EngineSettings(**settings), random_bundle, checked).precision

    assert chosen([]) == chosen(["fp32"]) == "int8"
    assert chosen(["int8"]) == "fp32"
    assert chosen(["int8"], precision="int8") == "int8"
    assert chosen(["int8", "fp32"], precision="fp32") == "fp32"
    with pytest.raises(UsageError, match="runtime is native, but it computes in int8"):
        chosen(["int8"], runtime="native")
    with pytest.raises(UsageError, match="checks failed in int8 and in fp32: convert it again"):
        chosen(["int8", "fp32"])


@pytest.mark.usefixtures("not_native")
def test_onnx_runtime_is_used_if_native_is_not_available(exact: bool) -> None:
    assert layout() == Layout("onnxruntime", "int8" if exact else "fp32")
    with pytest.raises(UsageError, match="runtime is native, but the moon is full"):
        layout(runtime="native")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler")
def test_native_is_compiled_on_supported_machines() -> None:
    """Otherwise the tests of the compiled code would be skipped unnoticed."""
    can = [name for name in INSTRUCTION_SETS if has_instruction_set(name)]
    assert library.usable_instruction_sets() == can


def test_without_the_compiled_code_there_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "is_compiled", lambda _name: False)
    with pytest.raises(UsageError, match="the engine was not compiled: install Dragoman again"):
        library.load.__wrapped__()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sse9", "DRAGOMAN_ISA is 'sse9': give one of avx512vnni, avxvnni, avx2, neon, c"),
        ("avx2", "DRAGOMAN_ISA is avx2, which this CPU lacks; it can use c"),
        ("neon", "DRAGOMAN_ISA is neon, but that library was not compiled"),
    ],
)
def test_a_forced_instruction_set_must_be_usable(
    name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_ISA", name)
    monkeypatch.setattr(library, "has_instruction_set", lambda name: name in ("neon", "c"))
    monkeypatch.setattr(library, "is_compiled", lambda name: name != "neon")
    with pytest.raises(UsageError, match=re.escape(message)):
        layout()


def test_only_large_models_step_alone_on_all_cores() -> None:
    assert default_lone_threads(BASE, 2, Tuning()) == 2
    assert default_lone_threads(SMALL, 2, Tuning()) == 1


def test_an_engine_starts_without_known_usable_processors(
    random_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    settings = EngineSettings(runtime="onnxruntime", precision="fp32")
    opened = loading.open_engine(random_bundle, Manifest.load(random_bundle), settings)
    opened.engine.close()


def test_large_models_step_more_rows() -> None:
    assert batch_limits(EngineSettings(), BASE).rows > batch_limits(EngineSettings(), SMALL).rows
    assert batch_limits(EngineSettings(max_rows=7, max_waiting=8), BASE) == BatchLimits(7, 8)


def test_workers_of_large_models_share_few_sentences() -> None:
    assert batch_limits(EngineSettings(), BASE).single_rows == 0
    assert batch_limits(EngineSettings(), SMALL).single_rows == Tuning().single_rows


def test_parameters_become_settings() -> None:
    settings = engine_settings(
        {"workers": "3", "lone_threads": "auto", "max_rows": "8", "max_waiting": "9"}
    )
    assert settings == EngineSettings(workers=3, max_rows=8, max_waiting=9)
    assert request_rules({"deadline_s": "7", "allow_priority": "true"}).deadline_s == 7
    assert request_rules({"allow_priority": "true"}).priorities


def test_every_number_of_the_tuning_is_a_parameter() -> None:
    given = {name: value + 1 for name, value in vars(Tuning()).items()}
    settings = engine_settings({name: str(value) for name, value in given.items()})
    assert settings == EngineSettings(tuning=Tuning(**given))
    assert engine_settings({}).tuning == Tuning()


def test_tuning_parameters_reach_the_layout() -> None:
    tuning = Tuning(rows_small=5, large_weights=1)
    none_is_large = replace(tuning, large_weights=10**9)
    assert batch_limits(EngineSettings(tuning=none_is_large), BASE).rows == 5
    assert batch_limits(EngineSettings(tuning=tuning), SMALL).rows == tuning.rows_large
    assert default_lone_threads(SMALL, 2, tuning) == 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"colour": "red"}, "unknown parameter 'colour'"),
        ({"runtime": "java"}, "runtime is 'java': give one of auto, onnxruntime, native, "),
        (
            {"precision": "int4"},
            "precision is 'int4': give one of auto, int8, fp8, fp32, fp16, bf16",
        ),
        ({"workers": "0"}, "workers is 0: give 1 or more"),
        ({"rows_small": "0"}, "rows_small is 0: give 1 or more"),
        ({"wait_margin": "nan"}, "wait_margin is nan: give a number above 0"),
        ({"idle_s": "soon"}, "idle_s is 'soon': give a number, or auto"),
        ({"max_rows": "many"}, "max_rows is 'many': give a number, or auto"),
        ({"allow_priority": "yes"}, "allow_priority is 'yes': give true or false"),
        ({"deadline_s": "0"}, "deadline_s is 0: give 1 or more"),
    ],
)
def test_wrong_parameters_are_refused_by_name(parameters: dict[str, str], message: str) -> None:
    def read() -> None:
        engine_settings(parameters)
        request_rules(parameters)

    with pytest.raises(UsageError) as caught:
        read()
    assert message in str(caught.value)


def test_the_table_of_the_tuning_is_complete() -> None:
    page = (REPOSITORY / "docs" / "deployment.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", page, re.MULTILINE)
    assert {name: float(value) for name, value in table} == vars(Tuning())


def test_more_candidates_than_the_code_ranks_are_refused(random_bundle: Path) -> None:
    manifest = Manifest.load(random_bundle)
    limits = replace(manifest.limits, top_k=library.MOST_BEST + 1)
    with pytest.raises(UsageError, match=r"limits.top_k is 1025, more than the maximum of 1024"):
        open_engine(random_bundle, replace(manifest, limits=limits), EngineSettings())
