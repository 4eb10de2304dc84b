"""The time until a stream's first text: through the gateway, and from Triton over gRPC and HTTP.

One client sends one request after another; the ways take turns, text by text. The cache is off.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack

from dragoman_client import Translator

from lab.gateway.raw_http import distinct_texts
from lab.measurement import TEXTS, Results, number, program, ratios
from lab.report import markdown_table
from lab.servers import run_gateway, serve

_TRITON = "Triton, gRPC"
_WARM_UP = 5


def first_text_ms(client: Translator, text: str) -> float:
    """Read a stream to its end; returns when its first text came."""
    begin_s, first_s = time.perf_counter(), None
    for part in client.translate_stream(text, source_language="en", target_language="de"):
        if first_s is None and part.text:
            first_s = time.perf_counter()
    return 1000 * ((first_s or time.perf_counter()) - begin_s)


def measure(clients: Mapping[str, Translator], texts: list[str]) -> dict[str, list[float]]:
    """The times in ms by the name of the client, one for each text."""
    times: dict[str, list[float]] = {name: [] for name in clients}
    for index, text in enumerate(texts):
        for name, client in clients.items():
            took_ms = first_text_ms(client, text)
            if index >= _WARM_UP:
                times[name].append(took_ms)
    return times


@program(TEXTS, number("--number", 200, "of texts"))
def main(arguments: argparse.Namespace) -> Results:
    """Print the table."""
    texts = distinct_texts(arguments.texts)[: arguments.number + _WARM_UP]
    with serve() as server, ExitStack() as opened:
        gateways = {
            "gateway, the engine's socket": None,
            "gateway, over Triton": server.grpc_url,
        }
        urls = {_TRITON: server.grpc_url, "Triton, HTTP": server.http_url}
        for name, triton in gateways.items():
            words = ("--cache-bytes=0",)
            urls[name], _ = opened.enter_context(run_gateway(server, *words, triton=triton))
        clients = {name: opened.enter_context(Translator(url)) for name, url in urls.items()}
        times = measure(clients, texts)
    rows = []
    for name, of_name in times.items():
        quartiles_ms = statistics.quantiles(of_name, n=4)
        compared = statistics.median(ratios(of_name, times[_TRITON]))
        rows.append([name, *(f"{one_ms:.1f}" for one_ms in quartiles_ms), f"{compared:.2f}"])
    head = ["stream from", "25 %, ms", "50 %, ms", "75 %, ms", f"over {_TRITON}"]
    print(markdown_table(head, rows))
    return {"first_text_ms": times}


if __name__ == "__main__":
    sys.exit(main())
