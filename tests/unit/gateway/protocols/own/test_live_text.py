"""Live sessions over HTTP and as a WebSocket: answers, refusals, limits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from dragoman_client import InvalidRequest
from dragoman_gateway.application import GatewayApplication
from dragoman_gateway.core.caller import Limits
from dragoman_gateway.live import live_sessions
from dragoman_gateway.live.live_sessions import IDLE_S
from dragoman_gateway.web.middleware.access_log import AccessLog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.timing import set_clock
from tests.unit.gateway.asgi import Application
from tests.unit.gateway.protocols.own.test_own_protocol import ask, error_of

LANGUAGES = {"source_language": "en", "target_language": "de"}


@pytest.fixture
def keyed() -> Iterator[Application]:
    """Takes four sessions, two of a client, and needs a key."""
    with Application(live_sessions=4, client_share=0.5) as app:
        app.new_key()
        yield app


def create(app: Application, **body: Any) -> str:
    """The path of a new session."""
    answer = ask(app, "POST", "/live", LANGUAGES | body)
    assert answer.status == 201
    path = f"/live/{answer.json['id']}"
    assert answer.headers["location"] == f"/api/v1{path}"
    return path


def talk(app: Application, *messages: Any, **how: Any) -> list[Any]:
    """The responses to messages of a WebSocket."""
    accepted, *answers = app.converse(*messages, **how)
    assert accepted["type"] == "websocket.accept"
    return [json.loads(answer["text"]) for answer in answers]


def refusal(app: Application, **how: Any) -> tuple[int, str]:
    """Status and code of a refused handshake."""
    start, body = app.converse(LANGUAGES, **how)
    return start["status"], json.loads(body["body"])["error"]["code"]


def test_a_text_that_grows(app: Application) -> None:
    path = create(app)
    shown = []
    for text in ("one", "one two", "one two three", "one two three!", "one two three! Four"):
        answer = ask(app, "POST", path, {"text": text}).json
        shown.append(answer["translation"])
        assert (answer["revisable"], answer["erased_words"]) == ("", 0)
    # The stand-in for the server puts the whole sentence into brackets.
    assert shown == ["", "", "<ONE", "<ONE TWO THREE!>", "<ONE TWO THREE!>"]
    answer = ask(app, "POST", path, {"append": " five", "finish": True}).json
    assert (answer["translation"], answer["sequence"]) == ("<ONE TWO THREE!> <FOUR FIVE>", 6)
    assert ask(app, "DELETE", path).status == 204
    assert error_of(ask(app, "POST", path, {"append": "."}))[:2] == (404, "not_found")


def test_a_websocket_has_the_same_answers(app: Application) -> None:
    changes = [{"text": "one", "sequence": 1}, {"append": " two"}, {"finish": True}]
    opened, *updates = talk(app, {**LANGUAGES, "revise": 1}, *changes)
    path = create(app, revise=1)
    assert opened["target_language"] == "de"
    for update, change in zip(updates, changes, strict=True):
        answer = ask(app, "POST", path, change).json
        assert {**update, "request_id": ""} == {**answer, "request_id": ""}
    assert error_of(ask(app, "DELETE", f"/live/{opened['id']}"))[0] == 404


def test_an_update_that_is_sent_again_has_the_same_answer(app: Application) -> None:
    path = create(app)
    answers = [ask(app, "POST", path, {"append": "One.", "sequence": 1}).json for _ in range(2)]
    assert answers[0] | {"request_id": ""} == answers[1] | {"request_id": ""}
    answer = ask(app, "POST", path, {"append": " Two.", "sequence": 2}).json
    assert answer["translation"] == "<ONE.> <TWO.>"
    for sequence in (1, 4):
        error = error_of(ask(app, "POST", path, {"append": "c", "sequence": sequence}))
        assert error == (400, "invalid_input", f"sequence is {sequence}: give 3")


def test_an_update_that_is_sent_again_counts_as_a_request() -> None:
    with Application(address="0.0.0.0") as app:
        key = app.new_key(limits=Limits(requests_per_minute=3))
        bearer = {"Authorization": f"Bearer {key}"}
        answer = ask(app, "POST", "/live", LANGUAGES, **bearer)
        path = f"/live/{answer.json['id']}"
        statuses = [
            ask(app, "POST", path, {"append": "One.", "sequence": 1}, **bearer).status
            for _ in range(4)
        ]
        assert statuses[-1] == 429


def test_an_update_that_fails_changes_nothing() -> None:
    works = False

    def translate(text: str) -> str:
        if "Two" in text and not works:
            raise InvalidRequest("this is not a text")
        return text.upper()

    with Application(translate, cache_bytes=0) as app:
        path = create(app)
        ask(app, "POST", path, {"text": "One."})
        change = {"append": " Two. Three", "sequence": 2}
        assert error_of(ask(app, "POST", path, change))[0] == 400
        works = True
        assert ask(app, "POST", path, change).json["translation"] == "ONE. TWO."
        characters = ask(app, "GET", "/usage").json["characters"]
        assert characters == len("One. Two. Three")


def test_each_character_counts_once() -> None:
    with Application() as app:
        path = create(app)
        for text in ("a", "a b", "a b c", "a x"):
            ask(app, "POST", path, {"text": text})
        ask(app, "POST", path, {"finish": True})
        assert ask(app, "GET", "/usage").json["characters"] == len("a") + 2 + 2 + len("x")


def test_sessions_are_bounded(keyed: Application) -> None:
    keys = [{"authorization": f"Bearer {keyed.new_key()}"} for _ in range(3)]
    refused = []
    for key in keys:
        for _ in range(3):
            answer = keyed.send("POST", "/api/v1/live", LANGUAGES, **key)
            refused += [] if answer.status == 201 else [error_of(answer)[0]]
    assert refused == [429, 429, 503, 503, 503]
    keyed.send("DELETE", f"/api/v1/live/{next(iter(keyed.gateway.live._sessions))}", **keys[0])
    for _ in range(3):  # the session of a WebSocket ends with its connection
        (opened,) = talk(keyed, LANGUAGES, headers=keys[2])
        assert "id" in opened


def test_sessions_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    with Application(live_sessions=1, client_share=1.0) as app:
        clock = {"s": 0.0}
        set_clock(monkeypatch, live_sessions.__name__, lambda: clock["s"])
        path = create(app)
        clock["s"] = IDLE_S + 1
        assert ask(app, "POST", path, {"text": "a"}).status == 404
        path = create(app)
        lasted_s = 0.0
        while ask(app, "POST", path, {"text": "a"}).status == 200:
            clock["s"] += 0.9 * IDLE_S
            lasted_s += 0.9 * IDLE_S
        assert lasted_s / 3600 == pytest.approx(12, abs=0.1)
        assert app.gateway.live.number == 0


def test_a_session_belongs_to_its_key(keyed: Application) -> None:
    own, other = ({"authorization": f"Bearer {keyed.new_key()}"} for _ in range(2))
    opened = keyed.send("POST", "/api/v1/live", LANGUAGES, **own)
    path = f"/api/v1/live/{opened.json['id']}"
    for method in ("POST", "DELETE"):
        assert error_of(keyed.send(method, path, {}, **other))[0] == 404
        assert error_of(keyed.send(method, path, {}))[0] == 401
    assert keyed.send("POST", path, {"text": "a"}, **own).status == 200


def test_a_websocket_needs_a_key_in_its_handshake_or_first_message(keyed: Application) -> None:
    secret = keyed.new_key()
    bearer = {"authorization": f"Bearer {secret}"}
    assert talk(keyed, LANGUAGES)[0]["error"]["code"] == "key_missing"
    assert talk(keyed, {**LANGUAGES, "key": "drg_x"})[0]["error"]["code"] == "key_refused"
    assert "id" in talk(keyed, {**LANGUAGES, "key": secret})[0]
    assert "id" in talk(keyed, LANGUAGES, headers=bearer)[0]
    assert refusal(keyed, headers={"authorization": "Bearer drg_x"}) == (403, "key_refused")


def test_the_limits_of_a_key_are_those_of_its_messages(keyed: Application) -> None:
    limits = Limits(requests_per_minute=4, characters_per_minute=10)
    headers = {"authorization": f"Bearer {keyed.new_key(limits=limits)}"}
    messages = [LANGUAGES, {"text": "a" * 11}, {"text": "a"}, "{", {"text": "a b"}]
    codes = [
        answer.get("error", {}).get("code", "done")
        for answer in talk(keyed, *messages, headers=headers)
    ]
    assert codes == ["done", "too_large", "done", "invalid_input", "too_many_requests"]


@pytest.mark.parametrize("needs_key", [False, True])
def test_a_page_of_another_origin_opens_no_websocket(needs_key: bool) -> None:
    with Application(allowed_origins=("https://friend.example",)) as app:
        if needs_key:
            app.new_key()
        evil = {"origin": "https://evil.example"}
        assert refusal(app, headers=evil) == (403, "forbidden")
        if not needs_key:  # a name that a page has pointed to this machine
            assert refusal(app, headers={"host": "evil.example", **evil})[0] == 403
        for origin in ("http://localhost:5000", "https://friend.example"):
            assert app.converse(headers={"origin": origin})[0]["type"] == "websocket.accept"
        assert refusal(app, path="/api/v1/translate") == (404, "not_found")


def test_messages_are_counted_and_logged() -> None:
    reading, writing = os.pipe()
    log = AccessLog(writing)
    with Application() as app:
        app._application = GatewayApplication(app.gateway, log)
        talk(app, LANGUAGES, {"text": "abc"}, "rubbish")
        log.close()
        metrics = app.gateway.metrics.text().decode()
    with os.fdopen(reading) as lines, os.fdopen(writing, "w"):
        logged = [json.loads(lines.readline()) for _ in range(4)]
    assert [line["status"] for line in logged] == [101, 200, 200, 400]
    assert [line["characters"] for line in logged] == [0, 0, 3, 0]
    assert {line["endpoint"] for line in logged} == {"/api/v1/live"}
    labels = 'endpoint="/api/v1/live",protocol="own",status="2xx"'
    assert f"dragoman_gateway_requests_total{{{labels}}} 2.0" in metrics
    assert "dragoman_gateway_requests_in_flight 0.0" in metrics
    assert "dragoman_gateway_live_sessions 0.0" in metrics


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (b"{}", "the message is binary: send JSON as text"),
        ("", "the message is not valid JSON"),
        ("[]", "the message is []: send a JSON object"),
        ("[" * 5000, "the message is not valid JSON"),
        ({"text": 1}, "text is a whole number: give a text"),
        ({"text": "a", "append": "b"}, "text and append: give one of them"),
        ({"append": "a" * 70_000}, "the text has more than 65,536 bytes: begin a new session"),
        ({"text": "Other. Text"}, "text: its first 6 characters are of sentences that have ended"),
        ({"sequence": 0}, "sequence: expected a whole number >= 1"),
        ({"sequence": 1e99}, "sequence is"),
        ({"target_language": "de"}, "unknown field 'target_language'"),
    ],
)
def test_a_damaged_message_has_an_error_of_one_line(
    app: Application, message: Any, fault: str
) -> None:
    *_, before, answer, after = talk(
        app, LANGUAGES, {"text": "Words. And"}, message, {"text": "Words. And more"}
    )
    assert fault in answer["error"]["message"], answer
    assert "\n" not in answer["error"]["message"]
    assert after["sequence"] == before["sequence"] + 1


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"target_language": "de", "source_language": "auto"}, "source_language: name it"),
        ({"target_language": "xx"}, "does not translate into 'xx'"),
        ({"revise": -1}, "revise: expected a whole number >= 0"),
        ({"prefix": "a"}, "prefix: not in a live session"),
        ({"return_scores": True}, "return_scores: not in a live session"),
        ({"glossary_ids": ["3fa85f64-5717-4562-b3fc-2c963f66afa6"]}, "there is no glossary"),
    ],
)
def test_a_session_with_other_options_is_refused(
    app: Application, body: dict[str, Any], fault: str
) -> None:
    assert fault in ask(app, "POST", "/live", body).json["error"]["message"]
    assert fault in talk(app, body)[0]["error"]["message"]
    assert app.gateway.live.number == app.gateway.live._held.held


_VALUES = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
_MESSAGES = (
    st.dictionaries(
        st.sampled_from(["text", "append", "finish", "sequence", "key", "revise", "a"]), _VALUES
    )
    | st.text(max_size=20)
    | st.binary(max_size=20)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_MESSAGES, max_size=5), st.booleans())
def test_arbitrary_messages(app: Application, messages: list[Any], opens: bool) -> None:
    sent = [LANGUAGES, *messages] if opens else messages
    answers = talk(app, *sent)
    assert len(answers) == len(sent)
    for answer in answers:
        assert answer.get("error", {}).get("code", "") in ("", "invalid_input", "too_large")
