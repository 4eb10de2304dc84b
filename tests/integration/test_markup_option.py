"""The option `markup`: elements of a text placed in its translation, by the real server."""

from __future__ import annotations

import json

import pytest
from dragoman_client import InvalidRequest, Translation
from dragoman_options.markup import Code, Markup

from tests.servers import Served

TEXT = "I like red cars. Press the button."
RED = TEXT.index("red")
LINK = Markup((Code(RED, RED + 8), Code(RED, RED + 3, 0), Code(16, 16)))
"""A link around `red cars`, bold type within it, and a line break between the sentences."""


def marked(translation: Translation) -> list[str]:
    assert translation.codes is not None
    return [translation.text[begin:end] for begin, end in translation.codes.codes]


def test_codes_are_placed_over_both_protocols(shipped: Served) -> None:
    for client in (shipped.grpc, shipped.http):
        plain = client.translate(TEXT, target_language="de")
        translation = client.translate(TEXT, target_language="de", markup=LINK)
        assert translation.text == plain.text == "Ich mag rote Autos. Drücke den Knopf."
        assert marked(translation) == ["rote Autos", "rote", ""]
        assert translation.codes is not None
        assert translation.codes.codes[2] == (19, 19)
        assert translation.codes.uncertain == 0
        assert plain.codes is None


def test_kept_words_are_repeated(shipped: Served) -> None:
    text = "Call the function get_size_of_x now."
    begin = text.index("get")
    for width in (1, 4):
        translation = shipped.grpc.translate(
            text,
            target_language="de",
            beam_width=width,
            markup={"codes": [[begin, begin + 13]], "keep": [[begin, begin + 13]]},
        )
        assert "get_size_of_x" in translation.text
        assert marked(translation) == ["get_size_of_x"]


def test_kept_words_may_be_longer_than_a_sentence(shipped: Served) -> None:
    code = " ".join(f"x{number} = get(bar_{number});" for number in range(40))  # 500 tokens
    text = f"Write {code} at the end of the file."
    span = 6, 6 + len(code)
    translation = shipped.grpc.translate(
        text, target_language="de", markup={"codes": [[0, len(text)], [*span, 0]], "keep": [span]}
    )
    assert marked(translation) == [translation.text, code]
    assert len(translation.text) > len(code) + 10


def test_the_last_part_of_a_stream_has_the_codes(shipped: Served) -> None:
    for client in (shipped.grpc, shipped.http):
        *parts, last = client.translate_stream(TEXT, target_language="de", markup=LINK)
        assert all(part.codes is None for part in parts)
        assert marked(last) == ["rote Autos", "rote", ""]


def test_with_other_outputs(shipped: Served) -> None:
    translation = shipped.grpc.translate(
        TEXT,
        target_language="de",
        markup=LINK,
        return_token_scores=True,
        return_alignments="hard",
        glossary={"button": "Schalter"},
    )
    assert marked(translation)[:2] == ["rote Autos", "rote"]
    assert "Schalter" in translation.text
    assert translation.token_scores is not None
    assert translation.alignments is not None


def test_options_that_markup_excludes(shipped: Served) -> None:
    for name, value in (("prefix", "Ich"), ("seed", 1)):
        body = {"text_input": TEXT, "markup": str(LINK), name: value}
        status, answer = shipped.generate(body)
        message = f'markup: not with {name} {{"kind":"invalid","option":"markup"}}'
        assert (status, answer["error"]) == (400, message)
    with pytest.raises(InvalidRequest, match="markup of text 0: code 0 is 0 to 99"):
        shipped.grpc.translate("a", markup={"codes": [[0, 99]]})


def test_raw_http(shipped: Served) -> None:
    status, answer = shipped.generate(
        {"text_input": TEXT, "target_language": "de", "markup": str(LINK)}
    )
    assert status == 200
    assert json.loads(answer["codes"])["codes"][0] == [8, 18]
