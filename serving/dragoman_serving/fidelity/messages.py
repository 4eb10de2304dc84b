"""Finds the syntax of ICU messages, Fluent and templates, whose branches are texts to translate.

In `You have {count, plural, one {# message} other {# messages}}.` the branches are `# message` and
`# messages`. Simple arguments such as `{count}` and `{d, date, long}` are literals. So are
`{{ name }}` and `<%= name %>`, but `{% if name %}`, `{{#if name}}` and `<% end %>` end a text. An
apostrophe may be doubled, as in `Don''t`, since one before a brace begins a quoted part.

Source: https://unicode-org.github.io/icu/userguide/format_parse/messages/,
https://projectfluent.org/fluent/guide/selectors.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dragoman.kernel.texts.cutting import Span

_BEGIN = re.compile(
    r"\{\s*+[\w.-]++\s*+,\s*+(?:plural|selectordinal|select)\s*+,(?:\s*+offset\s*+:\s*+\d++)?"
)
_SELECTOR = re.compile(r"\s*+(?:=\d++|[\w-]++)\s*+\{")
_END = re.compile(r"\s*+\}")
_BRACE = re.compile(r"[{}]")
_LETTER = r"[^\W\d_]"
_DOUBLED = re.compile(rf"(?<={_LETTER})''(?={_LETTER}|\{{)|(?<=\}})''(?={_LETTER})")
_QUOTED = re.compile(r"'[{}][^'\n]*'")
_BLOCK = re.compile(
    r"`[^`\n]*`"  # code
    r"|(?P<block>\{%[-+]?\s*(?:(?:if|elif|elsif|elseif|else|unless|for|empty|case|when|plural|pluralize"
    r"|blocktrans|blocktranslate|end[a-z]*)\b[^%{}\n]*|trans\s*[-+]?)%\}"
    r"|\{\{~?(?:[#/](?:if|unless|each|with)\b[^{}\n]*|\s*(?:else|end|if|range|with)\b[^{}\n]*|\^\w*+)\}\}"
    r"|<%(?!-?[=#])[^%<>\n]*%>|<\?(?!=|php\s+echo)[^?<>\n]*\?>)"
)
"""Blocks of Django, Jinja, Liquid, Twig, Handlebars, Go, ERB and PHP, which output nothing."""
_SELECT = re.compile(r"\{\s*+\$?[\w.-]++(?:\([^(){}\n]*\))?\s*+->")
_OF_SELECT = re.compile(
    rf"(?P<select>{_SELECT.pattern})|(?P<variant>\*?\[[\w.-]++\](?=\s))|(?P<open>\{{)|\}}"
)
_DEEPEST = 8
"""Messages within branches are read to this depth, which bounds the time."""


def syntax_spans(text: str) -> list[Span]:
    """Returns the spans of a text that are the syntax of messages, in order."""
    spans: list[Span] = []
    if "{" in text and _BEGIN.search(text) is not None:
        spans += _syntax(text, 0, len(text), _DEEPEST)
    if "->" in text and _SELECT.search(text) is not None:
        spans += _selectors(text)
    if "{%" in text or "{{" in text or "<%" in text or "<?" in text:
        spans += (match.span() for match in _BLOCK.finditer(text) if match["block"])
    return sorted(spans)


def _selectors(text: str) -> Iterator[Span]:
    """The begins, keys and ends of Fluent's select expressions."""
    is_select: list[bool] = []
    for match in _OF_SELECT.finditer(text):
        kind = match.lastgroup
        if kind == "variant":
            is_syntax = is_select[-1:] == [True]
        elif kind is None:
            is_syntax = bool(is_select) and is_select.pop()
        else:
            is_syntax = kind == "select"
            is_select.append(is_syntax)
        if is_syntax:
            yield match.span()


def doubled_apostrophes(text: str) -> list[Span]:
    """Returns the spans of doubled apostrophes in words, in order."""
    return [match.span() for match in _DOUBLED.finditer(text)] if "''" in text else []


def quoted_spans(text: str) -> list[Span]:
    """Returns the spans of quoted braces, in order."""
    return [match.span() for match in _QUOTED.finditer(text)]


def _syntax(text: str, begin: int, end: int, depth: int) -> Iterator[Span]:
    at = begin
    while depth and (match := _BEGIN.search(text, at, end)) is not None:
        at = match.end()
        if (branches := _branches(text, at, end)) is None:
            continue
        syntax = match.start()
        for branch, branch_end in branches[:-1]:
            yield syntax, branch
            yield from _syntax(text, branch, branch_end, depth - 1)
            syntax = branch_end
        at = branches[-1][1]
        yield syntax, at


def _branches(text: str, at: int, end: int) -> Sequence[Span] | None:
    """The spans of a message's branches, and that of its end; None: it is not one."""
    branches: list[Span] = []
    while (selector := _SELECTOR.match(text, at, end)) is not None:
        depth = 1
        for brace in _BRACE.finditer(text, selector.end(), end):
            depth += 1 if brace[0] == "{" else -1
            if not depth:
                break
        else:
            return None
        branches.append((selector.end(), brace.start()))
        at = brace.end()
    closing = _END.match(text, at, end)
    return [*branches, closing.span()] if branches and closing else None
