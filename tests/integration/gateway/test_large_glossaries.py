"""A glossary of 12,000 entries through each protocol: its last entry is applied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from deepl import DeepLClient
from riva.client import Auth, NeuralMachineTranslationClient

from tests.gateways import RunningGateway, StartGateway

TEXT = "The weather in Berlin is very nice."
TERM = "Klima"
ENTRIES = {**{f"part {number}": f"Teil {number}" for number in range(11_999)}, "weather": TERM}


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Iterator[RunningGateway]:
    with start_gateway(riva_port=0) as running:
        yield running


@pytest.fixture(scope="module")
def stored(gateway: RunningGateway) -> str:
    """The glossary's id; LibreTranslate's and Riva's protocols cannot create one."""
    terms = {"source_language": "en", "target_language": "de", "entries": ENTRIES}
    made = gateway.post("/api/v1/glossaries", {"name": "Parts", "dictionaries": [terms]}).json
    assert made["dictionaries"][0]["entry_count"] == len(ENTRIES)
    return str(made["id"])


def test_own_api(gateway: RunningGateway, stored: str) -> None:
    body = {"text": TEXT, "source_language": "en", "target_language": "de"}
    plain, with_glossary = (
        gateway.post("/api/v1/translate", {**body, **more}).json["translations"][0]["text"]
        for more in ({}, {"glossary_ids": [stored]})
    )
    assert TERM not in plain
    assert TERM in with_glossary


def test_libretranslate(gateway: RunningGateway, stored: str) -> None:
    body = {"q": TEXT, "source": "en", "target": "de", "glossary_ids": stored}
    assert TERM in gateway.post("/translate", body).json["translatedText"]


def test_deepl(gateway: RunningGateway) -> None:
    with closing(DeepLClient("any", server_url=gateway.url)) as client:
        made = client.create_glossary("Parts", "EN", "DE", ENTRIES)
        assert made.entry_count == len(ENTRIES)
        translation = client.translate_text(TEXT, source_lang="EN", target_lang="DE", glossary=made)
        assert TERM in translation.text  # type: ignore[union-attr]


def test_riva(gateway: RunningGateway, stored: str) -> None:
    auth = Auth(uri=gateway.riva, metadata_args=[["glossary-ids", stored]])
    (translation,) = (
        NeuralMachineTranslationClient(auth).translate([TEXT], "", "en", "de").translations
    )
    assert TERM in translation.text
