"""Damaged gRPC messages, metadata and HTTP/2 frames for the gateway's Riva port."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import grpc
from dragoman_gateway.protocols.riva import messages

from tests.campaigns import grpc_damage, http2
from tests.campaigns.fuzzing import Ended, fuzz
from tests.campaigns.http_damage import mutated
from tests.campaigns.outcome import Bound, Outcome
from tests.campaigns.plan import Plan
from tests.campaigns.sentence import TEXT, TRANSLATION
from tests.campaigns.server import CampaignServer

_ANSWER_S = 25.0
_FRAMES_S = 0.3
_TRANSLATE = f"/{messages.TRANSLATION_SERVICE}/TranslateText"
_WATCH = f"/{messages.HEALTH_SERVICE}/Watch"
_OTHER_METHODS = (
    f"/{messages.HEALTH_SERVICE}/Check",
    f"/{messages.HEALTH_SERVICE}/Nothing",
    *(f"/{messages.TRANSLATION_SERVICE}/{name}" for name in ("ListSupportedLanguagePairs", "")),
    f"/{messages.TRANSLATION_SERVICE}/StreamingTranslateSpeechToText",
    "/nothing",
)
_TEXTS = (
    *(TEXT, "", " ", "\0", "a " * 300, "ß\U0001d518", "<dnt>", "<dnt>a</dnt>", "<dnt>" * 2000),
    *("</dnt>", "<dnt><dnt>a</dnt></dnt>", "▁<s></s>", "\n" * 500, "%s%n"),
)
_LANGUAGES = ("en", "de", "en-US", "DE", "", "auto", "xx", "e" * 5000, "\0")
_PHRASES = ("old", "old##alt", "##", "a##b##c", "", "x" * 20_000, "<dnt>", "\0##\0")
_NUMBERS = ("", "1", "256", "257", "-1", "1e9", "²", "9" * 10_000, "nan")
_METADATA: tuple[tuple[str, str | bytes], ...] = (
    *(("authorization", value) for value in ("Bearer x", "Bearer ", "Basic x", "", "x" * 3000)),
    *(("glossary-ids", value) for value in ("", ",", "none", "none," * 500, "../../etc/passwd")),
    *(("cache-control", value) for value in ("no-store", "no-store" * 500, ",;=")),
    *(("traceparent", value) for value in ("", "00-0-0-0", f"00-{'a' * 32}-{'b' * 16}-01")),
    *(("x-forwarded-for", "1.2.3.4"), ("x-bin", b"\0\xff")),
)
_NO_CACHE = [("cache-control", "no-store")]
_FAULTS = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)


def run(plan: Plan) -> Outcome:
    """Send some thousand damaged calls and connections, and good calls between them."""
    outcome = Outcome("riva")
    with CampaignServer(gateway=True) as server:
        address = f"127.0.0.1:{server.riva_port}"
        options = (("grpc.use_local_subchannel_pool", 1),)
        with grpc.insecure_channel(address, options) as channel:
            attack = _Attack(server.riva_port, channel)
            fuzz(outcome, server, attack.send, plan.of(4000, 400), plan.seed)
            outcome.wrong += attack.wrong + (not attack.translates())
        tracebacks = server.log.count("Traceback")
    outcome.bounds.append(Bound("calls that failed with INTERNAL or UNKNOWN", attack.faults, 0))
    outcome.bounds.append(Bound("tracebacks in the log", tracebacks, 0))
    return outcome


class _Attack:
    """Sends calls.

    Attributes:
        wrong: good calls without the right translation.
        faults: calls that failed because of the gateway.
    """

    def __init__(self, port: int, channel: grpc.Channel) -> None:
        self._port, self._channel = port, channel
        self.wrong = self.faults = 0

    def send(self, chance: Random) -> Ended:
        """Send one request, and wait for its end."""
        actions = (
            self._good,
            self._damaged,
            self._other,
            self._watch,
            self._cancelled,
            self._frames,
        )
        (action,) = chance.choices(actions, (6, 54, 10, 5, 10, 15))
        try:
            return action(chance)
        except grpc.RpcError as error:
            self.faults += error.code() in _FAULTS
            hung = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            return Ended.HUNG if hung else Ended.ANSWERED

    def translates(self) -> bool:
        """Whether a good sentence is translated correctly."""
        request = messages.TranslateTextRequest(
            texts=[TEXT], source_language="en", target_language="de"
        )
        try:
            answer = self._call(_TRANSLATE, request.SerializeToString(), _NO_CACHE)
        except grpc.RpcError:
            return False
        response = messages.TranslateTextResponse.FromString(answer)
        return [translation.text for translation in response.translations] == [TRANSLATION]

    def _good(self, _chance: Random) -> Ended:
        self.wrong += not self.translates()
        return Ended.ANSWERED

    def _damaged(self, chance: Random) -> Ended:
        self._call(_TRANSLATE, message(chance), _metadata(chance))
        return Ended.ANSWERED

    def _other(self, chance: Random) -> Ended:
        sent = chance.choice((message(chance), chance.randbytes(chance.randrange(60))))
        self._call(chance.choice(_OTHER_METHODS), sent, _metadata(chance))
        return Ended.ANSWERED

    def _watch(self, chance: Random) -> Ended:
        """Read the first answer of a stream, and leave."""
        answers = self._channel.unary_stream(_WATCH)(message(chance), timeout=_ANSWER_S)
        next(answers)
        answers.cancel()
        return Ended.LEFT

    def _cancelled(self, chance: Random) -> Ended:
        future = self._channel.unary_unary(_TRANSLATE).future(message(chance), timeout=_ANSWER_S)
        time.sleep(chance.random() * 0.01)
        future.cancel()
        return Ended.LEFT

    def _frames(self, chance: Random) -> Ended:
        sent = grpc_damage.connection(chance, message(chance), _TRANSLATE)
        received = http2.exchange(self._port, sent, _FRAMES_S)
        return Ended.ANSWERED if received else Ended.LEFT

    def _call(self, method: str, message: bytes, metadata: Any = ()) -> bytes:
        call = self._channel.unary_unary(method)
        return bytes(call(message, timeout=_ANSWER_S, metadata=metadata))


def message(chance: Random) -> bytes:
    """A request to translate with damaged fields, or with damaged bytes."""
    request = messages.TranslateTextRequest(
        texts=chance.choices(_TEXTS, k=chance.choice((*[1] * 8, 0, 2, 50))),
        model=chance.choice((*[""] * 20, "dragoman-en", "x", "x" * 3000)),
        source_language=chance.choice((*["en"] * 20, *_LANGUAGES)),
        target_language=chance.choice((*["de"] * 20, *_LANGUAGES)),
        dnt_phrases=chance.choices(_PHRASES, k=chance.choice((0, 0, 1, 3, 300))),
        max_len_variation=chance.choice((*[""] * 20, *_NUMBERS)),
    )
    if chance.random() < 0.2:
        request.id.value = chance.choice(("", "1", "x" * 3000))
    encoded = bytes(request.SerializeToString())
    return mutated(chance, encoded) if chance.random() < 0.3 else encoded


def _metadata(chance: Random) -> list[tuple[str, str | bytes]]:
    return chance.sample(_METADATA, chance.choice((0, 0, 0, 1, 2)))
