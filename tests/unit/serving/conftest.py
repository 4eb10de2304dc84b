"""What the tests of Triton's backend need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.serving.relay import fake_triton

OURS = "dragoman_serving.relay"


@pytest.fixture
def triton() -> Iterator[Any]:
    """The module that Triton gives to its models; what is imported in the test sees it."""
    _forget()
    sys.modules[fake_triton.MODULE] = module = fake_triton.make_module()
    yield module
    del sys.modules[fake_triton.MODULE]
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.startswith(f"{OURS}.")]:
        del sys.modules[name]
