"""Sentences with variables, addresses and identifiers that a translation must repeat."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lab.fidelity.made_up import templates

_NAMES = [
    *("name", "user", "team", "city", "count", "date", "first", "last", "title", "group", "owner"),
    *("place", "total", "item"),
]
# A name stands for @, a number for #, an at sign for ~, a hash sign for &.
_TEXT = (
    *("{@}", "{#}", "{{@}}", "{{ @ }}", "%s", "%#$s", "%(@)s", "${@}", "$@", "<%= @ %>", "{% @ %}"),
    *(":@", ":@:", "~@", "&@", "[@]", "[[@]]", "%@%", "$(@)", "__@__"),
)
_NUMBER = ("{@}", "{#}", "{{@}}", "%d", "%#$d", "%(@)d", "${@}", "$@", "<%= @ %>", ":@", "%i")
_NUMERAL = re.compile(r"\d+")
_COUNTED = re.compile(r"(?a)^\D*(?<!\S)(?!1 )\d{1,3} [^\W\d_]{3,}\D*$")
_Make = Callable[[random.Random], str]


def _hexes(generator: random.Random, *lengths: int) -> list[str]:
    return [f"{generator.getrandbits(4 * length):0{length}x}" for length in lengths]


def _of(*texts: str) -> _Make:
    """Makes one of some texts: with a name for @, a number for #, and an at sign for ~."""

    def make(generator: random.Random) -> str:
        text = generator.choice(texts).replace("#", str(generator.randint(2, 9999)))
        return text.replace("@", generator.choice(_NAMES)).replace("~", "@")

    return make


_URL = _of("https://example.org/@", "http://www.example.com/@?id=#", "www.@.example.net")
_KINDS: Final[Mapping[str, Mapping[str, _Make]]] = {
    "u": {"URL": _URL, "mail": _of("@~example.org", "@.#~mail.example.com")},
    "a": {
        "URL": _URL,
        "IP": lambda rng: ".".join(str(rng.randint(1, 254)) for _ in range(4)),
        "MAC": lambda rng: ":".join(_hexes(rng, 2, 2, 2, 2, 2, 2)).upper(),
    },
    "f": {"file": _of("@-#.pdf", "/etc/@#.conf", "C:\\@\\#.txt", "@_#.tar.gz", "images/@.png")},
    "i": {
        "UUID": lambda rng: "-".join(_hexes(rng, 8, 4, 4, 4, 12)),
        "IBAN": lambda rng: f"DE{rng.randint(10, 99)} 3704 0044 {rng.randint(1000, 9999)} 0130 00",
        "identifier": _of("A-2024-0#", "XK#B", "@_#", "ISO-#", "INV/#/7"),
    },
    "v": {"version": lambda rng: ".".join(str(rng.randint(1, 30)) for _ in range(3))},
}


def placeholder(generator: random.Random) -> str:
    """A placeholder with a name or a number."""
    text = _of(*_TEXT)(generator)
    return text.replace("&", "#")


@dataclass(frozen=True)
class Sentence:
    """A sentence with its placeholders in their order, each by its kind."""

    text: str
    placeholders: tuple[tuple[str, str], ...]
    in_order: bool


def sentences(language: str, number: int) -> list[Sentence]:
    """Sentences with distinct placeholders; those of one syntax share a sentence."""
    generator = random.Random(language)  # noqa: S311  (no secret)
    lines = templates("placeholders", language)
    return [_sentence(lines[index % len(lines)], generator) for index in range(number)]


def _sentence(template: str, generator: random.Random) -> Sentence:
    names = generator.sample(_NAMES, len(_NAMES))
    number = generator.randrange(len(_NUMBER))
    same = generator.random() < 0.5  # numbers and texts in one syntax
    styles = {"n": _NUMBER[number], "t": _TEXT[number] if same else generator.choice(_TEXT)}
    placeholders: list[tuple[str, str]] = []

    def fill(slot: re.Match[str]) -> str:
        kind = styles.get(slot[1], "")
        if not kind:
            kind, make = generator.choice(list(_KINDS[slot[1]].items()))
            text = make(generator)
            while text in [other for _, other in placeholders]:
                text = make(generator)
        else:
            if re.fullmatch("%[sdi]", kind) and template.count(slot[0]) > 1:
                kind = f"%#${kind[1]}"  # two of %s could not be told apart
            text = kind.replace("#", str(len(placeholders) + 1)).replace(
                "@", names[len(placeholders)]
            )
            text = text.replace("~", "@").replace("&", "#")  # mentions and hash tags
        placeholders.append((kind, text))
        return text

    text = re.sub(r"\[([tnuafiv])\]", fill, template.removeprefix("="))
    tags = [("<0>", tag) for tag in re.findall(r"</?\d>", text)]
    ordered = sorted([*placeholders, *tags], key=lambda pair: text.index(pair[1]))
    return Sentence(text, tuple(ordered), template.startswith("="))


def counts(pairs: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Texts whose only number is that of the translation too, as a placeholder in both."""
    return sorted(
        {
            tuple(_NUMERAL.sub("{count}", text) for text in pair)
            for pair in pairs
            if _COUNTED.search(pair[0])
            and len({tuple(_NUMERAL.findall(text)) for text in pair}) == 1
        }
    )


def shown(kind: str) -> str:
    """A kind as tables show it: with a name and a number."""
    for sign, text in (("#", "1"), ("@", "name"), ("~", "@"), ("&", "#")):
        kind = kind.replace(sign, text)
    return kind


def positions(sentence: Sentence, translation: str) -> list[int | None]:
    """Where each placeholder stands in a translation; None: not exactly once, or not apart."""
    return [_position(text, translation) for _, text in sentence.placeholders]


def _position(placeholder: str, translation: str) -> int | None:
    """Beside it is no letter or digit: `Katzen:heart:` is none of `:heart:`."""
    starts = [match.start() for match in re.finditer(re.escape(placeholder), translation)]
    if len(starts) != 1:
        return None
    around = translation[: starts[0]][-1:], translation[starts[0] + len(placeholder) :][:1]
    is_tag = re.fullmatch(r"</?\d>", placeholder)
    return None if any(map(str.isalnum, around)) and not is_tag else starts[0]
