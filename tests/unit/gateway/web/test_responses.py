"""Headers of errors."""

from __future__ import annotations

import pytest
from dragoman_gateway.core.errors import TooManyRequests, WrongMethod
from dragoman_gateway.web.responses import error_headers


@pytest.mark.parametrize(("wait_s", "written"), [(0.0, "1"), (1.0, "1"), (1.2, "2"), (6.5, "7")])
def test_the_retry_time_is_rounded_up(wait_s: float, written: str) -> None:
    assert error_headers(TooManyRequests("", wait_s)) == {"Retry-After": written}


def test_without_a_time_there_is_no_header() -> None:
    assert error_headers(TooManyRequests("")) == {}
    assert error_headers(WrongMethod("", ("GET", "PUT"))) == {"Allow": "GET, PUT"}
