"""Made-up sentences in which it is known which word another word should attend to.

Twins are two sentences that differ only slightly but have different correct words. A head that
depends on position alone is correct in only one of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A sentence, and which word should be attended to rather than another."""

    text: str
    target_language: str
    looks: str
    """The word that attends; it and the next two occur once in the text."""
    wanted: str
    other: str

    def span(self, word: str) -> tuple[int, int]:
        """The characters of a word of the text."""
        match = re.search(rf"\b{re.escape(word)}\b", self.text)
        if match is None:
            raise ValueError(f"{self.text!r} has no word {word!r}")
        return match.span()


@dataclass(frozen=True)
class Probe:
    """A relation between words, and sentences that have it.

    `twins` come in pairs. `controls` are the same cases without the relation: the attending word or
    the wanted word is replaced by another one.
    """

    name: str
    cases: tuple[Case, ...]
    twins: bool = False
    controls: tuple[Case, ...] = ()


def probes() -> list[Probe]:
    """All probes: English translated into German, and German into English."""
    its, the = zip(*_its(), strict=True)
    make, do = zip(*_make(), strict=True)
    prefixes, places = zip(*_separable(), strict=True)
    return [
        Probe('"it" and its noun, by sense', tuple(_it()), twins=True),
        Probe('"he", "she" and the name, by sex', tuple(_he_and_she()), twins=True),
        Probe('"its" and the noun before it', its, controls=the),
        Probe('"make" and the adjective after its object', make, controls=do),
        Probe("German verb and its prefix at the end", prefixes, controls=places),
        Probe("article and noun, past adjectives", tuple(_articles())),
        Probe("verb and its subject, past another noun", tuple(_subjects())),
    ]


def _it() -> Iterator[Case]:
    sentences = (
        # The paper's own example first, in the form of Google's announcement.
        (
            "The animal didn't cross the street because it was too {}.",
            "animal tired",
            "street wide",
        ),
        ("The dog didn't fit through the door because it was too {}.", "dog fat", "door narrow"),
        ("The cake isn't in the box because it is too {}.", "cake big", "box small"),
        ("The car didn't drive over the bridge because it was too {}.", "car heavy", "bridge old"),
        ("The cat didn't jump over the wall because it was too {}.", "cat weak", "wall high"),
        ("The book doesn't fit in the bag because it is too {}.", "book large", "bag small"),
        ("The horse didn't cross the river because it was too {}.", "horse afraid", "river deep"),
        ("The child didn't read the book because it was too {}.", "child young", "book long"),
        ("The bird couldn't leave the cage because it was too {}.", "bird sick", "cage strong"),
        ("The ship didn't enter the harbor because it was too {}.", "ship big", "harbor small"),
    )
    for sentence, *choices in sentences:
        (first, first_reason), (second, second_reason) = (choice.split() for choice in choices)
        yield Case(sentence.format(first_reason), "de", "it", first, second)
        yield Case(sentence.format(second_reason), "de", "it", second, first)


def _he_and_she() -> Iterator[Case]:
    women, men = ("Mary", "Anna", "Maria"), ("Tom", "John", "Peter")
    sentences = (
        "{} told {} that {} was tired.",
        "{} asked {} if {} could help.",
        "{} didn't call {} because {} was busy.",
        "{} saw {} when {} came home.",
    )
    for sentence, (woman, man) in itertools.product(sentences, zip(women, men, strict=True)):
        for names in ((woman, man), (man, woman)):
            yield Case(sentence.format(*names, "she"), "de", "she", woman, man)
            yield Case(sentence.format(*names, "he"), "de", "he", man, woman)


def _its() -> Iterator[tuple[Case, Case]]:
    nouns = ("company", "city", "school", "country", "bird", "tree", "house", "church")
    ends = (
        ("has lost {} name", "name"),
        ("will never change {} color", "color"),
        ("is known for {} beauty", "beauty"),
        ("has not forgotten {} past", "past"),
    )
    for noun, (end, thing) in itertools.product(nouns, ends):
        yield (
            Case(f"The {noun} {end.format('its')}.", "de", "its", noun, thing),
            Case(f"The {noun} {end.format('that')}.", "de", "that", noun, thing),
        )


def _make() -> Iterator[tuple[Case, Case]]:
    objects = (
        *("the work", "our life", "the new law", "this long trip", "the lives of many people"),
        *("your first day at school", "the search for new words", "my job", "a simple question"),
    )
    choices = (("difficult", "today"), ("easier", "together"), ("dangerous", "tomorrow"))
    for thing, (adjective, adverb) in itertools.product(objects, choices):
        other = thing.split()[-1]
        yield (
            Case(f"They make {thing} {adjective}.", "de", "make", adjective, other),
            Case(f"They discuss {thing} {adverb}.", "de", "discuss", adverb, other),
        )


def _separable() -> Iterator[tuple[Case, Case]]:
    sentences = (
        "Er {steht} jeden Morgen um sechs Uhr {auf}.",
        "Sie {ruft} ihre Mutter jeden Abend {an}.",
        "Der Zug {kommt} heute um acht Uhr in Berlin {an}.",
        "Wir {laden} unsere Freunde zum Essen {ein}.",
        "Ich {mache} das Fenster in meinem Zimmer {zu}.",
        "Tom {gibt} sein ganzes Geld für Bücher {aus}.",
        "Der Film {fängt} heute Abend um neun Uhr {an}.",
        "Sie {zieht} ihren neuen roten Mantel {an}.",
        "Er {nimmt} seinen alten Hut nie {ab}.",
        "Ich {hole} dich morgen vom Bahnhof {ab}.",
        "Maria {sieht} heute sehr müde {aus}.",
        "Das Kind {schläft} jeden Abend im Auto {ein}.",
        "Der Lehrer {bereitet} seine Schüler auf die Prüfung {vor}.",
        "Wir {fahren} morgen mit dem Zug nach Hamburg {ab}.",
        "Er {hört} nie mit dem Rauchen {auf}.",
        "Sie {bringt} ihren Bruder zur Party {mit}.",
        "Wir {schalten} das Licht im Wohnzimmer {aus}.",
        "Der Mann {steigt} am nächsten Bahnhof {aus}.",
        "Sie {wirft} die alten Zeitungen nicht {weg}.",
        "Ich {schlage} dir einen anderen Weg {vor}.",
        "Er {lehnt} das Angebot der Firma {ab}.",
        "Das Konzert {findet} im großen Saal {statt}.",
        "Die Frau {kehrt} nach vielen Jahren {zurück}.",
        "Wir {kaufen} heute im Supermarkt {ein}.",
    )
    for sentence in sentences:
        verb, prefix = re.findall(r"\{(\w+)\}", sentence)
        words = sentence.replace("{", "").replace("}", "")
        other = words.split()[-2]
        control = words.removesuffix(f"{prefix}.") + "hier."
        yield Case(words, "en", verb, prefix, other), Case(control, "en", verb, "hier", other)


def _articles() -> Iterator[Case]:
    for noun, adjectives in itertools.product(
        ("house", "car", "dog", "man"), ("old", "beautiful", "big black", "small white")
    ):
        yield Case(f"We saw the {adjectives} {noun} yesterday.", "de", "the", noun, "yesterday")


def _subjects() -> Iterator[Case]:
    nouns = ("man", "teacher", "girl", "doctor")
    for noun, (other, verb) in itertools.product(
        nouns, (("garden", "works"), ("car", "laughs"), ("house", "sleeps"), ("room", "reads"))
    ):
        yield Case(f"The {noun} in the {other} {verb}.", "de", verb, noun, other)
