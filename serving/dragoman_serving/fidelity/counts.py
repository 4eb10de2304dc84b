"""Recognizes placeholders that stand for numbers, such as `{count}`, `%d`, and `#` of ICU messages.

The words beside them depend on a number: `{count} files` is `{count} Dateien`, not
`{count}-Dateien` as after a name.
"""

from __future__ import annotations

import re

_FORMAT = re.compile(
    r"%(?:\d+\$|\(\w+\))?[#0 +-]*+\d*+(?:\.\d+)?(?:hh|h|ll|l|L|z|j|t)?[diufFeEgG]|%L?n|#"
    r"|\{\s*+\w+\s*+,\s*+number\b[^{}]*\}"
)
_PLACEHOLDER = re.compile(
    r"(?:[%{$:[<*|][^\w\s@#]{0,2}\s?|__)(?P<name>[\w.$-]*+)\s?[^\w\s]{0,2}[a-z]?"
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NUMBERS = re.compile(
    r"(?i)amount|anzahl|bytes|cnt|counte?r?s?|days|digits|hours|integer|length|limit|max(?:imum)?"
    r"|milliseconds|min(?:imum)?|minutes|mins|months|n|nb|nombre|num(?:ber)?|percent(?:age)?|points"
    r"|qty|quantity|remaining|score|sec(?:ond)?s|sum|total|weeks|years|zahl"
)
"""Words in the names of placeholders for numbers."""
_COUNTED = re.compile(
    r" (?:bytes|characters|days|entries|events|files|hours|items|lines|messages|minutes|months"
    r"|people|percent|points|results|seconds|times|users|weeks|words|years"
    r"|Bytes?|Dateien|Einträge|Elemente|Ergebnisse|Jahren?|Minuten|Monaten?|Nachrichten|Personen"
    r"|Prozent|Punkten?|Sekunden|Stunden|Tagen?|Wochen|Wörter|Zeichen|Zeilen"
    r"|ans|caractères|éléments|fichiers|heures|jours|lignes|mois|mots|octets|personnes|résultats"
    r"|secondes|semaines|[^\W\d_]{2,32}\((?:en?|es|[nsx])\))(?!\w)"
)
"""What also placeholders without a name, such as `{0}`, count."""
_BEFORE = frozenset(' \t\n(["„“«\u202f\xa0')
_BEHIND = re.compile(r"[.,;:!?)\]\"'”»…]*(?!\S)|%|-[a-z]{2}|(?:st|nd|rd|th|er|e|ème)(?!\w)")


def is_count(text: str, begin: int, end: int) -> bool:
    """Whether a literal of a text is a placeholder for a number that stands by itself."""
    if (begin and text[begin - 1] not in _BEFORE) or _BEHIND.match(text, end) is None:
        return False
    if _FORMAT.fullmatch(text, begin, end):
        return True
    placeholder = _PLACEHOLDER.fullmatch(text, begin, end)
    return placeholder is not None and (
        any(map(_NUMBERS.fullmatch, _WORD.findall(placeholder["name"])))
        or _COUNTED.match(text, end) is not None
    )
