"""Keys and limits on a real gateway: made and revoked at run time, kept over restarts, secret."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sqlite3
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from deepl import (
    AuthorizationException,
    DeepLClient,
    QuotaExceededException,
    TooManyRequestsException,
    http_client,
)
from dragoman_gateway.core.store import FILE_NAME

from dragoman.cli import main
from tests.gateways import RunningGateway, StartGateway
from tests.redis_server import running_redis
from tests.servers import WAIT_S, wait_for

TRANSLATE = "/api/v1/translate"
SENTENCE = "Der Zug nach Xylophonstadt kommt um neun Uhr."
BODY = {"text": SENTENCE, "source_language": "de", "target_language": "en"}


def keys(folder: Path, *words: str) -> Any:
    """The output of `dragoman keys`."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["keys", *words, "--folder", str(folder), "--json"]) == 0
    return json.loads(printed.getvalue())


def ask(gateway: RunningGateway, key: str | None, **options: Any) -> int:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return gateway.post(TRANSLATE, {**BODY, **options}, headers=headers).status


def wait_for_status(gateway: RunningGateway, key: str | None, status: int) -> None:
    """Wait until requests get a status."""
    begun_s = time.monotonic()
    while ask(gateway, key) != status:
        assert time.monotonic() - begun_s < WAIT_S
        time.sleep(0.02)


def test_keys_close_the_gateway_and_changes_take_effect_soon(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    with start_gateway(folder=tmp_path) as gateway:
        assert ask(gateway, None) == 200
        added = keys(tmp_path, "add", "--label", "first")
        wait_for_status(gateway, None, 401)
        assert ask(gateway, added["key"]) == 200
        assert ask(gateway, added["key"][:-1] + "!") == 403
        keys(tmp_path, "limit", added["id"], "--characters-per-request", "5")
        wait_for_status(gateway, added["key"], 413)
        keys(tmp_path, "revoke", added["id"])
        wait_for_status(gateway, added["key"], 403)
        assert ask(gateway, None) == 401


@pytest.mark.thorough
def test_two_gateways_on_one_redis_keep_one_quota(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    """Needs a Redis server; the keys are copied as docs/keys.md describes."""
    first, second, size = tmp_path / "first", tmp_path / "second", len(SENTENCE)
    key = keys(first, "add", "--characters-per-month", str(10 * size))["key"]
    rare = keys(first, "add", "--requests-per-minute", "1")["key"]
    second.mkdir(mode=0o700)
    keys(first, "backup", str(second / FILE_NAME))
    with contextlib.ExitStack() as running:
        url = running.enter_context(running_redis(tmp_path / "redis")).url
        variable = {"DRAGOMAN_GATEWAY_LIMITS_URL": url}
        both = [
            running.enter_context(start_gateway(folder=folder, environment=variable))
            for folder in (first, second)
        ]
        pool = running.enter_context(ThreadPoolExecutor(4))
        statuses = [*pool.map(lambda number: ask(both[number % 2], key), range(30))]
        assert Counter(statuses) == {200: 10, 429: 20}
        for gateway in both:
            used = gateway.get("/api/v1/usage", headers={"Authorization": f"Bearer {key}"}).json
            assert used["characters"] == 10 * size
        assert [ask(gateway, rare) for gateway in both] == [200, 429]


def test_deepls_client_raises_its_own_exceptions(
    start_gateway: StartGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "max_network_retries", 0)
    cases = (
        (("--characters-per-month", str(len(SENTENCE))), QuotaExceededException),
        (("--requests-per-minute", "1"), TooManyRequestsException),
    )
    made = [(keys(tmp_path, "add", *limit)["key"], error) for limit, error in cases]
    with start_gateway(folder=tmp_path) as gateway:
        for key, error in made:
            with closing(DeepLClient(key, server_url=gateway.url)) as client:
                assert client.translate_text(SENTENCE, target_lang="EN-GB")
                with pytest.raises(error):
                    client.translate_text(SENTENCE, target_lang="EN-GB")
        client = DeepLClient("wrong", server_url=gateway.url)
        with closing(client), pytest.raises(AuthorizationException):
            client.translate_text(SENTENCE, target_lang="EN-GB")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_under_load_loses_no_count(
    start_gateway: StartGateway, tmp_path: Path, number: int
) -> None:
    added = keys(tmp_path, "add")
    with start_gateway(folder=tmp_path) as gateway, ThreadPoolExecutor(4) as pool:
        counts = [0] * 4

        def client(index: int) -> None:
            with contextlib.suppress(OSError):
                while ask(gateway, added["key"]) == 200:
                    counts[index] += 1

        running = [pool.submit(client, index) for index in range(len(counts))]
        wait_for(lambda: min(counts) > 10)
        gateway.stop(number)
        for future in running:
            future.result()
        answered = sum(counts)
    used = keys(tmp_path, "list")["keys"][0]["used"]
    # A request whose response came too late for its client may be counted too; none counts twice.
    assert answered <= used["requests"] <= answered + 4
    assert used["characters"] == used["requests"] * len(SENTENCE)


def test_secrets_and_texts_are_not_exposed(start_gateway: StartGateway, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    added = keys(folder, "add", "--characters-per-request", "100")
    imported = "c0ffee00-libretranslate-secret"
    with closing(sqlite3.connect(tmp_path / "api_keys.db")) as connection, connection:
        connection.execute("CREATE TABLE api_keys (api_key TEXT PRIMARY KEY, req_limit INTEGER)")
        connection.execute("INSERT INTO api_keys VALUES (?, 120)", (imported,))
    keys(folder, "import", str(tmp_path / "api_keys.db"))
    secret, wrong = added["key"].rpartition("_")[2], "wr0ngwr0ngwr0ngwr0ng"
    password = "pa55word-of-redis"
    hidden = [secret, imported, wrong, password, "Xylophonstadt"]
    seen = []
    with start_gateway(
        folder=folder,
        access_log=True,
        environment={"DRAGOMAN_GATEWAY_LIMITS_URL": f"redis://:{password}@127.0.0.1:1/0"},
    ) as gateway:
        for key in (added["key"], f"drg_{added['id']}_{wrong}", wrong):
            bearer = {"Authorization": f"Bearer {key}"}
            deepl = {"Authorization": f"DeepL-Auth-Key {key}"}
            for body in (BODY, {**BODY, "beam_size": "many"}, {**BODY, "text": SENTENCE * 9}):
                seen.append(gateway.post(TRANSLATE, body, headers=bearer))
            query = f"q=x&source=de&target=en&api_key={key}"
            seen.append(gateway.post(f"/translate?{query}", b""))
            seen.append(gateway.post("/v2/translate", {"text": ["x"]}, headers=deepl))
            seen.append(gateway.get(f"/v2/usage?auth_key={key}"))
            seen.append(gateway.get("/api/v1/usage", headers=bearer))
            seen.append(gateway.get(f"/nowhere/{wrong}", headers=bearer))
        form = {"q": "x", "source": "de", "target": "en", "api_key": imported}
        seen.append(gateway.post("/translate", form))
        statuses = {answer.status for answer in seen}
        assert 200 in statuses
        assert 403 in statuses
        metrics = gateway.get("/metrics")
        process = Path(f"/proc/{gateway.process.pid}/cmdline").read_bytes()
        gateway.stop()
        log = "\n".join(gateway.log)
    assert "this gateway limits alone" in log
    assert added["id"] in log  # the access log names keys by their ids
    listed = json.dumps(keys(folder, "list"))
    state = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    bodies = [answer.body.decode() for answer in seen if answer.status != 200]
    bodies = [body for body in bodies if "nowhere" not in body]  # it names the requested path
    answers = [str(dict(answer.headers)) for answer in seen]
    for name, text in {
        "log": log,
        "metrics": metrics.body.decode(),
        "process list": process.decode(),
        "list of keys": listed,
        "state": state.decode("latin-1"),
        "answers": "".join(bodies + answers),
    }.items():
        for hidden_text in hidden:
            assert hidden_text not in text, name
