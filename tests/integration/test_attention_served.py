"""Attention of all heads, through the server: over both protocols, and drawn without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dragoman_client import InvalidRequest
from dragoman_client import Translator as Client

from dragoman.cli import main
from dragoman.kernel.attention_maps import KINDS
from tests.conftest import CommandLine
from tests.drawings import data_of
from tests.integration.test_served_translations import BUNDLE
from tests.servers import WAIT_S, Served

TEXT = "The animal didn't cross the street because it was too tired."
TARGET = "Das Tier überquerte die Straße nicht, weil es zu müde war."


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_translations_can_include_attention(shipped: Served, protocol: str) -> None:
    client: Client = getattr(shipped, protocol)
    (plain,) = client.translate([TEXT])
    assert plain.attention is None
    (translation,) = client.translate([TEXT], return_attention=True, return_token_scores=True)
    assert translation.text == plain.text
    assert translation.attention is not None
    assert translation.token_scores is not None
    assert translation.attention.said == translation.token_scores.tokens
    with pytest.raises(ValueError, match="return_attention: not with split_sentences"):
        client.translate([TEXT], return_attention=True, split_sentences=True)
    with pytest.raises(InvalidRequest, match=r"return_attention: .* weights, more than 1000000"):
        client.translate([TEXT] * 100, return_attention=True)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_attention_is_drawn_without_torch(shipped: Served, protocol: str, tmp_path: Path) -> None:
    url = shipped.server.grpc_url if protocol == "grpc" else shipped.server.http_url
    out = tmp_path / "attention.html"
    words = ["attention", TEXT, "--server", url, "--target-language", "de", "--out", str(out)]
    code = (
        "import sys; from dragoman.cli import main\n"
        f"assert main({words!r}) == 0\n"
        "assert not {'torch', 'onnx', 'onnxruntime', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=WAIT_S)
    served = data_of(out)
    local = tmp_path / "local.html"
    given = ("--translation", served["translation"], "--target-language", "de")
    assert main(["attention", TEXT, "--model", str(BUNDLE), "--out", str(local), *given]) == 0
    right = data_of(local)
    assert served.keys() == right.keys()
    for name, value in right.items():
        if name in KINDS:
            np.testing.assert_allclose(served[name], value, atol=2e-5)
        else:
            assert served[name] == value


def test_the_servers_refusals_are_shown_in_one_line(
    shipped: Served, tmp_path: Path, cli: CommandLine
) -> None:
    url, out = shipped.server.grpc_url, str(tmp_path / "a.html")
    for words, message in (
        (["", "--target-language", "de"], "the text is empty: give a sentence"),
        (["a", "--target-language", "xx"], "target_language 'xx' is unknown"),
        (["a", "--layer", "9"], "--layer 9: cross attention has layers 0 to"),
    ):
        assert message in cli.refusal("attention", *words, "--server", url, "--out", out)
