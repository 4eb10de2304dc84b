"""The bundle's graphs as separate Triton models, used by the example."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from dragoman_serving.launch.launcher import TritonServer
from dragoman_serving.launch.serve_options import ServeOptions
from tritonclient.utils import InferenceServerException

from dragoman.kernel.errors import UsageError
from tests.conftest import REPOSITORY
from tests.servers import WAIT_S, Served

SKELETON = REPOSITORY / "model_repository"
SENTENCES = ["Guten Morgen.", "Ich habe heute keine Zeit.", "Wo wohnt deine Schwester jetzt?"]


@pytest.mark.parametrize("text", SENTENCES)
def test_the_example_gets_the_same_result_as_translate(shipped_fp32: Served, text: str) -> None:
    url = shipped_fp32.server.grpc_url.removeprefix("grpc://")
    example = [sys.executable, "examples/own_loop.py", text, url]
    done = subprocess.run(
        example, capture_output=True, text=True, timeout=WAIT_S, cwd=REPOSITORY, check=True
    )
    translation = shipped_fp32.grpc.translate(text, target_language="en", beam_width=1)
    assert done.stdout == f"{translation.text}\n"


def test_only_the_input_that_does_not_fit_fails(shipped_fp32: Served) -> None:
    with triton_grpc.InferenceServerClient(
        shipped_fp32.server.grpc_url.removeprefix("grpc://")
    ) as client:
        ids = triton_grpc.InferInput("input_ids", [1, 2], "INT64")
        ids.set_data_from_numpy(np.array([[4, 3]]))
        lengths = triton_grpc.InferInput("src_lengths", [2], "INT64")
        lengths.set_data_from_numpy(np.array([2, 2]))
        with pytest.raises(InferenceServerException):
            client.infer("encoder", [ids, lengths])
        lengths = triton_grpc.InferInput("src_lengths", [1], "INT64")
        lengths.set_data_from_numpy(np.array([2]))
        cross = client.infer("encoder", [ids, lengths]).as_numpy("cross_key_0")
        assert cross.shape[0] == 1


def test_they_are_loaded_only_when_named(shipped: Served) -> None:
    url = shipped.server.grpc_url.removeprefix("grpc://")
    with triton_grpc.InferenceServerClient(url) as client:
        assert client.is_model_ready("translate")
        assert not client.is_model_ready("encoder")


def test_a_missing_model_is_named() -> None:
    with pytest.raises(UsageError, match="holds no model 'nonsense' to load"):
        TritonServer(ServeOptions(SKELETON, more_models=("nonsense",)))
