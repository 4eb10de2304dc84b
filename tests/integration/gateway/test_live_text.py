"""Live sessions with the real engine: words that were shown stay."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from dragoman_gateway.live.growing_translation import erased_words
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.gateways import RunningGateway

TEXT = (
    "I would like a cup of tea. My name is Mrs. Miller and I need 35 kilos of 20 apples "
    "by 14:30, please. Is the code {code} right? Thank you goodbye"
)
LANGUAGES = {"source_language": "en", "target_language": "de"}


@pytest.mark.parametrize("revise", [0, 2])
def test_words_that_were_shown_stay(gateway: RunningGateway, revise: int) -> None:
    url = gateway.url.replace("http", "ws")
    shown = []
    with connect(f"{url}/api/v1/live", origin=Origin(gateway.url)) as socket:
        for message in (
            {**LANGUAGES, "revise": revise, "glossary": {"cup": "Becher"}},
            *({"append": f"{word} "} for word in TEXT.split()),
            {"finish": True},
        ):
            socket.send(json.dumps(message))
            shown.append(json.loads(socket.recv()))
    updates = shown[1:]
    for former, update in pairwise(updates):
        erased = erased_words(former["translation"], update["translation"])
        assert update["erased_words"] == erased <= revise
        stable = former["translation"].removesuffix(former["revisable"]).rstrip()
        assert erased_words(stable, update["translation"]) == 0
    final = updates[-1]
    assert final["revisable"] == ""
    for kept in ("Becher", "Miller", "35", "20", "14", "{code}"):
        assert kept in final["translation"], final
