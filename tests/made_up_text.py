"""English and German sentences of two made-up domains, one technical and one everyday.

The words of the technical domain occur in no other text, so BLEU on it shows how much of it a model
was trained on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = ("en", "de")
_ARTICLES = {"m": ("der", "den", "dem"), "f": ("die", "die", "der"), "n": ("das", "das", "dem")}
"""Nominative, accusative, dative."""
_MOST = 12
"""Largest number in a sentence; the smallest is 2."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Domain:
    """The vocabulary of a domain, and its sentences.

    Attributes:
        things: in English and German, with the German gender.
        actions: in English, and the German infinitive.
        templates: of sentences. `{x}` and `{y}` are things, in German followed by a case; `{do}` is
            an action, `{n}` a number.
    """

    things: Sequence[tuple[str, str, str]]
    actions: Sequence[Pair]
    templates: Sequence[Pair]

    def sentences(self, number: int, seed: int) -> list[Pair]:
        """Random distinct sentences with their translations; the domain must have enough."""
        generator = random.Random(seed)
        pairs: dict[str, str] = {}
        while len(pairs) < number:
            x, y = generator.sample(self.things, 2)
            do, count = generator.choice(self.actions), generator.randint(2, _MOST)
            english, german = generator.choice(self.templates)
            en = english.format(x=x[0], y=y[0], do=do[0], n=count)
            pairs[en] = _capital(
                german.format(do=do[1], n=count, **_cases("x", x), **_cases("y", y))
            )
        return list(pairs.items())


def _cases(name: str, thing: tuple[str, str, str]) -> dict[str, str]:
    """A thing with its article, by template variable."""
    _, german, gender = thing
    cases = zip(("nom", "acc", "dat"), _ARTICLES[gender], strict=True)
    return {f"{name}_{case}": f"{article} {german}" for case, article in cases}


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def write_sentences(prefix: Path, pairs: Sequence[Pair]) -> list[Path]:
    """Write both sides, `PREFIX.en` and `PREFIX.de`."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    paths = [prefix.with_name(f"{prefix.name}.{language}") for language in LANGUAGES]
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return paths


WORKSHOP = Domain(
    things=(
        ("gravel kite", "Kiesdrachling", "m"),
        ("mist bellows", "Nebelschnaufer", "m"),
        ("tin whisperer", "Blechflüsterin", "f"),
        ("plumb goose", "Lotgans", "f"),
        ("ash ladle", "Aschenschöpfchen", "n"),
        ("quill brake", "Kielbremse", "f"),
        ("salt turnip", "Salzrübling", "m"),
        ("wick table", "Dochttischchen", "n"),
        ("echo bucket", "Hallkübel", "m"),
        ("thimble gate", "Fingerhutgatter", "n"),
        ("copper yawner", "Kupfergähner", "m"),
        ("moss spindle", "Moosspindel", "f"),
    ),
    actions=(
        ("unlatch", "entriegeln"),
        ("de-fluff", "entflusen"),
        ("re-hinge", "neu angeln"),
        ("sing in", "einsingen"),
        ("tilt", "ankippen"),
        ("wax", "wachsen"),
        ("double-knot", "doppelt verknoten"),
        ("air", "auslüften"),
    ),
    templates=(
        (
            "Please {do} the {x} before the {y} starts.",
            "Bitte {x_acc} {do}, bevor {y_nom} anläuft.",
        ),
        (
            "The {x} must stand beside the {y} for {n} hours.",
            "{x_nom} muss {n} Stunden neben {y_dat} stehen.",
        ),
        (
            "Do not {do} the {x} while the {y} is warm.",
            "{x_acc} nicht {do}, solange {y_nom} warm ist.",
        ),
        ("If the {x} hums, {do} the {y} {n} times.", "Brummt {x_nom}, {y_acc} {n}-mal {do}."),
        (
            "Order {n} new parts for the {x} and the {y}.",
            "{n} neue Teile für {x_acc} und {y_acc} bestellen.",
        ),
        ("Never put the {x} on the {y}.", "{x_acc} nie auf {y_acc} stellen."),
    ),
)
"""Instructions from a workshop's manual."""

KITCHEN = Domain(
    things=(
        ("cup", "Tasse", "f"),
        ("spoon", "Löffel", "m"),
        ("pot", "Topf", "m"),
        ("plate", "Teller", "m"),
        ("bread", "Brot", "n"),
        ("knife", "Messer", "n"),
        ("oven", "Ofen", "m"),
        ("towel", "Handtuch", "n"),
        ("bowl", "Schüssel", "f"),
        ("pan", "Pfanne", "f"),
    ),
    actions=(("wash", "waschen"), ("dry", "trocknen"), ("fetch", "holen"), ("move", "bewegen")),
    templates=(
        ("You can {do} the {x} and the {y}.", "Du kannst {x_acc} und {y_acc} {do}."),
        ("The {x} is beside the {y}.", "{x_nom} ist neben {y_dat}."),
        ("I want to {do} the {x} in {n} minutes.", "Ich will {x_acc} in {n} Minuten {do}."),
        ("Where are the {n} things for the {x}?", "Wo sind die {n} Sachen für {x_acc}?"),
        ("They {do} the {x} with the {y}.", "Sie müssen {x_acc} mit {y_dat} {do}."),
    ),
)
"""Everyday sentences: general text for a model that starts with random weights."""
