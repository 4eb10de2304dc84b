"""What LibreTranslate's own server imports to translate: a plug-in for its process.

That server is a program of its own, in an environment of its own, unchanged; it imports Argos
Translate, in whose place this module answers, imported by a `sitecustomize.py`. It translates in
one of three ways, by the variables that are set:

- As Argos Translate does: CTranslate2 in this process, one text at a time.
- By our engine: it asks Triton over HTTP, in the thread that asks.
- By one of `made_up_translators`.

What takes HTML apart is Argos Translate's own module `tags`, and that of argos-translate-files.
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
"""Variable with host and port of Triton's HTTP."""
MODEL, TOKENIZER = "DRAGOMAN_BENCHMARK_CTRANSLATE2", "DRAGOMAN_BENCHMARK_TOKENIZER"
"""Variables with a model's folder and its vocabulary's file."""
LENGTH_PENALTY = "DRAGOMAN_BENCHMARK_LENGTH_PENALTY"
"""Variable with that of the search of CTranslate2."""
MADE_UP = "DRAGOMAN_BENCHMARK_MADE_UP"
"""Variable with the name of a translator of `made_up_translators`."""
_END = "</s>"
_PATH = "/v2/models/translate/generate"
_NAMES = {"en": "English", "de": "German", "fr": "French"}
_threads = threading.local()


class Hypothesis(NamedTuple):
    """A translation, as Argos Translate has it."""

    value: str
    score: float


class Translation:
    """Translates from one language to another, as Argos Translate does."""

    def __init__(self, src: str, tgt: str) -> None:
        """Begin."""
        self._src, self._tgt = src, tgt

    def hypotheses(self, text: str, number: int) -> list[Hypothesis]:
        """The best translation; the load asks for one."""
        return [Hypothesis(self.translate(text), 0.0)]

    def translate(self, text: str) -> str:
        """A translation."""
        if MADE_UP in os.environ:
            return _made_up(text)
        translate = _by_ctranslate2 if MODEL in os.environ else _by_triton
        return translate(text, self._src, self._tgt)


def _made_up(text: str) -> str:
    # Beside this file in the other server's process, where our packages are not.
    from made_up_translators import TRANSLATORS  # type: ignore[import-not-found]

    return str(TRANSLATORS[os.environ[MADE_UP]](text))


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

    # Two texts at once, on a core each: the best for many requests. Argos Translate's default is
    # one text at a time.
    translator = ctranslate2.Translator(
        os.environ[MODEL], compute_type="int8", inter_threads=2, intra_threads=1
    )
    return translator, sentencepiece.SentencePieceProcessor(model_file=os.environ[TOKENIZER])


class Language:
    """A language, as Argos Translate has it."""

    def __init__(self, code: str) -> None:
        """Begin."""
        self.code, self.name = code, _NAMES[code]
        self.translations_from: list[Any] = []
        self.translations_to: list[Any] = []

    def get_translation(self, to: Language) -> Translation:
        """What translates into another language."""
        return Translation(self.code, to.code)


def install() -> None:
    """Put modules in the place of those that are not installed."""
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
