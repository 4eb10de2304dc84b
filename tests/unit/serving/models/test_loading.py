from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.settings import BatchLimits, EngineSettings, Tuning
from dragoman_serving.models import loading
from dragoman_serving.models.loading import (
    batch_limits,
    choose_cpu_precision,
    choose_cpu_runtime,
    default_lone_threads,
)
from dragoman_serving.service.configuration import engine_settings, request_rules

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Dimensions, Manifest
from tests.conftest import REPOSITORY

BASE = Dimensions(32_000, 512, 2048, 8, 6, 6)
SMALL = Dimensions(8_000, 256, 1024, 4, 6, 3)


@pytest.mark.parametrize(
    ("asked", "exact", "given"),
    [
        ("auto", True, "int8"),
        ("auto", False, "fp32"),
        ("fp32", True, "fp32"),
        ("int8", True, "int8"),
    ],
)
def test_int8_is_used_where_it_is_exact(
    asked: str, exact: bool, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "exact_int8_products", lambda: exact)
    settings = engine_settings({"precision": asked})
    assert choose_cpu_precision(settings) == given


def test_int8_is_refused_where_it_saturates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "exact_int8_products", lambda: False)
    with pytest.raises(UsageError, match="8-bit products saturate"):
        choose_cpu_precision(EngineSettings(precision="int8"))


def test_native_is_used_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "exact_int8_products", lambda: True)
    monkeypatch.setattr(loading, "native_obstacle", lambda sizes: None)
    assert choose_cpu_runtime(EngineSettings(), SMALL) == "native"
    assert choose_cpu_runtime(EngineSettings(runtime="onnxruntime"), SMALL) == "onnxruntime"
    assert choose_cpu_runtime(EngineSettings(precision="fp32"), SMALL) == "onnxruntime"
    with pytest.raises(UsageError, match="runtime is native, but it computes in int8"):
        choose_cpu_runtime(EngineSettings(precision="fp32", runtime="native"), SMALL)
    monkeypatch.setattr(loading, "native_obstacle", lambda sizes: "the moon is full")
    assert choose_cpu_runtime(EngineSettings(), SMALL) == "onnxruntime"
    with pytest.raises(UsageError, match="runtime is native, but the moon is full"):
        choose_cpu_runtime(EngineSettings(runtime="native"), SMALL)


def test_native_is_compiled_where_it_could_be() -> None:
    """Else its own tests would be skipped, and nobody would know."""
    if library.lacking_instructions() or shutil.which("gcc") is None:
        pytest.skip("no AVX-512 VNNI, or no compiler")
    assert library.is_compiled()


def test_without_the_compiled_code_onnx_runtime_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "exact_int8_products", lambda: True)
    monkeypatch.setattr(library, "is_compiled", lambda: False)
    assert choose_cpu_runtime(EngineSettings(), SMALL) == "onnxruntime"


def test_only_large_models_step_alone_on_all_cores() -> None:
    assert default_lone_threads(BASE, 2, Tuning()) == 2
    assert default_lone_threads(SMALL, 2, Tuning()) == 1


def test_an_engine_starts_where_the_system_knows_no_usable_processors(
    random_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    settings = EngineSettings(runtime="onnxruntime", precision="fp32")
    opened = loading.open_engine(random_bundle, Manifest.load(random_bundle), settings)
    opened.engine.close()


def test_large_models_step_more_rows() -> None:
    assert batch_limits(EngineSettings(), BASE).rows > batch_limits(EngineSettings(), SMALL).rows
    assert batch_limits(EngineSettings(max_rows=7, max_waiting=8), BASE) == BatchLimits(7, 8)


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


def test_what_is_tuned_reaches_the_layout() -> None:
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


def test_the_table_of_the_tuning_is_whole() -> None:
    page = (REPOSITORY / "docs" / "deployment.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", page, re.MULTILINE)
    assert {name: float(value) for name, value in table} == vars(Tuning())
