"""`dragoman demo`: serve, translate ten sentences each way over HTTP and gRPC, and stop."""

from __future__ import annotations

import argparse
from pathlib import Path

from dragoman.commands.shared.asking import one_line
from dragoman.kernel.errors import CheckFailed, DragomanError, UsageError

HELP = "serve, translate ten sentences each way over HTTP and gRPC, and stop"
EXTRA = "serve"

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--repository",
        type=Path,
        help="Triton model repository (default: the shipped model's)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print each sentence with its translation; fail if the two protocols differ."""
    from dragoman_client import TranslationError
    from dragoman_serving.launch.launcher import TritonServer
    from dragoman_serving.launch.repository import shipped_repository
    from dragoman_serving.launch.serve_options import ServeOptions
    from dragoman_serving.launch.stop_signals import stop_on_signals

    stop_on_signals()
    repository = arguments.repository or shipped_repository()
    options = ServeOptions(repository, http_port=0, grpc_port=0, metrics_port=0)
    answers = {}
    with TritonServer(options) as server:
        for url in (server.http_url, server.grpc_url):
            try:
                answers[url] = _translate(url)
            except TranslationError as error:
                raise DragomanError(f"{repository}: {one_line(error)}") from error
    by_http, by_grpc = answers.values()
    if not by_http:
        raise UsageError(
            f"{repository}: the model translates none of this command's sentences "
            f"({', '.join(SENTENCES)}): give your own to dragoman translate"
        )
    for url, by_direction in answers.items():
        print(f"\n{url}")
        for (source, _), translations in by_direction.items():
            for text, translation in zip(SENTENCES[source], translations, strict=True):
                print(f"  {text}\n    {translation}")
    if by_http != by_grpc:
        raise CheckFailed("HTTP and gRPC gave different translations")
    return 0


def _translate(url: str) -> dict[tuple[str, str], list[str]]:
    """Returns the translations of the sentences, for each trained direction."""
    from dragoman_client import Translator

    by_direction = {}
    with Translator(url) as translator:
        for source, target in translator.info().directions:
            if source in SENTENCES:
                translations = translator.translate(
                    SENTENCES[source], source_language=source, target_language=target
                )
                by_direction[source, target] = [translation.text for translation in translations]
    return by_direction
