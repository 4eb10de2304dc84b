"""Coverage-guided fuzz targets for parsers of external input: `input_targets TARGET CORPUS ...`.

CORPUS is an empty folder; options of libFuzzer follow. A target takes bytes. It may raise the
errors that it documents; any other error ends the fuzzer, which then writes the bytes to a file.
Runs in a separate process, because libFuzzer ends its process.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["dragoman", "dragoman_options", "dragoman_serving"]):
    from dragoman_options import frames
    from dragoman_options.frames import Damaged, FrameSplitter
    from dragoman_options.refusal import Refused
    from dragoman_options.table import TRANSLATE
    from dragoman_serving.fidelity.literals import known_literals, tag_spans
    from dragoman_serving.request.checks import check_options
    from dragoman_serving.request.glossary import Glossary
    from dragoman_serving.request.suppression import suppressed_words
    from dragoman_serving.service.requests import RequestReader, RequestRules

    from dragoman.kernel.errors import DragomanError
    from dragoman.kernel.manifest import FILE_NAME, Limits, Manifest
    from dragoman.kernel.text import Tokenizer
    from dragoman.kernel.texts.sentences import split_sentences

from dragoman_options.client_frames import pack_cancel, pack_hello, pack_request, request_of

_BUNDLE = Path(__file__).parents[2] / "model_repository/translate/1/bundle"
_UNPACK: Sequence[Callable[[bytes], object]] = (
    frames.Hello.unpack,
    frames.RequestParser().parse,
    frames.RequestOptions.unpack,
    frames.unpack_cancel,
)
_TEXT_BYTES = 2000

Target = Callable[[bytes], None]


def _frames() -> Target:
    """The frame reader of the engine's process, and the requests in the frames."""

    def target(data: bytes) -> None:
        splitter, half = FrameSplitter(), len(data) // 2
        with suppress(Damaged):  # the only error that it may raise
            for part in (data[:half], data[half:]):
                for _, body in splitter.feed(part):
                    _unpack(body)
        _unpack(data)

    return target


def _unpack(body: bytes) -> None:
    for unpack in _UNPACK:
        try:
            unpack(body)
        except (Damaged, frames.OtherProtocol):
            continue
    with suppress(Damaged, DragomanError, Refused):
        RequestReader(RequestRules(priorities=True)).read(frames.RequestParser().parse(body))


def _manifest() -> Target:
    """A bundle's manifest, beside files with the digests of the seed's."""
    bundle = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, bundle, ignore_errors=True)
    for name in Manifest.load(_BUNDLE).files:
        (bundle / name).write_bytes(b"")

    def target(data: bytes) -> None:
        (bundle / FILE_NAME).write_bytes(data)
        with suppress(DragomanError):
            Manifest.load(bundle)

    return target


def _options() -> Target:
    """A request's options as JSON, and the code that parses their texts."""
    tokenizer = Tokenizer(_BUNDLE / "tokenizer.model")
    limits, vocab_size = Manifest.load(_BUNDLE).limits, tokenizer.vocab_size

    def target(data: bytes) -> None:
        text = data.decode("utf-8", errors="replace")
        with suppress(DragomanError):
            glossary = check_options({"glossary": text}, TRANSLATE, limits).get("glossary")
            Glossary(glossary or {}).of(text)
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(values, dict):
            _check(values, limits, vocab_size, tokenizer)

    return target


def _check(
    values: dict[str, object], limits: Limits, vocab_size: int, tokenizer: Tokenizer
) -> None:
    with suppress(DragomanError):
        options = check_options(values, TRANSLATE, limits, vocab_size)
        suppressed_words(options.get("suppress") or (), tokenizer.vocabulary)
        Glossary(options.get("glossary") or {})


def _tokens() -> Target:
    """A text on its way to the encoder: sentences, placeholders, tokens and back."""
    tokenizer = Tokenizer(_BUNDLE / "tokenizer.model")

    def target(data: bytes) -> None:
        text = data[:_TEXT_BYTES].decode("utf-8", errors="replace")
        ids = tokenizer.encode(text)
        assert all(0 <= token < tokenizer.vocab_size for token in ids)
        tokenizer.decode(ids)
        tokenizer.decoded_pieces(ids)
        assert [piece.id for piece in tokenizer.pieces(text)] == ids
        assert all(literal.begin < literal.end for literal in known_literals(text))
        tag_spans(text)
        assert "".join(map("".join, split_sentences(text, "en"))) == text

    return target


TARGETS: dict[str, Callable[[], Target]] = {
    "frames": _frames,
    "manifest": _manifest,
    "options": _options,
    "tokens": _tokens,
}


def seeds(name: str) -> list[bytes]:
    """Valid inputs to start from."""
    if name == "frames":
        tensor = frames.Tensor.of("text_input", frames.DataType.BYTES, (1, 1), [b"Good morning."])
        parameters = {"beam_width": 4, "timeout": 10, "target_language": "de"}
        request = request_of(1, 0, parameters, ("text_output",), (tensor,))
        packed = [
            pack_request(request),
            pack_hello(frames.Hello("translate")),
            frames.Answer(1, (tensor,)).pack(),
            frames.Failure(1, frames.ErrorCode.CANCELLED, "late").pack(),
            frames.pack_figures([frames.Figure(True, "rows", "Rows", 1.0)]),
            pack_cancel(1),
        ]
        return packed + [frame[5:] for frame in packed]
    if name == "manifest":
        manifest = json.loads((_BUNDLE / FILE_NAME).read_text(encoding="utf-8"))
        manifest["files"] = dict.fromkeys(manifest["files"], hashlib.sha256(b"").hexdigest())
        return [json.dumps(manifest).encode()]
    if name == "options":
        return [
            b'{"glossary": "{\\"tea\\": \\"Tee\\"}", "suppress": ["Tee"], "beam_width": 4}',
            b'{"temperature": 0.5, "top_k": 5, "seed": 1, "prefix": "Der"}',
            b'{"tea": "Tee", "cup of tea": "Tasse Tee"}',
        ]
    return [
        b"Good morning. It is {name}'s <b>12,5</b> kg.\n\nSee \xc2\xa7 3.",
        "Größe ▁ 😀".encode(),
    ]


def main(arguments: list[str]) -> None:
    """Fuzz a target; does not return."""
    name, corpus = arguments[1:3]
    for number, seed in enumerate(seeds(name)):
        (Path(corpus) / f"seed-{number}").write_bytes(seed)
    target = TARGETS[name]()
    atheris.Setup([arguments[0], *arguments[2:]], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
