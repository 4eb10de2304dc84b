"""LibreTranslate's own code around a bundle's weights, as what `lab.fidelity` is compared with.

Its licence is the AGPL, and it pins old packages: it runs in an environment of its own.

    python -m venv PEER && PEER/bin/pip install libretranslate==1.9.6
    python -m lab.fidelity --bundle libretranslate:PEER/bin/python --data-dir CORPORA

A model of LibreTranslate is an Argos package: a CTranslate2 model of one direction with its
tokenizer. Its models that cut sentences are downloads, so each line is one sentence here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dragoman_serving.launch.ports import free_ports

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import language_tag
from lab.peers.models.ctranslate2_model import convert

PREFIX = "libretranslate:"
_SERVER = """
from argostranslate.sbd import MiniSBDSentencizer
MiniSBDSentencizer.split_sentences = lambda self, text: [text]
from libretranslate.main import main
main()
"""
_START_S = 120
_REQUEST_S = 600
_AT_ONCE = 20
"""Texts of a request: LibreTranslate translates one after the other."""


@contextlib.contextmanager
def libretranslate(python: Path, bundle: Path) -> Iterator[LibreTranslate]:
    """A running server.

    Args:
        python: interpreter of the environment that has LibreTranslate.
        bundle: folder of a bundle, or of a checkpoint.

    Raises:
        DragomanError: the server does not start.
    """
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(folder) / "packages"
        write_packages(bundle, packages)
        (port,) = free_ports(1)
        words = [
            str(python),
            "-c",
            _SERVER,
            f"--port={port}",
            "--disable-web-ui",
            "--char-limit=-1",
        ]
        environment = os.environ | {"ARGOS_PACKAGES_DIR": str(packages), "HOME": folder}
        with (
            Path(folder, "log").open("wb") as log,
            subprocess.Popen(words, env=environment, stdout=log, stderr=log) as process,
        ):
            try:
                server = LibreTranslate(port)
                deadline_s = time.monotonic() + _START_S
                while not server.is_ready():
                    if process.poll() is not None or time.monotonic() > deadline_s:
                        last = Path(folder, "log").read_text().splitlines()[-1:]
                        raise DragomanError(f"LibreTranslate does not start: {last}")
                    time.sleep(0.5)
                yield server
            finally:
                process.kill()


def write_packages(bundle: Path, packages: Path) -> None:
    """Write an Argos package for each direction of a bundle.

    Args:
        bundle: folder of the bundle.
        packages: folder to create.
    """
    languages = Manifest.load(bundle).languages
    shared = packages / "model"
    convert(bundle, shared)
    for src, tgt in permutations(languages, 2):
        package = packages / f"translate-{src}_{tgt}-1_0"
        (package / "minisbd").mkdir(parents=True)
        (package / "minisbd" / "unused.onnx").touch()
        model = shutil.copytree(shared, package / "model", copy_function=os.link)
        config = json.loads((model / "config.json").read_text())
        # The model reads a target language first, and an end, which Argos does not write.
        config |= {"add_source_bos": True, "bos_token": language_tag(tgt), "add_source_eos": True}
        (model / "config.json").unlink()
        (model / "config.json").write_text(json.dumps(config))
        shutil.copy(bundle / "tokenizer.model", package / "sentencepiece.model")
        facts = {"package_version": "1.0", "argos_version": "1.0", "type": "translate"}
        facts |= {"from_code": src, "from_name": src, "to_code": tgt, "to_name": tgt}
        (package / "metadata.json").write_text(json.dumps(facts))
    shutil.rmtree(shared)


class LibreTranslate:
    """The protocol of a server."""

    def __init__(self, port: int) -> None:
        """Store the server's port on this machine."""
        self._port = port

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            return bool(self._answer("GET", "/languages"))
        except OSError:
            return False

    def translate(self, texts: Sequence[str], options: Mapping[str, Any]) -> list[SimpleNamespace]:
        """Translate texts; of the options, it has only the languages.

        Raises:
            DragomanError: the server refuses the texts.
        """
        languages = {name: options[f"{name}_language"] for name in ("source", "target")}
        translations: list[SimpleNamespace] = []
        for begin in range(0, len(texts), _AT_ONCE):
            body = {"q": list(texts[begin : begin + _AT_ONCE]), **languages}
            answer = self._answer("POST", "/translate", body)
            if "translatedText" not in answer:
                raise DragomanError(f"LibreTranslate: {answer}")
            translations += (
                SimpleNamespace(text=text, codes=None) for text in answer["translatedText"]
            )
        return translations

    def _answer(self, method: str, path: str, body: Any = None) -> Any:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=_REQUEST_S)
        with contextlib.closing(connection):
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, body and json.dumps(body), headers)
            return json.load(connection.getresponse())
