from __future__ import annotations

from collections.abc import Iterator

import pytest
from dragoman_serving.translation.translator import Translator

from tests.conftest import REPOSITORY


@pytest.fixture(scope="package")
def shipped() -> Iterator[Translator]:
    """The shipped model."""
    running = Translator(REPOSITORY / "model_repository" / "translate" / "1" / "bundle")
    yield running
    running.close()
