"""Response headers with the rate limits of a caller and the remaining quota.

Source: draft-ietf-httpapi-ratelimit-headers-11. The draft registers the units requests, bytes and
concurrent requests; the unit characters is our own.
"""

from __future__ import annotations

from dragoman_gateway.access.limits import MINUTE_S, LimitStatus

_MONTH_S = 31 * 24 * 3600


def rate_headers(status: LimitStatus, month_left_s: float) -> list[tuple[bytes, bytes]]:
    """Returns `RateLimit-Policy` and `RateLimit`; no headers without limits.

    Args:
        status: status after the request.
        month_left_s: seconds until the next month.
    """
    limits, policies, left = status.limits, [], []
    if (limit := limits.requests_per_minute) is not None:
        policies.append(f'"requests";q={limit};w=60')
        left.append(_left("requests", limit, status.requests))
    if (limit := limits.characters_per_minute) is not None:
        policies.append(f'"characters";q={limit};w=60;qu="characters"')
        left.append(_left("characters", limit, status.characters))
    if (limit := limits.characters_per_month) is not None:
        policies.append(f'"month";q={limit};w={_MONTH_S};qu="characters"')
        left.append(f'"month";r={max(0, limit - status.month)};t={int(month_left_s) + 1}')
    if (limit := limits.concurrent_requests) is not None:
        policies.append(f'"concurrent";q={limit};qu="concurrent-requests"')
        left.append(f'"concurrent";r={max(0, limit - status.running)}')
    if not policies:
        return []
    return [
        (b"ratelimit-policy", ", ".join(policies).encode()),
        (b"ratelimit", ", ".join(left).encode()),
    ]


def _left(name: str, limit: int, used: float) -> str:
    """Returns the rest of a bucket, and the time until it is full."""
    time_s = int(used * MINUTE_S / limit) + 1 if limit else int(MINUTE_S)
    return f'"{name}";r={max(0, int(limit - used))};t={time_s}'
