"""Matches language codes in requests with those of a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from dragoman_options.language_codes import current_code, is_language

MARK_BEGIN = ">>"
"""What a text with a target language begins with."""
_DEFAULT_SCRIPTS = {"zh": "hans", "sr": "cyrl"}
"""The script of a language that is usually written in one of two, if a code does not state it."""
_SCRIPTS_OF_REGIONS = {
    ("zh", region): script
    for script, regions in {"hans": "cn sg", "hant": "hk mo tw"}.items()
    for region in regions.split()
}
_MARK = re.compile(rf"{MARK_BEGIN}([\w-]{{2,40}})<<[ \t]*")
_REGION = re.compile(r"[a-z]{2}|\d{3}")
_SCRIPT = re.compile(r"[a-z]{4}")
_VARIANTS = {"pob": "pt-br"}
"""Codes of OPUS for variants of languages."""
_SAME, _SAME_FORM, _SAME_MEANING, _SAME_REGION, _SAME_SCRIPT = 16, 8, 4, 2, 1


def fold_language(given: str, known: Sequence[str]) -> str | None:
    """Returns the known code for a given one, such as `de` for `DE`, `de-DE`, `de_DE` and `deu`.

    Case is ignored, and `_` is the same as `-`. A code of three letters stands for the one of two
    letters. A code matches less specific ones, and the closest is returned: with `pt` and `pt-br`,
    `pt_BR` gives the second and `pt-PT` the first. A script that a code implies counts: `zh-CN` and
    `zh` match `cmn_Hans`, `zh-TW` does not.

    Args:
        given: code in a request.
        known: codes of the model.

    Returns:
        One of `known`, the first of equally close ones; None if none matches.

    Source: RFC 4647, section 3.4, extended by scripts and other codes of the same language
    """
    if given in known:
        return given
    best = max(known, key=lambda code: closeness(given, code), default=None)
    return best if best is not None and closeness(given, best) >= 0 else None


class TargetMark(NamedTuple):
    """A target language at the beginning of a text, as Marian's models read it: `>>fra<< Hello`.

    Attributes:
        code: the code in the text.
        language: the target language that it means; None: a language that is not translated into.
        rest: the text after it.
    """

    code: str
    language: str | None
    rest: str

    @classmethod
    def of(cls, text: str, targets: Sequence[str]) -> TargetMark | None:
        """Finds a text's mark.

        Args:
            text: a text.
            targets: codes of the target languages.

        Returns:
            The mark, or None if the text has none, or one that names no language.
        """
        match = _MARK.match(text) if text.startswith(MARK_BEGIN) else None
        if match is None:
            return None
        language = fold_language(match[1], targets)
        if language is None and not is_language(re.split("[-_]", match[1])[0].lower()):
            return None
        return cls(match[1], language, text[match.end() :])


def language_fallbacks(given: Iterable[str | None], known: Sequence[str]) -> tuple[str, ...]:
    """Returns the codes that were matched with another one, such as `zh-CN=cmn_Hans`.

    Args:
        given: codes in a request; None, and codes that match none, are left out.
        known: codes of the model.
    """
    codes = [code for code in given if code and code not in known]
    matches = [(code, fold_language(code, known)) for code in codes]
    return tuple(
        f"{code}={match}" for code, match in matches if match and _form(code) != _form(match)
    )


@lru_cache(maxsize=4096)
def closeness(given: str, known: str) -> int:
    """Returns how closely a known language code matches a given one; -1: not at all."""
    if given == known:
        return _SAME
    if _form(given) == _form(known):
        return _SAME_FORM
    requested, offered = _Tag.of(given), _Tag.of(known)
    if requested == offered:
        return _SAME_MEANING
    if (
        requested.language != offered.language
        or (requested.script and offered.script and requested.script != offered.script)
        or (offered.region and requested.region != offered.region)
        or not {*offered.others} <= {*requested.others}
    ):
        return -1
    script = requested.script or _DEFAULT_SCRIPTS.get(requested.language)
    has_script = bool(offered.script) and offered.script == script
    return _SAME_REGION * bool(offered.region) + _SAME_SCRIPT * has_script


class _Tag(NamedTuple):
    """The parts of a language code, in small letters; empty if it has none."""

    language: str
    script: str
    region: str
    others: tuple[str, ...]

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, code: str) -> _Tag:
        form = _form(code)
        language, *parts = _VARIANTS.get(form, form).split("-")
        language, script, region = current_code(language), "", ""
        if parts and _SCRIPT.fullmatch(parts[0]):
            script = parts.pop(0)
        if parts and _REGION.fullmatch(parts[0]):
            region = parts.pop(0)
        script = script or _SCRIPTS_OF_REGIONS.get((language, region), "")
        return cls(language, script, region, tuple(parts))


def _form(code: str) -> str:
    return code.strip().replace("_", "-").casefold()
