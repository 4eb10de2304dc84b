"""Converts DeepL's parameters of a translation to options of the server, or refuses them.

Features that a translation model does not have are refused by name: answering a request for formal
German with any German would be wrong.

Source: https://developers.deepl.com/api-reference/translate
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput, Unsupported
from dragoman_gateway.protocols.deepl.deepl_languages import source_language, target_language
from dragoman_gateway.reader.marked import TEXT_FORMATS, TextForm
from dragoman_gateway.texts.languages import Languages
from dragoman_gateway.web.fields import Fields
from dragoman_gateway.web.requests import GatewayRequest

Split = Literal["0", "1", "nonewlines"]

_SPLITS: tuple[Split, ...] = ("0", "1", "nonewlines")
_FORMALITIES_TO_REFUSE = ("more", "less")
_FORMALITIES = ("default", "prefer_more", "prefer_less", *_FORMALITIES_TO_REFUSE)
_FAST, _GOOD = "latency_optimized", "quality_optimized"
_MODEL_TYPES = (_FAST, _GOOD, "prefer_quality_optimized")
_MOST_GLOSSARIES = 5
_NOT_OFFERED = {
    "style_id": "style rules are not offered",
    "custom_instructions": "a translation model does not support instructions",
}
_PERCENT = 100
_VERSIONS = ("v1", "v2")


class Call(NamedTuple):
    """A request with its fields and its sender."""

    request: GatewayRequest
    fields: Fields
    caller: Caller

    def path(self, name: str) -> str:
        """Returns a parameter of the path."""
        return str(self.request.path_params[name])


@dataclass(frozen=True)
class TextOptions:
    """The options of a translation.

    Attributes:
        options: options of the server, and `glossary_ids` and `memory_id`.
        split: "1": a line break ends a sentence; "nonewlines": it does not; "0": each text is one
            sentence.
        model_type_used: the model type for the answer; None: not requested.
        shows_billed_characters: whether the answer has the billed characters.
        form: how the texts' markup is read; None: no markup.
    """

    options: dict[str, Any]
    split: Split
    model_type_used: str | None
    shows_billed_characters: bool
    form: TextForm | None = None


def text_options(fields: Fields, written_target: str) -> TextOptions:
    """Read the options of a request for texts.

    Args:
        fields: fields of the request.
        written_target: the target language as in the request, for messages.

    Raises:
        InvalidInput: a value is not in DeepL's documentation.
        Unsupported: a parameter is not supported.
    """
    refuse_what_is_not_offered(fields, written_target)
    form = _text_form(fields)
    split = _split(fields)
    options: dict[str, Any] = {}
    if glossaries := glossary_ids(fields):
        options["glossary_ids"] = glossaries
    options |= memory_of(fields)
    used = None
    if (model_type := fields.text("model_type")) is not None:
        if model_type not in _MODEL_TYPES:
            raise _unknown("model_type")
        used = _FAST if model_type == _FAST else _GOOD
        if used == _FAST:
            options["beam_width"] = 1
    fields.switch("preserve_formatting")  # the model keeps formatting either way
    shows = bool(fields.switch("show_billed_characters"))
    return TextOptions(options, split, used, shows, form)


def _text_form(fields: Fields) -> TextForm | None:
    """Returns how the texts' markup is read; None: they have none."""
    written = fields.text("tag_handling") or ""
    markup = next((text_format for text_format in TEXT_FORMATS if text_format == written), None)
    if written and markup is None:
        raise _unknown("tag_handling")
    version = fields.text("tag_handling_version") or "v1"
    if version not in _VERSIONS:
        raise _unknown("tag_handling_version")
    ignore, splitting, non_splitting = (
        fields.listed(f"{name}_tags") for name in ("ignore", "splitting", "non_splitting")
    )
    outline = fields.switch("outline_detection") is not False
    if markup is None:
        return None
    source = fields.text("source_lang")
    return TextForm(markup, source, ignore, splitting, non_splitting, outline)


def refuse_what_is_not_offered(fields: Fields, written_target: str) -> None:
    """Check the parameters that texts and documents share.

    Raises:
        InvalidInput: a value is not in DeepL's documentation.
        Unsupported: a parameter is not supported.
    """
    formality = fields.text("formality") or "default"
    if formality in _FORMALITIES_TO_REFUSE:
        raise Unsupported(
            f"Target language '{written_target[:40]}' doesn't support formality. "
            f"Send formality=prefer_{formality} or default"
        )
    if formality not in _FORMALITIES:
        raise _unknown("formality")
    for name, why in _NOT_OFFERED.items():
        if fields.get(name) not in (None, "", []):
            raise Unsupported(f"{name}: {why}. Send the request without it")


def glossary_ids(fields: Fields) -> list[str]:
    """Read the ids of a request's glossaries, in order of precedence.

    Raises:
        InvalidInput: there are too many, or both fields are given.
    """
    single, several = fields.text("glossary_id"), fields.listed("glossary_ids")
    if single and several:
        raise InvalidInput("glossary_id and glossary_ids cannot be used together")
    if len(several) > _MOST_GLOSSARIES:
        raise InvalidInput(f"glossary_ids has {len(several)} ids: give at most {_MOST_GLOSSARIES}")
    return several or ([single] if single else [])


def memory_of(fields: Fields) -> dict[str, str]:
    """Read the id of a request's translation memory, as an option.

    Only equal segments of a memory are used, so that each threshold has the same effect.

    Raises:
        InvalidInput: the threshold is not a percentage, or given without a memory.
    """
    memory, least = fields.text("translation_memory_id"), "translation_memory_threshold"
    threshold = fields.whole_number(least)
    if threshold is not None and not 0 <= threshold <= _PERCENT:
        raise InvalidInput(f"{least}: give 0 to {_PERCENT}")
    if threshold is not None and not memory:
        raise InvalidInput(f"{least} requires translation_memory_id")
    return {"memory_id": memory} if memory else {}


def needed(fields: Fields, name: str) -> str:
    """Read a required text field.

    Raises:
        InvalidInput: the field is missing or empty.
    """
    if not (value := fields.text(name)):
        raise InvalidInput(f"Parameter '{name}' not specified.")
    return value


def translation_direction(fields: Fields, languages: Languages) -> tuple[str | None, str]:
    """Read the source language, None to detect it, and the target language of a request.

    Raises:
        InvalidInput: a language is not supported, or the target language is missing.
    """
    target = target_language(needed(fields, "target_lang"), languages)
    given = fields.text("source_lang")
    return source_language(given, languages) if given else None, target


def _split(fields: Fields) -> Split:
    given = fields.get("split_sentences")
    written = "1" if given is None else str(int(given)) if isinstance(given, bool | int) else given
    if written not in _SPLITS:
        raise _unknown("split_sentences")
    return written


def _unknown(name: str) -> InvalidInput:
    return InvalidInput(f"Value for '{name}' not supported.")
