"""The server and the gateway that integration tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dragoman_export.publishing import publish

from tests.conftest import REPOSITORY
from tests.servers import Served, serving


@pytest.fixture(scope="session")
def shipped() -> Iterator[Served]:
    """The shipped model, served with default options."""
    with serving() as served:
        yield served


@pytest.fixture(scope="session")
def shipped_fp32(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The shipped model in fp32, and its graphs as the models `encoder` and `decoder`."""
    repository = tmp_path_factory.mktemp("fp32") / "repository"
    publish(REPOSITORY / "model_repository" / "translate" / "1" / "bundle", repository)
    config = repository / "translate" / "config.pbtxt"
    text = config.read_text()
    precision = 'key: "precision" value: { string_value: "%s" }'
    assert precision % "auto" in text
    config.write_text(text.replace(precision % "auto", precision % "fp32"))
    with serving(repository, more_models=("encoder", "decoder")) as served:
        yield served
