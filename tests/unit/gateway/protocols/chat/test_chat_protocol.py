"""Chat completions with a stand-in that answers `<TEXT>`: languages, prompts, formats, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from dragoman_client import ServerInfo
from dragoman_gateway.protocols.chat.prompts import read_prompt
from dragoman_gateway.protocols.chat.tasks import Model, UnknownModel, read_model
from dragoman_gateway.texts.languages import Languages, code_in
from hypothesis import given
from hypothesis import strategies as st

from tests.exchanges import Answer
from tests.unit.gateway.asgi import Application
from tests.unit.gateway.protocols.chat import prompts

PATH = "/v1/chat/completions"
ENGLISH = "Good morning, my friend."
UPPER = f"<{ENGLISH.upper()}>"
TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), min_size=1)


def ask(app: Application, messages: Any, model: str = "dragoman", **more: Any) -> Answer:
    body = {"model": model, "messages": messages, **more}
    return app.post(PATH, body, **{"cache-control": "no-store"})


def content(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    (choice,) = answer.json["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] == "stop"
    return str(choice["message"]["content"])


def asked(app: Application) -> tuple[str, str]:
    """The languages of the last request to the server."""
    inputs = app.requests[-1].inputs
    return inputs["source_language"][0], inputs["target_language"][0]


def error(answer: Answer) -> dict[str, Any]:
    (name,) = answer.json
    assert name == "error"
    body: dict[str, Any] = answer.json["error"]
    assert body.keys() == {"message", "type", "param", "code"}
    assert "\n" not in body["message"]
    return body


@pytest.mark.parametrize("model", ["en-de", "auto-de", "de", "DE", "en-US-de-DE", "de-AT"])
def test_the_model_names_the_languages_of_a_plain_message(app: Application, model: str) -> None:
    assert content(ask(app, prompts.user(ENGLISH), model)) == UPPER
    assert asked(app) == ("en" if model.lower().startswith("en") else "auto", "de")


@pytest.mark.parametrize("model", ["", "gpt-4o", "xx-de", "en-xx", "en-en", "en", "-", "a:en-de"])
def test_other_models_are_unknown(app: Application, model: str) -> None:
    answer = ask(app, prompts.user("Guten Morgen, mein Freund."), model)
    if model == "en":  # detected
        assert asked(app) == ("auto", "en")
    elif model:
        assert (answer.status, error(answer)["code"]) == (404, "model_not_found")
        assert app.send("GET", f"/v1/models/{model}").status == 404
    else:
        assert answer.status == 400


def served(*bundles: tuple[str, list[tuple[str, str]]]) -> ServerInfo:
    """Information of a server with these bundles."""
    directions = tuple(pair for _, some in bundles for pair in some)
    languages = tuple(dict.fromkeys(code for pair in directions for code in pair))
    return ServerInfo(
        version="1",
        models=(),
        languages=languages,
        directions=directions,
        bundles=tuple({"name": name, "directions": some} for name, some in bundles),
        options={},
        limits={},
        metrics_port=None,
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("opus-mt-en-de", Model("opus-mt-en-de", "en", "de")),
        ("multi", Model("multi")),
        ("multi:en-pt-BR", Model("multi", "en", "pt-BR")),
        ("multi:pt-BR", Model("multi", "auto", "pt-BR")),
        ("en-pt_br", Model(None, "en", "pt-BR")),
        ("pt-BR-en", Model(None, "pt-BR", "en")),
        ("dragoman", Model()),
        ("opus-mt-en-fr", None),
        ("other:en-de", None),
        (":", None),
        ("a" * 10_000, None),
    ],
)
def test_a_bundle_is_a_model(name: str, expected: Model | None) -> None:
    info = served(("opus-mt-en-de", [("en", "de")]), ("multi", [("en", "pt-BR"), ("pt-BR", "en")]))
    if expected is None:
        with pytest.raises(UnknownModel):
            read_model(name, info)
    else:
        assert read_model(name, info) == expected


def test_every_listed_model_exists(app: Application) -> None:
    listed = app.send("GET", "/v1/models").json
    assert listed["object"] == "list"
    names = [model["id"] for model in listed["data"]]
    assert {"dragoman", "en-de", "auto-de"} <= set(names)
    for name in names:
        assert app.send("GET", f"/v1/models/{name}").json["id"] == name


@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("EN", "de_AT"), (None, "de-DE")])
def test_translategemmas_fields_name_the_languages(
    app: Application, source: str | None, target: str
) -> None:
    codes = {"source_lang_code": source, "target_lang_code": target}
    part = {"type": "text", "text": ENGLISH, **codes}
    assert content(ask(app, prompts.user([part]))) == UPPER
    assert asked(app) == ("en" if source else "auto", "de")
    # The text is not read as a prompt.
    text = f"Translate this to English: {ENGLISH}"
    answer = ask(app, prompts.user(text), chat_template_kwargs=codes)
    assert content(answer) == f"<{text.upper()}>"


@given(TEXTS.filter(lambda text: text == text.strip()))
def test_the_prompts_of_programs_are_recognised(text: str) -> None:
    languages = Languages(("en", "de"))
    for messages, source in (
        (prompts.pdf2zh(text, "de"), None),
        (prompts.babeldoc(text, "German"), None),
        (prompts.weblate([text], "en", "de"), "en"),
        (prompts.translategemma(text, "English", "German"), "English"),
        (prompts.user(f"Translate the following text from English to German: {text}"), "English"),
        (prompts.user(f"Translate to German (output translation only):\n\n{text}"), None),
        (prompts.user(f"translate into german, without explanation.\n{text}"), None),
        (
            prompts.user(f"Translate this from English to German:\nEnglish: {text}\nGerman:"),
            "English",
        ),
    ):
        system = messages[0]["content"] if len(messages) > 1 else ""
        prompt = read_prompt(system, messages[-1]["content"], languages.begins_with_language)
        assert prompt is not None
        assert (list(prompt.texts), prompt.source) == ([text], source)
        assert languages.find_named(prompt.target or "", ["de"], "target") == "de"
        assert prompt.write(["x"]) == "x"


def test_several_texts_of_a_prompt_are_answered_in_its_form(app: Application) -> None:
    texts = ["A house.", "A {v1} tree."]
    upper = [f"<{text.upper()}>" for text in texts]
    answer = content(ask(app, prompts.babeldoc_batch(texts, "German"), "en-de"))
    assert json.loads(answer) == [{"id": 0, "output": upper[0]}, {"id": 1, "output": upper[1]}]
    answer = content(ask(app, prompts.weblate(texts, "en", "de")))
    assert answer.split("\n==WEBLATE_PART==\n") == upper
    strings = prompts.weblate_strings(texts, "en", "de", {"tree": "Baum"})
    assert json.loads(content(ask(app, strings))) == upper
    assert json.loads(app.requests[-1].inputs["glossary"][0]) == {"tree": "Baum"}


@pytest.mark.parametrize("marks", ["@@PH12@@", "[X7X]"])
def test_weblates_placeholders_must_be_in_the_translation(app: Application, marks: str) -> None:
    for messages in (
        prompts.weblate([f"Open {marks} now."], "en", "de"),
        prompts.weblate_strings([f"Open {marks} now."], "en", "de", {}),
    ):
        ask(app, messages)
        assert json.loads(app.requests[-1].inputs["glossary"][0]) == {marks: marks}


@pytest.mark.parametrize(
    "messages",
    [
        prompts.user("Who are you?"),
        prompts.user("Translate this poem to something funny:\nRoses are red."),
        prompts.user("Translate: hello"),
        prompts.user(""),
        [{"role": "system", "content": "You are a pirate."}, *prompts.user(ENGLISH)],
        prompts.user('{"source_language": "en", "strings": []}'),
    ],
)
def test_anything_else_is_refused_with_what_is_possible(app: Application, messages: Any) -> None:
    answer = ask(app, messages)
    assert answer.status == 400
    assert "translates, it does not chat" in error(answer)["message"]
    # With languages in the model it is a text.
    assert ask(app, messages, "en-de").status == 200


def test_the_messages_and_the_model_must_agree(app: Application) -> None:
    to_english = prompts.user("Translate to English: Guten Morgen, mein Freund.")
    answer = ask(app, to_english, "en-de")
    assert (answer.status, "German" in error(answer)["message"]) == (400, True)
    assert content(ask(app, to_english, "auto-en")) == "<GUTEN MORGEN, MEIN FREUND.>"
    unserved = ask(app, prompts.user("Translate to French: Good morning."))
    assert (unserved.status, "fr" in error(unserved)["message"]) == (400, True)


def test_only_the_last_message_is_translated(app: Application) -> None:
    messages = [*prompts.user("a"), {"role": "assistant", "content": "b"}, *prompts.user("c")]
    assert content(ask(app, messages, "en-de")) == "<C>"
    answer = ask(app, messages[:2], "en-de")
    assert (answer.status, "user" in error(answer)["message"]) == (400, True)


@pytest.mark.parametrize(
    "more",
    [
        {"n": 2},
        {"tools": [{"type": "function"}]},
        {"logprobs": True},
        {"response_format": {"type": "json_object"}},
        {"messages": prompts.user([{"type": "image_url", "image_url": {"url": "x"}}])},
        {"messages": [3]},
        {"messages": {}},
        {"model": 3},
        {"stream": "maybe"},
        {"stream_options": 3, "stream": True},
        {"chat_template_kwargs": []},
        {"glossary_ids": {}},
        {"glossary_ids": ["x"]},
    ],
)
def test_what_is_not_offered_or_wrong_is_refused(app: Application, more: dict[str, Any]) -> None:
    answer = app.post(PATH, {"model": "en-de", "messages": prompts.user("a"), **more})
    assert answer.status in (400, 404)
    assert error(answer)["type"] == "invalid_request_error"


def test_what_changes_only_a_language_models_answer_has_no_effect(app: Application) -> None:
    more = {
        "temperature": 0.7,
        "top_p": 0.5,
        "seed": 3,
        "max_tokens": 1,
        "stop": ["a"],
        "user": "x",
    }
    assert content(ask(app, prompts.user("a b"), "en-de", **more)) == "<A B>"
    assert "temperature" not in app.requests[-1].inputs


def events(answer: Answer) -> Iterator[Any]:
    *lines, done = answer.body.decode().strip().split("\n\n")
    assert done == "data: [DONE]"
    for line in lines:
        yield json.loads(line.removeprefix("data: "))


@pytest.mark.parametrize("texts", [["Good morning."], ["A house.", "A tree."]])
def test_a_stream_has_the_whole_answer_in_parts(app: Application, texts: list[str]) -> None:
    messages = prompts.weblate(texts, "en", "de")
    whole = ask(app, messages).json
    streamed = ask(app, messages, stream=True, stream_options={"include_usage": True})
    assert streamed.media_type == "text/event-stream"
    *parts, last, usage = events(streamed)
    assert {part["id"] for part in (*parts, last, usage)} == {parts[0]["id"]}
    deltas = [part["choices"][0]["delta"] for part in parts]
    assert deltas[0]["role"] == "assistant"
    text = "".join(delta["content"] for delta in deltas)
    assert text == whole["choices"][0]["message"]["content"]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert (usage["choices"], usage["usage"]) == ([], whole["usage"])
    read, written, both = usage["usage"].values()
    assert read == written == both / 2 > 0  # as the stand-in counts
    assert all("usage" not in event for event in events(ask(app, messages, stream=True)))


def test_a_stream_that_cannot_begin_is_a_normal_error(app: Application) -> None:
    answer = ask(app, prompts.user("a"), "en-de", stream=True, glossary_ids=["x"])
    assert (answer.status, answer.media_type) == (404, "application/json")
    assert error(answer)["code"] == "not_found"


def test_other_paths_and_media_types_have_the_protocols_errors(app: Application) -> None:
    assert error(app.post("/v1/embeddings", {}))["code"] == "not_found"
    assert error(app.send("GET", PATH))["code"] == "wrong_method"
    assert error(app.form(PATH, {"model": "en-de"}))["code"] == "wrong_media_type"
    assert error(app.call("POST", PATH, b"{", {"content-type": "application/json"}))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("German", "de"),
        ("german without explanations", "de"),
        ("Traditional Chinese", "zh-Hant"),
        ("Chinese (Simplified) only", "zh-Hans"),
        ("Portuguese (Brazil)", "pt-BR"),
        ("Scottish Gaelic, please", None),
        ("Scottish Gaelic please", "gd"),
        ("Simplified", None),
        ("", None),
        ("(", None),
    ],
)
def test_languages_are_found_by_their_english_names(words: str, code: str | None) -> None:
    assert code_in(words) == code
