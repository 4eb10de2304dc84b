"""The HTTP APIs for load tests: Triton's, and the protocols of a gateway.

Source: docs/api.md; https://libretranslate.com/docs; https://developers.deepl.com/docs
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dragoman_client.core.access import Access
from dragoman_client.core.errors import from_status
from dragoman_client.core.request import Part, build_inputs
from dragoman_client.transports import http_wire, own_wire
from dragoman_options.table import STREAM, TRANSLATE

from dragoman_load_test.requests import messages
from dragoman_load_test.requests.messages import Answer

ApiName = Literal["triton", "own", "libretranslate", "deepl"]
_TITLES = {"own": "own API", "libretranslate": "LibreTranslate", "deepl": "DeepL"}
_LANGUAGES = ("source_language", "target_language")
_MODEL_TYPES = {1: "latency_optimized", 4: "quality_optimized"}
"""DeepL's model types by the beam width that the gateway uses for them."""

ReadLine = Callable[[bytes], Part | None]


@dataclass(frozen=True)
class HttpApi:
    """How to send texts over HTTP, and to parse answers.

    Attributes:
        title: name in reports.
        path: path of requests that are not streamed, relative to the URL.
        write: returns the body of a request, from texts, options, timeout in seconds and whether
            it is streamed.
        read: parses an answer; raises `ValueError` if it is malformed.
        check: raises the error of an answer whose status is not 200.
        headers: headers of every request.
        stream_path: path of streams; None: no streams.
        line_reader: makes a parser of a stream's lines.
    """

    title: str
    path: str
    write: Callable[[Sequence[str], Mapping[str, Any], float, bool], bytes]
    read: Callable[[bytes], Answer]
    check: Callable[[int, str | None, bytes], None]
    headers: Mapping[str, str] = field(default_factory=dict)
    stream_path: str | None = None
    line_reader: Callable[[], ReadLine] | None = None


def http_api(name: ApiName, access: Access, options: Mapping[str, Any]) -> HttpApi:
    """Returns the API with a name.

    Args:
        name: name of the API.
        access: credentials of every request; the token is a gateway's API key.
        options: options of every request.

    Raises:
        ValueError: the API does not have an option, or a required option is missing.
    """
    if name == "libretranslate":
        _check_options(name, options, _LANGUAGES)
        headers = {k: v for k, v in access.all_headers.items() if k != "authorization"}
        return HttpApi(
            _TITLES[name],
            "/translate",
            lambda texts, options, *_: _write_libretranslate(texts, options, access.token),
            _read_libretranslate,
            http_wire.check_status,
            headers,
        )
    if name == "deepl":
        _check_options(name, options, (*_LANGUAGES, "beam_width"))
        if options.get("beam_width") not in (None, *_MODEL_TYPES):
            raise ValueError("beam_width: DeepL's protocol has only 1 and 4, as model types")
        key = {"authorization": f"DeepL-Auth-Key {access.token}"} if access.token else {}
        headers = {**access.all_headers, **key}
        return HttpApi(
            _TITLES[name],
            "/v2/translate",
            lambda texts, options, *_: _write_deepl(texts, options),
            _read_deepl,
            _check_deepl,
            headers,
        )
    if name == "own":
        return HttpApi(
            _TITLES[name],
            own_wire.TRANSLATE_PATH,
            _write_own,
            lambda body: messages.answer_of(
                own_wire.read_answers("the gateway", "translations", 1, 200, None, body)
            ),
            own_wire.check_status,
            access.all_headers,
            own_wire.STREAM_PATH,
            lambda: own_wire.EventReader("the gateway").part,
        )
    return HttpApi(
        "HTTP",
        f"/v2/models/{TRANSLATE}/generate",
        lambda texts, options, timeout_s, _: messages.generate_request(texts, options, timeout_s),
        lambda body: messages.answer_of(http_wire.read_answer("Triton", 200, None, body)),
        http_wire.check_status,
        access.all_headers,
        f"/v2/models/{STREAM}/generate_stream",
        lambda: http_wire.event_part,
    )


def _check_options(name: str, options: Mapping[str, Any], known: Sequence[str]) -> None:
    for option in options:
        if option not in known:
            raise ValueError(f"{option}: {_TITLES[name]}'s protocol has no such option")
    if "target_language" not in options:
        raise ValueError(f"target_language: {_TITLES[name]}'s protocol needs one")


def _write_own(
    texts: Sequence[str], options: Mapping[str, Any], _timeout_s: float, streamed: bool
) -> bytes:
    return own_wire.request_body(build_inputs(texts, options), streamed)


def _write_libretranslate(
    texts: Sequence[str], options: Mapping[str, Any], key: str | None
) -> bytes:
    values = {
        "q": texts[0] if len(texts) == 1 else list(texts),
        "source": options.get("source_language", "auto"),
        "target": options["target_language"],
        "format": "text",
    }
    return _json(values if key is None else {**values, "api_key": key})


def _read_libretranslate(body: bytes) -> Answer:
    with messages.reading("an answer of LibreTranslate's protocol"):
        translated = json.loads(body)["translatedText"]
        texts = [translated] if isinstance(translated, str) else translated
        return Answer(tuple(map(str, texts)), 0)


def _write_deepl(texts: Sequence[str], options: Mapping[str, Any]) -> bytes:
    values: dict[str, Any] = {"text": list(texts), "target_lang": options["target_language"]}
    if "source_language" in options:
        values["source_lang"] = options["source_language"]
    if "beam_width" in options:
        values["model_type"] = _MODEL_TYPES[options["beam_width"]]
    return _json(values)


def _read_deepl(body: bytes) -> Answer:
    with messages.reading("an answer of DeepL's protocol"):
        return Answer(
            tuple(str(translation["text"]) for translation in json.loads(body)["translations"]), 0
        )


def _check_deepl(status: int, retry_after: str | None, body: bytes) -> None:
    try:
        message = str(json.loads(body)["message"])
    except (KeyError, TypeError, ValueError):
        return http_wire.check_status(status, retry_after, body)
    if status != 200:
        raise from_status(str(status), message, retry_after)
    return None


def _json(values: Any) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode()
