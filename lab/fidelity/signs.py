"""Emoji, signs and words of other scripts, in sentences that they must survive unchanged."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain, product

import regex  # type: ignore[import-untyped]

from lab.fidelity.made_up import templates

_SCRIPTS = (
    *((0x0100, 0x0180), (0x01CD, 0x0250), (0x1E00, 0x1EF9), (0x0391, 0x03CA), (0x0410, 0x0450)),
    *((0x0450, 0x0530), (0x0561, 0x0587), (0x05D0, 0x05EB), (0x0620, 0x064B), (0x0905, 0x093A)),
    *((0x0985, 0x09BA), (0x0E01, 0x0E31), (0x10D0, 0x10F1), (0x3042, 0x3097), (0x30A2, 0x30FB)),
    *((0x4E00, 0x4E80), (0x6700, 0x6780), (0xAC00, 0xAC80), (0xC548, 0xC5C8)),
)
"""Ranges: Latin with marks, Greek, Cyrillic, Armenian, Hebrew, Arabic, Devanagari, Bengali, Thai,
Georgian, Hiragana, Katakana, Chinese, Korean."""
_TONES = ("", *map(chr, range(0x1F3FB, 0x1F400)))
_GENDERED = (
    "👮👷💂🕵🧙🧚🧛🧜🧝👱🙍🙎🙅🙆💁🙋🧏🙇🤦🤷💆💇🚶🧍🧎🏃🧖🧗🏌🏄🚣🏊⛹🏋🚴🚵🤸🤽🤾🤹🧘🦸🦹👳👰🤵🧔"
)
_WORKS = "⚕⚖✈🌾🍳🍼🎓🎤🎨🏫🏭💻💼🔧🔬🚀🚒🦯🦼🦽🦰🦱🦲🦳"
_JOINED = (
    *("🏳️ 🌈", "🏳️ ⚧️", "🏴 ☠️", "🐕 🦺", "🐻 ❄️", "🐈 ⬛", "👁️ 🗨️", "❤️ 🔥", "❤️ 🩹", "😮 💨", "😵 💫"),
    *("😶 🌫️", "👯 ♀️", "👯 ♂️", "🤼 ♀️", "🤼 ♂️", "🧞 ♀️", "🧟 ♂️", "👨 👩 👧 👦", "👩 👩 👦", "👨 👧"),
)
_CHANGED = ("So", "Sk", "Cf", "Co", "Cn", "Mn", "Me")
"""Categories of characters that the words of a translation have none of."""


def listed(what: str) -> list[str]:
    """The signs, or the regions with a flag, of sentences.txt."""
    return " ".join(templates(what, "all")).split()


def emoji() -> list[str]:
    """Emoji as Unicode lists them: single, with tones, flags, keys, and joined sequences."""
    plain = regex.findall(r"\p{Emoji}", "".join(map(chr, range(0xA9, 0x1FAFF))))
    flagged = [
        character
        for character in plain
        if not 0x1F1E6 <= ord(character) <= 0x1F1FF and character not in _TONES
    ]
    single = (_shown(character) for character in flagged)
    bases = (
        character for character in flagged if regex.match(r"\p{Emoji_Modifier_Base}", character)
    )
    toned = map("".join, product(bases, _TONES[1:]))
    flags = (
        "".join(chr(0x1F1E6 + ord(letter) - 65) for letter in name) for name in listed("regions")
    )
    tagged = (
        "".join(chr(0xE0000 + ord(letter)) for letter in name)
        for name in ("gbeng", "gbsct", "gbwls")
    )
    return [
        *chain(single, toned, flags, (f"{key}\ufe0f\u20e3" for key in "#*0123456789")),
        *(f"🏴{tags}\U000e007f" for tags in tagged),
        *(
            _join(_shown(who) if not tone else who + tone, f"{sign}\ufe0f")
            for who, tone, sign in product(_GENDERED, _TONES, "♀♂")
        ),
        *(_join(who + tone, _shown(work)) for who, tone, work in product("👨👩🧑", _TONES, _WORKS)),
        *(
            _join(a + tone, "❤️", *kiss, b + other)
            for (a, b), tone, other, kiss in product(
                (("👩", "👨"), ("👨", "👨"), ("👩", "👩")), _TONES[1:], _TONES[1:], ((), ("💋",))
            )
        ),
        *(_join(*sequence.split()) for sequence in _JOINED),
    ]


def _shown(character: str) -> str:
    """A character with the selector that makes it an emoji, if it needs one."""
    return character if regex.match(r"\p{Emoji_Presentation}", character) else f"{character}\ufe0f"


def _join(*parts: str) -> str:
    return "\u200d".join(parts)


def foreign_words(letters: int = 1000) -> Iterator[str]:
    """Words of two to four letters of other scripts, with this many letters in total."""
    generator = random.Random(0)  # noqa: S311  (no secret)
    scripts = [
        [
            letter
            for letter in map(chr, range(*limits))
            if letter.islower() or unicodedata.category(letter) == "Lo"
        ]
        for limits in _SCRIPTS
    ]
    used = 0
    while used < letters:
        for script in scripts:
            word = "".join(generator.choices(script, k=generator.randint(2, 4))).capitalize()
            if unicodedata.is_normalized("NFC", word):
                used += len(word)
                yield word


def framed(items: Sequence[str], language: str) -> list[str]:
    """A sentence with each item, the frames in rotation."""
    frames = templates("frames", language)
    return [frames[index % len(frames)].format(item) for index, item in enumerate(items)]


def is_kept(item: str, translation: str) -> bool:
    """Whether an item is in a translation once, and no part of it or other sign besides."""
    before, found, after = translation.partition(item)
    rest = before + after
    strange = any(unicodedata.category(character) in _CHANGED for character in rest)
    return bool(found) and item not in rest and not strange
