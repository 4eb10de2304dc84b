"""OpenAI's client, unchanged, against the real gateway and engine."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dragoman.kernel.text import Tokenizer
from dragoman.kernel.texts.sentences import split_sentences
from tests.gateways import RunningGateway, StartGateway
from tests.integration.gateway.test_keys_served import keys, wait_for_status
from tests.integration.test_served_translations import BUNDLE
from tests.servers import WAIT_S
from tests.unit.gateway.protocols.chat import prompts

if TYPE_CHECKING:  # its import takes a second, and every process of xdist collects this file
    from openai import OpenAI

ENGLISH, GERMAN = "Good morning. How are you?", "Guten Morgen. Wie geht es dir?"


@pytest.fixture(scope="module")
def client(gateway: RunningGateway) -> Iterator[OpenAI]:
    """A client whose key is ignored, since the gateway has none."""
    from openai import OpenAI

    with OpenAI(base_url=f"{gateway.url}/v1", api_key="any", timeout=WAIT_S) as opened:
        yield opened


def translated(client: OpenAI, messages: Any, model: str = "dragoman", **more: Any) -> str:
    answer = client.chat.completions.create(model=model, messages=messages, **more)
    (choice,) = answer.choices
    assert (choice.message.role, choice.finish_reason) == ("assistant", "stop")
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0
    return choice.message.content or ""


def test_the_client_lists_models(client: OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert {"dragoman", "en-de", "auto-de"} <= set(names)
    assert client.models.retrieve("en-de").id == "en-de"


@pytest.mark.parametrize("model", ["en-de", "auto-de", "de"])
def test_the_client_translates_a_plain_message(client: OpenAI, model: str) -> None:
    messages = prompts.user(ENGLISH)
    assert translated(client, messages, model, temperature=0.2, max_tokens=2048) == GERMAN


def test_the_client_streams(client: OpenAI) -> None:
    messages: Any = prompts.user("translate to German: " + ENGLISH)
    whole = client.chat.completions.create(model="dragoman", messages=messages)
    text, usage, reasons = "", None, []
    with client.chat.completions.create(
        model="dragoman",
        messages=messages,
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reasons.append(choice.finish_reason)
    assert (text, usage) == (whole.choices[0].message.content, whole.usage)
    assert [reason for reason in reasons if reason] == ["stop"]


def test_the_usage_has_the_tokens_of_texts_and_translations(client: OpenAI) -> None:
    """Not those of the prompt around the texts; a second answer comes from the cache."""
    tokenizer = Tokenizer(BUNDLE / "tokenizer.model")
    sentences = [part for part, _ in split_sentences(ENGLISH, "en")]
    read = sum(len(tokenizer.encode_source(sentence, "de")) for sentence in sentences)
    written = sum(len(tokenizer.encode(part)) for part, _ in split_sentences(GERMAN, "de"))
    pair = prompts.weblate([ENGLISH, ENGLISH], "English", "German")
    for messages, texts in ((prompts.user(ENGLISH), 1), (pair, 2), (pair, 2)):
        create: Any = client.chat.completions.create
        whole = create(model="en-de", messages=messages).usage
        options = {"include_usage": True}
        (*_, last) = create(model="en-de", messages=messages, stream=True, stream_options=options)
        for usage in (whole, last.usage):
            assert (usage.prompt_tokens, usage.completion_tokens) == (texts * read, texts * written)
            assert usage.total_tokens == texts * (read + written)


async def test_the_asynchronous_client(gateway: RunningGateway) -> None:
    from openai import AsyncOpenAI

    url = f"{gateway.url}/v1"
    async with AsyncOpenAI(base_url=url, api_key="any", timeout=WAIT_S) as client:
        messages: Any = prompts.user(ENGLISH)
        create = client.chat.completions.create
        answers = await asyncio.gather(
            *(create(model="en-de", messages=messages) for _ in range(4))
        )
        assert {answer.choices[0].message.content for answer in answers} == {GERMAN}
        text = ""
        async for chunk in await create(model="en-de", messages=messages, stream=True):
            text += chunk.choices[0].delta.content or ""
        assert text == GERMAN


def test_the_clients_errors(client: OpenAI) -> None:
    import openai

    create: Any = client.chat.completions.create
    with pytest.raises(openai.NotFoundError) as unknown:
        create(model="gpt-4o", messages=prompts.user("a"))
    assert unknown.value.code == "model_not_found"
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match="it does not chat"):
            create(model="dragoman", messages=prompts.user("Who are you?"), stream=stream)
        french = prompts.user("Bonjour mes amis, comment allez-vous aujourd'hui ?")
        with pytest.raises(openai.BadRequestError, match="'fr'"):
            create(model="auto-de", messages=french, stream=stream)


def test_keys_and_limits_are_the_clients_errors(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    import openai

    size = len(ENGLISH)
    added = keys(tmp_path, "add", "--characters-per-month", str(2 * size), "--protocols", "chat")
    with start_gateway(folder=tmp_path) as gateway:
        wait_for_status(gateway, None, 401)
        with contextlib.ExitStack() as opened:
            wrong, right = (
                opened.enter_context(openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key))
                for key in ("wrong", added["key"])
            )
            with pytest.raises(openai.AuthenticationError) as refused:
                translated(wrong, prompts.user(ENGLISH), "en-de")
            assert refused.value.code == "invalid_api_key"
            with pytest.raises(openai.AuthenticationError):
                wrong.models.list()
            assert translated(right, prompts.user(ENGLISH), "en-de") == GERMAN
            create: Any = right.chat.completions.create
            (*_, _last) = create(model="en-de", messages=prompts.user(ENGLISH), stream=True)
            with pytest.raises(openai.RateLimitError) as used_up:
                translated(right, prompts.user(ENGLISH), "en-de")
            assert used_up.value.code == "insufficient_quota"
        gateway.stop()
    (listed,) = keys(tmp_path, "list")["keys"]
    assert listed["used"] == {"characters": 2 * size, "requests": 2}


def test_requests_of_programs(client: OpenAI) -> None:
    """Their placeholders stay; the programs themselves are not run."""
    texts = ["The cat sleeps.", "I like <style id='1'>red</style> cars and {v2}."]
    paragraphs = json.loads(translated(client, prompts.babeldoc_batch(texts, "de"), "en-de"))
    assert [paragraph["id"] for paragraph in paragraphs] == [0, 1]
    for mark in ("<style id='1'>", "</style>", "{v2}"):
        assert paragraphs[1]["output"].count(mark) == 1
    texts = ["Open the file @@PH1@@ now.", "A cup of tea."]
    strings = prompts.weblate_strings(texts, "en", "de", {"tea": "Kamillentee"})
    opened, tea = json.loads(translated(client, strings))
    assert "@@PH1@@" in opened
    assert "Kamillentee" in tea
    texts = ["Open the file [X7X] now.", "The cat sleeps."]
    opened, cat = translated(client, prompts.weblate(texts, "en", "de")).split(
        "\n==WEBLATE_PART==\n"
    )
    assert "[X7X]" in opened
    assert "Katze" in cat
