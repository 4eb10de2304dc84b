"""A replacement for Argos Translate in LibreTranslate's server.

The server is a separate, unmodified program in its own environment. It imports Argos Translate; a
`sitecustomize.py` makes it import this module instead. Environment variables select one of two
ways to translate:

- As Argos Translate does: CTranslate2 in this process, one text at a time.
- By our engine: a request to Triton over HTTP, in the requesting thread.
"""

from __future__ import annotations

import functools
import http.client
import json
import os
import sys
import sysconfig
import threading
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

TRITON = "DRAGOMAN_BENCHMARK_TRITON"
"""Environment variable with host and port of Triton's HTTP."""
MODEL, TOKENIZER = "DRAGOMAN_BENCHMARK_CTRANSLATE2", "DRAGOMAN_BENCHMARK_TOKENIZER"
"""Environment variables with a model's folder and its vocabulary's file."""
LENGTH_PENALTY = "DRAGOMAN_BENCHMARK_LENGTH_PENALTY"
"""Environment variable with the length penalty of CTranslate2's search."""
_END = "</s>"
_PATH = "/v2/models/translate/generate"
_NAMES = {"en": "English", "de": "German", "fr": "French"}
_threads = threading.local()


class Hypothesis(NamedTuple):
    """A translation, with Argos Translate's interface."""

    value: str
    score: float


class Translation:
    """Translates from one language to another, with Argos Translate's interface."""

    def __init__(self, src: str, tgt: str) -> None:
        """Begin."""
        self._src, self._tgt = src, tgt

    def hypotheses(self, text: str, number: int) -> list[Hypothesis]:
        """The best translation; the load asks for only one."""
        return [Hypothesis(self.translate(text), 0.0)]

    def translate(self, text: str) -> str:
        """A translation."""
        translate = _by_ctranslate2 if MODEL in os.environ else _by_triton
        return translate(text, self._src, self._tgt)


def _by_triton(text: str, src: str, tgt: str) -> str:
    body = json.dumps({"text_input": text, "source_language": src, "target_language": tgt})
    connection = getattr(_threads, "connection", None)
    if connection is None:
        connection = _threads.connection = http.client.HTTPConnection(os.environ[TRITON])
    connection.request("POST", _PATH, body)
    return str(json.loads(connection.getresponse().read())["text_output"])


def _by_ctranslate2(text: str, src: str, tgt: str) -> str:
    translator, pieces = _loaded()
    (found,) = translator.translate_batch(
        [[f"<2{tgt}>", *pieces.EncodeAsPieces(text), _END]],
        beam_size=4,
        length_penalty=float(os.environ[LENGTH_PENALTY]),
    )
    return str(pieces.DecodePieces(found.hypotheses[0]))


@functools.cache
def _loaded() -> tuple[Any, Any]:
    import ctranslate2
    import sentencepiece

    # Two texts at once, each on its own core: the best setting for many requests. Argos Translate's
    # default is one text at a time.
    translator = ctranslate2.Translator(
        os.environ[MODEL], compute_type="int8", inter_threads=2, intra_threads=1
    )
    return translator, sentencepiece.SentencePieceProcessor(model_file=os.environ[TOKENIZER])


class Language:
    """A language, with Argos Translate's interface."""

    def __init__(self, code: str) -> None:
        """Begin."""
        self.code, self.name = code, _NAMES[code]
        self.translations_from: list[Any] = []
        self.translations_to: list[Any] = []

    def get_translation(self, to: Language) -> Translation:
        """The translator into another language."""
        return Translation(self.code, to.code)


def install() -> None:
    """Register modules in place of those that are not installed."""
    languages = [Language(code) for code in _NAMES]
    packages = Path(sysconfig.get_path("purelib"))
    members: dict[str, dict[str, Any]] = {
        "argostranslate": {"__path__": [str(packages / "argostranslate")]},
        "argostranslate.translate": {
            "get_installed_languages": lambda: languages,
            "ITranslation": Translation,
        },
        "argostranslate.package": {"get_installed_packages": lambda: languages},
        "argostranslatefiles": {
            "__path__": [str(packages / "argostranslatefiles")],
            "get_supported_formats": list,
        },
        "minisbd": {"download_models": None},
    }
    for name, found in members.items():
        module = ModuleType(name)
        vars(module).update(found)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


install()
