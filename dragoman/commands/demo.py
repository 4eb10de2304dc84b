"""`dragoman demo`: serve, translate ten sentences each way by HTTP and by gRPC, stop."""

from __future__ import annotations

import argparse
from pathlib import Path

from dragoman.kernel.errors import CheckFailed

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
    "fr": (
        "Je voudrais une tasse de café.",
        "Quelle heure est-il ?",
        "Ma sœur habite dans une petite ville.",
        "Il ne m'a pas répondu.",
        "Il fait très beau aujourd'hui.",
        "Pourrais-tu me passer le sel, s'il te plaît ?",
        "Nous avons vu un film hier soir.",
        "Je dois me lever tôt demain matin.",
        "Pourquoi es-tu arrivé si tard ?",
        "S'il pleut, nous resterons à la maison.",
    ),
}
DIRECTIONS = (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"))


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
    from dragoman_serving.launch.launcher import TritonServer
    from dragoman_serving.launch.serve_options import ServeOptions
    from dragoman_serving.launch.stop_signals import stop_on_signals

    stop_on_signals()
    options = ServeOptions(arguments.repository, http_port=0, grpc_port=0, metrics_port=0)
    answers: dict[tuple[str, str], list[list[str]]] = {}
    with TritonServer(options) as server:
        for url in (server.http_url, server.grpc_url):
            print(f"\n{url}")
            with Translator(url) as translator:
                for direction in DIRECTIONS:
                    source, target = direction
                    found = translator.translate(
                        SENTENCES[source], source_language=source, target_language=target
                    )
                    for text, translation in zip(SENTENCES[source], found, strict=True):
                        print(f"  {text}\n    {translation.text}")
                    answers.setdefault(direction, []).append([t.text for t in found])
    if any(by_http != by_grpc for by_http, by_grpc in answers.values()):
        raise CheckFailed("HTTP and gRPC gave different translations")
    return 0
