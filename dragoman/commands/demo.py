"""`dragoman demo`: serve, translate ten sentences each way by HTTP and by gRPC, stop."""

from __future__ import annotations

import argparse
from pathlib import Path

from dragoman.errors import CheckFailed

HELP = "serve, translate ten sentences each way by HTTP and by gRPC, stop"

SENTENCES = {
    "en": (
        "I would like a cup of coffee.",
        "Where is the nearest train station?",
        "She reads a book every week.",
        "We missed the last bus.",
        "Can you help me, please?",
        "It has been raining since this morning.",
        "My brother works in a hospital.",
        "I don't know what to say.",
        "The children are playing in the garden.",
        "If I had more time, I would learn Japanese.",
    ),
    "de": (
        "Ich hätte gern eine Tasse Kaffee.",
        "Wie spät ist es?",
        "Meine Schwester wohnt in einer kleinen Stadt.",
        "Er hat mir nicht geantwortet.",
        "Das Wetter ist heute sehr schön.",
        "Kannst du mir bitte das Salz geben?",
        "Wir haben gestern einen Film gesehen.",
        "Ich freue mich auf das Wochenende.",
        "Warum bist du so spät gekommen?",
        "Wenn es regnet, bleiben wir zu Hause.",
    ),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--repository",
        type=Path,
        default=Path("model_repository"),
        help="Triton model repository (default: model_repository)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print each sentence with its translation; fail if the two protocols differ."""
    from dragoman_client import Translator

    from serving.launcher import ServeOptions, TritonServer, stop_on_signals

    stop_on_signals()
    options = ServeOptions(arguments.repository, http_port=0, grpc_port=0, metrics_port=0)
    answers: dict[str, list[list[str]]] = {}
    with TritonServer(options) as server:
        for url in (server.http_url, server.grpc_url):
            print(f"\n{url}")
            with Translator(url) as translator:
                for language, sentences in SENTENCES.items():
                    found = translator.translate(sentences, source_language=language)
                    for source, translation in zip(sentences, found, strict=True):
                        print(f"  {source}\n    {translation.text}")
                    answers.setdefault(language, []).append([t.text for t in found])
    if any(by_http != by_grpc for by_http, by_grpc in answers.values()):
        raise CheckFailed("HTTP and gRPC gave different translations")
    return 0
