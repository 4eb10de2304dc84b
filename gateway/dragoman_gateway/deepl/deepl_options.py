"""Parameters of a translation as DeepL names them, as options of the server, or as refusals.

What a translation model cannot do is refused by its name: a request for formal German that is
answered with any German would be a lie.

Source: https://developers.deepl.com/api-reference/translate
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from dragoman_client.document_translation import Reader
from dragoman_client.markup.xml_profiles import GENERIC
from dragoman_client.markup.xml_reader import XmlReader

from dragoman_gateway.core.errors import InvalidInput, Unsupported
from dragoman_gateway.core.languages import Languages
from dragoman_gateway.core.marked_texts import READERS
from dragoman_gateway.deepl.deepl_languages import source_language, target_language
from dragoman_gateway.web.fields import Fields

Split = Literal["0", "1", "nonewlines"]

_SPLITS: tuple[Split, ...] = ("0", "1", "nonewlines")
_FORMALITIES_TO_REFUSE = ("more", "less")
_FORMALITIES = ("default", "prefer_more", "prefer_less", *_FORMALITIES_TO_REFUSE)
_FAST, _GOOD = "latency_optimized", "quality_optimized"
_MODEL_TYPES = (_FAST, _GOOD, "prefer_quality_optimized")
_MOST_GLOSSARIES = 5
_NOT_OFFERED = {
    "style_id": "style rules are not offered",
    "translation_memory_id": "translation memories are not offered",
    "custom_instructions": "a translation model takes no instructions",
}
_MARKUP = ("html", "xml")
_VERSIONS = ("v1", "v2")
_TAG_LISTS = ("ignore", "splitting", "non_splitting")


@dataclass(frozen=True)
class TextOptions:
    """How texts are to be translated.

    Attributes:
        options: of the server, and `glossary_ids`.
        split: "1": a line break ends a sentence; "nonewlines": it does not; "0": each text is one
            sentence.
        model_type_used: None: the request did not ask.
        shows_billed_characters: whether the answer has them.
        open_reader: makes readers of the texts' markup; None: they have none.
    """

    options: dict[str, Any]
    split: Split
    model_type_used: str | None
    shows_billed_characters: bool
    open_reader: Callable[[], Reader] | None = None


def text_options(fields: Fields, written_target: str) -> TextOptions:
    """The options of a request for texts.

    Args:
        fields: of the request.
        written_target: the target language as the request has it, for messages.

    Raises:
        InvalidInput: a value that is not in DeepL's table.
        Unsupported: a parameter that is not offered.
    """
    refuse_what_is_not_offered(fields, written_target)
    open_reader = _open_reader(fields)
    split = _split(fields)
    options: dict[str, Any] = {}
    if glossaries := glossary_ids(fields):
        options["glossary_ids"] = glossaries
    used = None
    if (model_type := fields.text("model_type")) is not None:
        if model_type not in _MODEL_TYPES:
            raise _unknown("model_type")
        # Greedy search takes no glossary.
        used = _FAST if model_type == _FAST and not glossaries else _GOOD
        if used == _FAST:
            options["beam_width"] = 1
    fields.switch("preserve_formatting")  # the model keeps formatting either way
    shows = bool(fields.switch("show_billed_characters"))
    return TextOptions(options, split, used, shows, open_reader)


def _open_reader(fields: Fields) -> Callable[[], Reader] | None:
    """What makes readers of the texts' markup."""
    markup = fields.text("tag_handling") or ""
    if markup not in ("", *_MARKUP):
        raise _unknown("tag_handling")
    version = fields.text("tag_handling_version") or "v1"
    if version not in _VERSIONS:
        raise _unknown("tag_handling_version")
    names = {name: fields.listed(f"{name}_tags") for name in _TAG_LISTS}
    outline = fields.switch("outline_detection") is not False
    if not markup:
        return None
    source = fields.text("source_lang")
    if markup == "html":
        return partial(READERS[markup], source)
    profile = GENERIC.with_tags(
        ignore=names["ignore"],
        splitting=names["splitting"],
        non_splitting=names["non_splitting"],
        outline_detection=outline,
    )
    return lambda: XmlReader(profile, encoding="utf-8", is_fragment=True, source_language=source)


def refuse_what_is_not_offered(fields: Fields, written_target: str) -> None:
    """Refuse parameters that texts and documents share.

    Raises:
        InvalidInput: a value that is not in DeepL's table.
        Unsupported: a parameter that is not offered.
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
    """Glossaries of a request; the first one counts most.

    Raises:
        InvalidInput: too many, or named in two ways.
    """
    one, several = fields.text("glossary_id"), fields.listed("glossary_ids")
    if one and several:
        raise InvalidInput("glossary_id and glossary_ids cannot be used together")
    if len(several) > _MOST_GLOSSARIES:
        raise InvalidInput(f"glossary_ids has {len(several)} ids: give at most {_MOST_GLOSSARIES}")
    return several or ([one] if one else [])


def needed(fields: Fields, name: str) -> str:
    """A text that a request must have.

    Raises:
        InvalidInput: it has none.
    """
    if not (value := fields.text(name)):
        raise InvalidInput(f"Parameter '{name}' not specified.")
    return value


def translation_direction(fields: Fields, languages: Languages) -> tuple[str | None, str]:
    """The languages of a request: that of its texts, None to detect it, and the target language.

    Raises:
        InvalidInput: one is not served, or the target language is missing.
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
