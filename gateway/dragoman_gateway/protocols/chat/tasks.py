"""Reads a request for a chat completion as a translation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Any

from dragoman_client import ServerInfo
from dragoman_options.languages import fold_language
from dragoman_options.table import AUTO

from dragoman_gateway.core.errors import InvalidInput, NotFound, Unsupported
from dragoman_gateway.protocols.chat.prompts import Prompt, read_prompt
from dragoman_gateway.texts.languages import Languages, name_of
from dragoman_gateway.web.fields import Fields

ANY_MODEL = "dragoman"
"""The model that takes the languages from the messages."""
_SYSTEM = ("system", "developer")
_FIELDS = ("source_lang_code", "target_lang_code")
"""TranslateGemma's fields of a content part, and of `chat_template_kwargs`."""
_MOST_NAME = 80
_PAIR = re.compile(r"[a-z]{2,3}-[a-z]{2,3}")
"""Two languages, not a language and a region: `en-xx`."""
_NOT_OFFERED = {
    "tools": "a translation model calls no tools",
    "functions": "a translation model calls no functions",
    "logprobs": "probabilities are offered by /api/v1/translate, as token_scores",
    "audio": "only text is offered",
}
_NO_TRANSLATION = (
    "this server translates, it does not chat: name the languages in the model, such as en-de or "
    "auto-de; or in source_lang_code and target_lang_code; or begin the message with 'Translate "
    "the following text from English to German:'"
)


class UnknownModel(NotFound):
    """No model has this name."""


@dataclass(frozen=True)
class Task:
    """A translation.

    Attributes:
        model: the model's name in the request.
        prompt: the texts, and how the answer is written.
        options: options of the translation.
    """

    model: str
    prompt: Prompt
    options: dict[str, Any]


@dataclass(frozen=True)
class Model:
    """What a model's name says; None: nothing.

    Attributes:
        bundle: name of a bundle.
        source: code of the source language, or "auto".
        target: code of the target language.
    """

    bundle: str | None = None
    source: str | None = None
    target: str | None = None


def model_names(info: ServerInfo) -> list[str]:
    """Returns the names of all models: directions, targets with detection, and bundles."""
    directions = [f"{src}-{tgt}" for src, tgt in info.directions]
    detecting = [f"{AUTO}-{tgt}" for tgt in dict.fromkeys(tgt for _, tgt in info.directions)]
    return [ANY_MODEL, *directions, *detecting, *_bundles(info)]


def read_model(name: str, info: ServerInfo) -> Model:
    """Returns what a model's name says.

    Args:
        name: `dragoman`, a direction such as `en-de` or `auto-de`, a target language, a bundle, or
            a bundle and a direction, separated by a colon.
        info: the server's information.

    Raises:
        UnknownModel: there is no such model.
    """
    bundles = _bundles(info)
    bundle, colon, direction = name.rpartition(":")
    if name in bundles:
        directions = bundles[name]
        only = directions[0] if len(directions) == 1 else (None, None)
        return Model(name, *only)
    if name == ANY_MODEL:
        return Model()
    pair = _read_direction(direction[:_MOST_NAME], Languages.of(info))
    if pair is not None and (not colon or bundle in bundles):
        return Model(bundle or None, *pair)
    raise UnknownModel(
        f"the model {name[:_MOST_NAME]!r} does not exist: GET /v1/models lists "
        f"{', '.join(model_names(info)[:5])} and more"
    )


def _read_direction(written: str, languages: Languages) -> tuple[str, str] | None:
    """Returns the languages of `en-de`, `auto-de` or `de`; codes may have hyphens too."""
    if written in languages.targets:
        return AUTO, written
    words = written.split("-")
    for count in range(1, len(words)):
        target = fold_language("-".join(words[count:]), languages.targets)
        source = first = "-".join(words[:count])
        if first != AUTO:
            source = fold_language(first, languages.sources) or ""
        if target is not None and (first == AUTO or (source, target) in languages.directions):
            return source, target
    target = fold_language(written, languages.targets)
    if target is None or (target.lower() != written and _PAIR.fullmatch(written)):
        return None
    return AUTO, target


def read_task(fields: Fields, info: ServerInfo) -> Task:
    """Read a request.

    Raises:
        InvalidInput: it is not a translation request, or its languages are not served.
        UnknownModel: there is no such model.
        Unsupported: a feature of language models is requested.
    """
    _refuse_what_is_not_offered(fields)
    if not (name := fields.text("model")):
        raise InvalidInput(f"model: give a direction such as en-de, or {ANY_MODEL}")
    model, languages = read_model(name, info), Languages.of(info)
    prompt = _prompt(fields, languages)
    if fields.get("response_format") not in (None, {"type": "text"}) and not prompt.is_json:
        raise Unsupported("response_format: a translation is text; leave it out")
    source, target = _direction(prompt, model, languages)
    options: dict[str, Any] = {"source_language": source, "target_language": target}
    if model.bundle is not None:
        options["model"] = model.bundle
    if (counts := "return_source_tokens") in info.options:  # not of older servers
        options[counts] = True
    if prompt.terms:
        options["glossary"] = prompt.terms
    if ids := fields.listed("glossary_ids"):
        options["glossary_ids"] = ids
    return Task(name, prompt, options)


def _refuse_what_is_not_offered(fields: Fields) -> None:
    for name, why in _NOT_OFFERED.items():
        if fields.get(name):
            raise Unsupported(f"{name}: {why}; leave it out")
    if fields.whole_number("n") not in (None, 1):
        raise Unsupported("n: one translation is returned; leave it out")


def _prompt(fields: Fields, languages: Languages) -> Prompt:
    """Returns the texts, with the languages that the request names outside its model."""
    system, message = _messages(fields)
    text, *of_part = _content(message)
    named = Fields(fields.object("chat_template_kwargs"))
    source, target = (
        language or named.text(name) for language, name in zip(of_part, _FIELDS, strict=True)
    )
    if source or target:
        return Prompt([text or ""], source, target)
    return read_prompt(system, text or "", languages.begins_with_language) or Prompt([text or ""])


def _messages(fields: Fields) -> tuple[str, Fields]:
    """Returns the instructions, and the last message of the user.

    Earlier messages, which are examples or a conversation so far, are not translated.
    """
    messages = fields.sections("messages")
    if not messages:
        raise InvalidInput("messages: give a list with a message of the role user")
    if (role := messages[-1].text("role")) != "user":
        raise InvalidInput(f"messages: the last one has the role {brief(role)}: give user")
    system = [_content(message)[0] for message in messages if message.text("role") in _SYSTEM]
    return "\n".join(filter(None, system)), messages[-1]


def _content(message: Fields) -> tuple[str | None, str | None, str | None]:
    """Returns the text of a message, and the languages that its part names."""
    if not isinstance(message.get("content"), list):
        return message.text("content"), None, None
    parts = message.sections("content") or ()
    for part in parts:
        if (kind := part.text("type")) != "text":
            raise Unsupported(
                f"content: a part has the type {brief(kind)}: only text is translated"
            )
    texts = [part.text("text") or "" for part in parts]
    named = [part for part in parts if any(map(part.text, _FIELDS))]
    if len(named) > 1 or (named and len(parts) > 1):
        raise InvalidInput("content: give one part if it names languages")
    source, target = (named[0].text(name) if named else None for name in _FIELDS)
    return "\n".join(texts), source, target


def _direction(prompt: Prompt, model: Model, languages: Languages) -> tuple[str, str]:
    """Returns the source and the target language, from the messages and the model."""
    source = target = None
    if prompt.source and prompt.source.lower() != AUTO:
        source = languages.find_named(prompt.source, languages.sources, "source language")
    if prompt.target:
        target = languages.find_named(prompt.target, languages.targets, "target language")
    named = None if model.source == AUTO else model.source
    for ours, theirs, how in ((source, named, "from"), (target, model.target, "into")):
        if ours and theirs and ours != theirs:
            raise InvalidInput(
                f"the model translates {how} {name_of(theirs)}, but the messages say "
                f"{name_of(ours)}: use the model {ANY_MODEL}, which has no direction of its own"
            )
    if (target := target or model.target) is None:
        raise InvalidInput(_NO_TRANSLATION, "language", "messages")
    return source or named or AUTO, target


def _bundles(info: ServerInfo) -> dict[str, list[tuple[str, str]]]:
    """Returns the directions of each bundle by its name; an older server does not name them."""
    return {
        str(bundle["name"]): [(str(src), str(tgt)) for src, tgt in bundle.get("directions", ())]
        for bundle in info.bundles
        if bundle.get("name")
    }
