"""What web pages, proxies and unknown callers can do with a gateway; response headers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest
from dragoman_gateway.access.limits import LimitStatus
from dragoman_gateway.core.caller import Limits
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.web.forwarding import Forwarding
from dragoman_gateway.web.middleware.origins import Origins
from dragoman_gateway.web.middleware.rates import rate_headers
from hypothesis import given
from hypothesis import strategies as st

from dragoman.kernel.errors import UsageError
from tests.exchanges import Answer
from tests.unit.gateway.asgi import Application

PROXY = ("127.0.0.0/8",)
OPEN_ANYWHERE: dict[str, Any] = {"anonymous": True, "address": "0.0.0.0"}
TEXT = {"text": "Guten Tag.", "target_language": "en"}
EVIL = "https://evil.example"
TRANSLATE = "/api/v1/translate"


def post(app: Application, headers: Mapping[str, str], path: str = TRANSLATE) -> Answer:
    return app.post(path, TEXT, **{name.lower(): value for name, value in headers.items()})


# DNS rebinding


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:5000", "LOCALHOST:5000", "app.localhost:5000", "localhost."),
        *("127.0.0.1:5000", "127.9.9.9", "[::1]:5000", "[::1]", "192.168.1.5:5000"),
    ],
)
def test_requests_for_names_of_this_machine_are_answered(app: Application, host: str) -> None:
    assert post(app, {"host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example:5000", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example"),
        *("xlocalhost", "evil.example:127.0.0.1", "[::1].evil.example", "", "127.0.0.1@evil"),
    ],
)
def test_another_name_that_points_here_is_refused(app: Application, host: str) -> None:
    # For a rebound browser, the gateway is of the same origin.
    rebound = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    for path in (TRANSLATE, "/translate", "/v2/translate", "/", "/metrics", "/nowhere"):
        assert post(app, rebound, path).status == 403, path
    answer = app.call("GET", "/api/v1/glossaries", headers=rebound)
    assert answer.status == 403
    assert answer.json["error"]["code"] == "forbidden"
    assert answer.json["error"]["message"].endswith(
        "with --gateway-allowed-hosts of dragoman serve, or --allowed-hosts of dragoman gateway"
    )


def test_two_hosts_in_one_header_are_refused() -> None:
    origins = Origins(GatewaySettings())
    for host in (b"localhost,evil.example", b"localhost:5000,evil.example"):
        assert origins.refusal("GET", {b"host": host}, True, True) is not None


def test_requests_for_allowed_hosts_are_answered() -> None:
    with Application(allowed_hosts=("translate.lan",)) as app:
        assert post(app, {"host": "Translate.LAN:5000"}).status == 200
        assert post(app, {"host": "other.lan"}).status == 403


def test_a_refusal_has_the_format_of_its_protocol(app: Application) -> None:
    host = {"host": "evil.example"}
    assert [*app.call("POST", "/translate", headers=host).json] == ["error"]
    assert [*app.call("POST", "/v2/translate", headers=host).json] == ["message"]


# Requests from other pages


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": EVIL},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://localhost:3000"},
        {"origin": "http://localhost"},
        {"origin": EVIL, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"origin": EVIL, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    ],
)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "x/y"])
def test_a_page_of_another_origin_cannot_start_work(
    app: Application, headers: dict[str, str], kind: str
) -> None:
    before = len(app.requests)
    for path in ("/translate", "/v2/translate", "/api/v1/glossaries", "/api/v1/documents"):
        body = b"q=Hallo&source=de&target=en&text=Hallo&target_lang=EN"
        answer = app.call("POST", path, body, {"content-type": kind, **headers})
        assert answer.status == 403, (path, answer.body)
        assert "access-control-allow-origin" not in answer.headers
    assert len(app.requests) == before


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_page_of_another_origin_cannot_change_stored_data(app: Application, method: str) -> None:
    answer = app.call(method, "/api/v1/glossaries/x", headers={"origin": EVIL})
    assert answer.status == 403
    message = answer.json["error"]["message"]
    assert "origin with --gateway-allowed-origins of dragoman serve, or --allowed-o" in message


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost:5000"},
        {"origin": "http://localhost:5000", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
        {"origin": "chrome-extension://abcdefgh"},
        {"origin": "moz-extension://0123-4567", "sec-fetch-site": "cross-site"},
    ],
)
def test_own_page_programs_and_extensions_are_answered(
    app: Application, headers: dict[str, str]
) -> None:
    assert post(app, headers).status == 200


def test_a_link_from_another_page_works_and_a_hidden_request_does_not(app: Application) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    hidden = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    path = "/v2/translate?text=Hallo&target_lang=EN"
    before = len(app.requests)
    assert app.call("GET", "/api/v1/languages", headers=link).status == 200
    assert app.call("GET", "/api/v1/languages", headers=hidden).status == 403
    assert app.call("GET", path, headers=hidden).status == 403
    assert app.call("GET", path, headers=link).status == 403
    assert app.call("GET", "/?from=a-search", headers=link).status == 200
    assert len(app.requests) == before


def test_other_pages_need_a_key_if_keys_are_required() -> None:
    with Application() as app:
        secret = app.new_key()
        app.run(asyncio.sleep(0.6))
        page = {"origin": EVIL, "host": "translate.example"}
        assert post(app, page).status == 401
        answer = post(app, {**page, "authorization": f"Bearer {secret}"})
        assert answer.status == 200
        assert "access-control-allow-origin" not in answer.headers


def test_other_pages_cannot_use_anonymous_access() -> None:
    with Application(**OPEN_ANYWHERE, allowed_hosts=("translate.example",)) as app:
        page = {"host": "translate.example", "origin": "https://translate.example"}
        assert post(app, page).status == 200
        assert post(app, {**page, "origin": EVIL}).status == 403


def test_an_unknown_host_name_is_refused_for_anonymous_use() -> None:
    rebound = {"host": "evil.example", "origin": "http://evil.example"}
    for how in (OPEN_ANYWHERE, {"anonymous": True, "trusted_proxies": PROXY}):
        with Application(**how, public_url="https://translate.example") as app:
            for path in (TRANSLATE, "/translate", "/v2/translate", "/metrics", "/readyz"):
                assert post(app, rebound, path).status == 403
            for host in ("translate.example", "192.168.1.5:5000", "localhost:5000"):
                assert post(app, {"host": host}).status == 200


def test_an_undeclared_proxy_opens_nothing(app: Application) -> None:
    for name in (
        *("x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-host", "x-forwarded-prefix"),
        *("via", "x-forwarded-server", "x-forwarded-port", "cf-connecting-ip", "true-client-ip"),
        "x-client-ip",
    ):
        answer = post(app, {name: "8.8.8.8"})
        assert answer.status == 403
        assert "--gateway-trusted-proxies" in answer.json["error"]["message"]


# CORS

ASK = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}


def test_without_a_setting_nothing_is_shared(app: Application) -> None:
    answer = app.call("OPTIONS", TRANSLATE, headers={"origin": EVIL, **ASK})
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", [TRANSLATE, "/translate", "/languages", "/v2/translate"])
def test_an_allowed_page_may_ask_with_a_key(path: str) -> None:
    page = "https://page.example"
    with Application(allowed_origins=(page,)) as app:
        answer = app.call("OPTIONS", path, headers={"origin": page, **ASK})
        assert answer.status == 204
        assert answer.headers["access-control-allow-origin"] == page
        assert answer.headers["vary"] == "Origin"
        assert "authorization" in answer.headers["access-control-allow-headers"].lower()
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert "access-control-allow-credentials" not in answer.headers
        assert answer.headers["x-request-id"]
        answer = post(app, {"origin": page})
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == page
        other = app.call("OPTIONS", path, headers={"origin": EVIL, **ASK})
        assert other.status == 403
        assert "access-control-allow-origin" not in other.headers
        assert post(app, {}).headers["vary"] == "Origin"


def test_errors_can_be_read_by_an_allowed_page_too() -> None:
    with Application(allowed_origins=("https://page.example",)) as app:
        answer = app.call("GET", "/nowhere", headers={"origin": "https://page.example"})
        assert answer.status == 404
        assert answer.headers["access-control-allow-origin"] == "https://page.example"


def test_an_asterisk_allows_all_pages() -> None:
    with Application(allowed_origins=("*",)) as app:
        assert post(app, {"origin": EVIL}).headers["access-control-allow-origin"] == "*"
        assert post(app, {"host": "evil.example"}).status == 403  # rebinding nevertheless
        answer = app.call("OPTIONS", TRANSLATE, headers={"origin": EVIL, **ASK})
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (204, "*")


@pytest.mark.parametrize("wrong", ["example.com", "https://", "https://a.example/path", "http:/x"])
def test_an_invalid_origin_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="allowed_origins"):
        Origins(GatewaySettings(allowed_origins=(wrong,)))


@pytest.mark.parametrize("wrong", ["https://a.example", "a.example:80"])
def test_an_invalid_host_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="allowed_hosts"):
        Origins(GatewaySettings(allowed_hosts=(wrong,)))


# Proxies


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.7, 127.0.0.9", "203.0.113.7"),
        ("1.1.1.1, 203.0.113.7", "203.0.113.7"),  # the client made up the first one
        ("203.0.113.7:4711", "203.0.113.7"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("127.0.0.2, 127.0.0.3", "127.0.0.2"),
        ("rubbish", "127.0.0.1"),
        ("203.0.113.7, rubbish", "127.0.0.1"),
        ("", "127.0.0.1"),
        ("unknown, 203.0.113.7", "203.0.113.7"),
    ],
)
def test_the_client_is_the_nearest_address_that_is_not_a_proxy(forwarded: str, client: str) -> None:
    scope: dict[str, Any] = {"client": ("127.0.0.1", 1), "headers": [], "scheme": "http"}
    forwarding = Forwarding(PROXY)
    forwarding.apply(scope, {b"x-forwarded-for": forwarded.encode()})
    assert scope["client"][0] == client


@given(st.binary(max_size=60))
def test_an_invalid_proxy_header_changes_nothing_else(value: bytes) -> None:
    scope: dict[str, Any] = {"client": ("127.0.0.1", 1), "headers": [], "scheme": "http"}
    names = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-prefix")
    Forwarding(PROXY).apply(scope, dict.fromkeys(names, value))
    assert scope["scheme"] in ("http", "https")
    assert re.fullmatch(r"(/[\w.~-]+)*", scope.get("root_path", ""))
    assert all(re.fullmatch(rb"[\w.:\[\]-]+", host) for _, host in scope["headers"])


def test_only_declared_proxies_are_trusted() -> None:
    forwarding = Forwarding(("10.0.0.0/8", "::1"))
    assert forwarding.trusts("10.1.2.3")
    assert forwarding.trusts("::ffff:10.1.2.3")
    assert forwarding.trusts("::1")
    assert not forwarding.trusts("127.0.0.1")
    assert not forwarding.trusts("testclient")
    assert not Forwarding(()).trusts("127.0.0.1")
    with pytest.raises(UsageError, match="'proxy' is not a network"):
        Forwarding(("proxy",))


def test_limits_apply_to_the_address_behind_the_proxy() -> None:
    how: dict[str, Any] = {
        "anonymous": True,
        "trusted_proxies": PROXY,
        "anonymous_requests_per_minute": 1,
    }
    with Application(**how) as app:
        statuses = [
            post(app, {"x-forwarded-for": address}).status
            for address in ("203.0.113.1", "203.0.113.1", "203.0.113.2", "9.9.9.9, 203.0.113.2")
        ]
        assert statuses == [200, 429, 200, 429]


def test_links_point_to_the_proxy() -> None:
    with Application(anonymous=True, trusted_proxies=PROXY, path_prefix="/mt") as app:
        through = {
            "x-forwarded-host": "translate.example",
            "x-forwarded-proto": "https",
        }
        for path in ("/spec", "/mt/spec"):
            answer = app.call("GET", path, headers=through)
            assert answer.status == 200
            assert b"translate.example" in answer.body
        moved = app.call("GET", "/spec", headers={**through, "x-forwarded-prefix": "/other"})
        assert b"/other" in moved.body


@pytest.mark.parametrize(
    ("how", "headers", "prefix"),
    [
        ({"path_prefix": "/mt"}, {}, "/mt"),
        ({"trusted_proxies": PROXY, "anonymous": True}, {"x-forwarded-prefix": "/other"}, "/other"),
        ({"public_url": "https://localhost/sub/", "anonymous": True}, {}, "/sub"),
        ({}, {}, ""),
    ],
)
def test_urls_in_answers_have_the_prefix(
    how: dict[str, Any], headers: dict[str, str], prefix: str
) -> None:
    with Application(**how) as app:
        headers = {**headers, "authorization": f"Bearer {app.new_key()}"}
        made = app.post("/api/v1/glossaries", {"name": "a"}, **headers)
        assert made.headers["location"] == f"{prefix}/api/v1/glossaries/{made.json['id']}"
        described = app.call("GET", "/api/v1/openapi.json", headers=headers)
        assert described.json["servers"] == [{"url": prefix or "/"}]
        assert f"localhost{'' if 'public_url' in how else ':5000'}{prefix}/api/v1/" in str(
            described.json
        )
        message = app.call("GET", "/v2/admin/x", headers=headers).json["message"]
        assert message.startswith("Not offered here")


@pytest.mark.parametrize("path", ["/mt/api/v1/languages", "/api/v1/languages"])
def test_a_proxy_may_keep_or_remove_the_prefix(path: str) -> None:
    with Application(path_prefix="/mt/") as app:
        assert app.call("GET", path).status == 200
        assert app.call("GET", "/mtx/api/v1/languages").status == 404
        assert app.call("GET", "/mt/mt/api/v1/languages").status == 404


@pytest.mark.parametrize("wrong", ["mt", "/a b", "/a//b", "/%2e"])
def test_a_wrong_prefix_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="path_prefix"), Application(path_prefix=wrong):
        pass


# Ids and other headers


def test_every_answer_has_its_own_id(app: Application) -> None:
    requests = [("POST", TRANSLATE), ("GET", "/nowhere"), ("GET", "/livez"), ("PUT", "/translate")]
    ids = [app.call(*request).headers["x-request-id"] for request in requests * 2]
    assert len({*ids}) == 8
    assert all(re.fullmatch("[0-9a-f]{24}", request_id) for request_id in ids)
    # None is accepted from unknown callers: it would be in the log.
    strange = app.call("GET", "/livez", headers={"x-request-id": "stranger-0001"})
    assert strange.headers["x-request-id"] != "stranger-0001"


def test_requests_to_triton_have_the_id(app: Application) -> None:
    body = {"text": "Bananas are yellow."}
    for path in ("/api/v1/translate", "/api/v1/translate/stream", "/translate", "/v2/translate"):
        given = {
            "/translate": {"q": "Good night.", "source": "en", "target": "de"},
            "/v2/translate": {"text": ["Good morning."], "target_lang": "DE"},
        }.get(path, body)
        answer = app.post(path, given)
        assert answer.status == 200
        assert app.requests[-1].request_id == answer.headers["x-request-id"]


@pytest.mark.parametrize("given", ["req-0001", "a" * 128])
def test_a_proxys_id_is_used(given: str) -> None:
    with Application(anonymous=True, trusted_proxies=PROXY) as app:
        answer = post(app, {"x-request-id": given})
        assert answer.headers["x-request-id"] == given
        assert answer.json["request_id"] == given


@pytest.mark.parametrize("given", ["short", "a" * 129, 'quo"te-0001', "line\tbreak", "über-0001"])
def test_a_malformed_id_is_not_used(given: str) -> None:
    with Application(anonymous=True, trusted_proxies=PROXY) as app:
        assert post(app, {"x-request-id": given}).headers["x-request-id"] != given


@pytest.mark.parametrize("path", [TRANSLATE, "/languages", "/nowhere", "/metrics", "/v2/usage"])
def test_answers_have_headers_against_caching_and_embedding(app: Application, path: str) -> None:
    headers = app.call("GET", path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_callers_get_their_limits() -> None:
    with Application(**OPEN_ANYWHERE, anonymous_requests_per_minute=2) as app:
        first = post(app, {})
        policy = first.headers["ratelimit-policy"].split(", ")
        assert '"requests";q=2;w=60' in policy
        assert '"characters";q=100000;w=60;qu="characters"' in policy
        assert '"concurrent";q=8;qu="concurrent-requests"' in policy
        assert first.headers["ratelimit"].startswith('"requests";r=1;t=3')
        post(app, {})
        bodies = {
            TRANSLATE: TEXT,
            "/translate": {"q": "x", "source": "de", "target": "en"},
            "/v2/translate": {"text": ["x"], "target_lang": "EN-GB"},
        }
        for path in bodies:
            refused = app.post(path, bodies[path])
            assert refused.status == 429, path
            assert 1 <= int(refused.headers["retry-after"]) <= 31
            assert '"requests";r=0;t=6' in refused.headers["ratelimit"]


def test_open_access_has_no_limits_to_report(app: Application) -> None:
    headers = post(app, {}).headers
    assert "ratelimit" not in headers
    assert "ratelimit-policy" not in headers


@given(
    limits=st.builds(Limits, *[st.none() | st.integers(0, 10**9)] * 5),
    used=st.tuples(*[st.integers(0, 2 * 10**9)] * 4),
)
def test_the_headers_are_structured_fields(limits: Limits, used: tuple[int, ...]) -> None:
    status = LimitStatus(limits, used[0] + 0.5, used[1], used[2], used[3])
    headers = dict(rate_headers(status, 1000.4))
    if not headers:
        return
    item = r'"[a-z]+"(;[a-z]+=(\d{1,15}|"[a-z-]+"))+'
    for value in headers.values():
        assert re.fullmatch(rf"{item}(, {item})*", value.decode())
    policies = [
        policy.partition(";")[0] for policy in headers[b"ratelimit-policy"].decode().split(", ")
    ]
    left = [field.partition(";")[0] for field in headers[b"ratelimit"].decode().split(", ")]
    assert policies == left
