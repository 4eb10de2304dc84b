"""The blocks of a Markdown file: paragraphs, headings, cells of tables and HTML.

Everything else, such as code, markers of lists, front matter and definitions of links, is between
them.

Source: https://spec.commonmark.org/0.31.2/#blocks-and-inlines, https://github.github.com/gfm/
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

BlockKind = Literal["text", "title", "cell", "html"]

MOST_DEPTH: Final = 100
"""Deeper quotations and lists are text."""
_FRONT_MATTER = re.compile(
    r"(?:---|\+\+\+)[ \t]*\r?\n(?:(?!---|\+\+\+|\.\.\.).*\n)*+(?:---|\+\+\+|\.\.\.).*\n?"
)
_LINE = re.compile(r"([^\r\n]*)(?:\r\n?|\n|$)")
_MARKER = re.compile(r"(?:[-+*:]|(\d{1,9})[.)])(?=[ \t]|$)")
_TASK = re.compile(r"\[[ xX]\][ \t]+")
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:[ \t]*")
_THEMATIC = re.compile(r"(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_SETEXT = re.compile(r"(?:=+|-+)[ \t]*$")
_HEADING = re.compile(r"#{1,6}(?:[ \t]+|$)")
_HEADING_END = re.compile(
    r"(?<![ \t])[ \t]*+(?:(?<=[ \t])#+[ \t]*+)?(?:\{[#.:][^{}\n]*\}[ \t]*+)?$"
)
_FENCE = re.compile(
    r"(`{3,})[^`]*$|(~{3,})|(\$\$)(?!.*\$\$)|\{(?:%-?|\{[<%])\s*highlight\b(?!.*(?:end|/\s*)highlight)"
)
_FORMULA_END = re.compile(r"\$\$")
_HIGHLIGHT_END = re.compile(r"(?:end|/\s*)highlight\b")
"""Where code of Jekyll and Hugo ends."""
_LINK_DEFINITION = re.compile(r"\[((?:[^\[\]\\]|\\.){1,999})\]:[ \t]*(.*)")
_TITLE_LINE = re.compile(r"\"[^\"]*\"[ \t]*$|'[^']*'[ \t]*$|\([^()]*\)[ \t]*$")
_KEPT_LINE = re.compile(
    r":::|\[!\w+\][+-]?[ \t]*$|\[\[?_?TOC_?\]\]?[ \t]*$|\*\[[^\]*]+\]:[^*]*$", re.IGNORECASE
)
"""Directives, alerts, places of a table of contents, and definitions of abbreviations."""
_ADMONITION = re.compile(r"(?:!!!|\?\?\?\+?|===[!+]?(?=[ \t]+[\"']))[ \t]+\S")
"""Notes and tabs of MkDocs, whose text is indented."""
_DELIMITERS = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$")
_CELL = re.compile(r"(?:[^|\\]|\\.?)*+")
_HTML_BLOCK = re.compile(
    r"<(?:/?(?:address|article|aside|base|blockquote|body|caption|center|col|colgroup|dd|details|"
    r"dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|h[1-6]|head|header|hr|html|"
    r"iframe|legend|li|link|main|menu|nav|ol|optgroup|option|p|param|search|section|summary|table|"
    r"tbody|td|tfoot|th|thead|title|tr|track|ul)(?:[ \t/>]|$)"
    r"|(?:script|pre|style|textarea)(?:[ \t>]|$)|!--|[?!])",
    re.IGNORECASE,
)
_HTML_TAG_LINE = re.compile(r"</?[A-Za-z][^<>]*>[ \t]*$")
_HTML_ENDS: Final = (
    (
        re.compile(r"<(?:script|pre|style|textarea)\b", re.IGNORECASE),
        re.compile(r"</(?:script|pre|style|textarea)>", re.IGNORECASE),
    ),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<!"), re.compile(r">")),
)


class Block(NamedTuple):
    """A part of a file with text.

    Attributes:
        kind: what it is; a line below a `title` underlines it, and the text of `html` is HTML.
        lines: begin and end of each of its lines, without quotation marks and indentation.
    """

    kind: BlockKind
    lines: tuple[tuple[int, int], ...]


@dataclass
class _Container:
    """A quotation, or an item of a list, whose lines are indented."""

    is_quote: bool
    indent: int = 0


class MarkdownBlocks:
    """The blocks of a file.

    Attributes:
        blocks: the blocks, in order.
        labels: the normalized labels of its link definitions.
    """

    def __init__(self, text: str) -> None:
        """Read a file."""
        self._text = text
        self.blocks: list[Block] = []
        self.labels: set[str] = set()
        self._containers: list[_Container] = []
        self._lines: list[tuple[int, int]] = []
        """The lines of the paragraph that is not finished."""
        self._fence_end: Callable[[str], object] | None = None
        """Whether a line ends the open fence, if there is one."""
        self._html_end: re.Pattern[str] | None = None
        """What ends the open HTML; None: an empty line."""
        self._is_html = self._is_table = self._is_definition = False
        front_matter = _FRONT_MATTER.match(text)
        position = front_matter.end() if front_matter else 0
        while position < len(text):
            line = _LINE.match(text, position)
            self._add(position, line.end(1) if line else len(text))
            position = line.end() if line else len(text)
        self._flush()

    def _add(self, begin: int, end: int) -> None:
        position, depth = self._inside(begin, end)
        is_blank = not self._text[position:end].strip()
        if depth < len(self._containers):
            if self._lines and not is_blank and not self._is_html and self._is_lazy(position, end):
                self._add_text(position, end)
                return
            self._flush()
            self._fence_end = None
            del self._containers[depth:]
        if self._fence_end or self._is_html:
            self._continue(position, end, is_blank)
        elif is_blank:
            self._flush()
        else:
            self._add_leaf(self._opened(position, end), end)

    def _inside(self, position: int, end: int) -> tuple[int, int]:
        """Returns where the content of a line begins, and in how many containers it is."""
        for depth, container in enumerate(self._containers):
            indent, first = self._indent(position, end)
            if container.is_quote:
                if indent > 3 or self._text[first : first + 1] != ">" or first == end:
                    return position, depth
                position = first + 1 + (self._text[first + 1 : first + 2] in (" ", "\t"))
            elif first < end:
                if indent < container.indent:
                    return position, depth
                position = self._behind(position, container.indent)
        return min(position, end), len(self._containers)

    def _indent(self, position: int, end: int) -> tuple[int, int]:
        """Returns the width of white space, and where it ends."""
        width = 0
        while position < end and self._text[position] in " \t":
            width += 1 if self._text[position] == " " else 4 - width % 4
            position += 1
        return width, position

    def _behind(self, position: int, indent: int) -> int:
        width = 0
        while width < indent:
            width += 1 if self._text[position] == " " else 4 - width % 4
            position += 1
        return position

    def _is_lazy(self, position: int, end: int) -> bool:
        """Whether a line continues a paragraph in a container that it does not repeat."""
        indent, first = self._indent(position, end)
        line = self._text[first:end]
        return indent > 3 or not (
            line.startswith((">", "#", "<", "|", "```", "~~~", ":::", "!!!"))
            or _MARKER.match(line)
            or _THEMATIC.match(line)
            or _FOOTNOTE.match(line)
        )

    def _continue(self, position: int, end: int, is_blank: bool) -> None:
        """Add a line to a fenced block or to HTML."""
        line = self._text[position:end].strip()
        if self._fence_end:
            if self._fence_end(line):
                self._fence_end = None
            return
        if is_blank and self._html_end is None:
            self._flush()
            return
        self._lines.append((position, end))
        if self._html_end and self._html_end.search(line):
            self._flush()

    def _opened(self, position: int, end: int) -> int:
        """Enter the containers that begin in a line; returns where its content begins."""
        while len(self._containers) < MOST_DEPTH:
            indent, first = self._indent(position, end)
            if indent > 3:
                break
            marker = _MARKER.match(self._text, first, end)
            footnote = _FOOTNOTE.match(self._text, first, end)
            if self._text[first] == ">":
                self._flush()
                self._containers.append(_Container(True))
                position = first + 1 + (self._text[first + 1 : first + 2] in (" ", "\t"))
            elif footnote:
                self._flush()
                self._containers.append(_Container(False, 4))
                position = footnote.end()
            elif marker and self._begins_item(marker, end):
                self._flush()
                width, content = self._indent(marker.end(), end)
                width = 1 if content == end or width > 4 else width
                self._containers.append(_Container(False, indent + len(marker[0]) + width))
                position = content if width <= 4 else marker.end() + 1
                if match := _TASK.match(self._text, position, end):
                    position = match.end()
            else:
                break
            if not self._text[position:end].strip():
                return end
        return position

    def _begins_item(self, marker: re.Match[str], end: int) -> bool:
        if _THEMATIC.match(self._text, marker.start(), end):
            return False
        is_empty = not self._text[marker.end() : end].strip()
        return not (self._lines and (is_empty or marker[1] not in (None, "1")))

    def _add_leaf(self, position: int, end: int) -> None:
        """Add the content of a line that is not in a fence or HTML."""
        indent, first = self._indent(position, end)
        line = self._text[first:end]
        if not line:
            return
        if indent > 3 and not self._lines:
            return  # code
        if self._is_definition and _TITLE_LINE.match(line):
            self._is_definition = False
            return
        self._is_definition = False
        if indent > 3 or not self._add_special(line, first, end):
            self._add_text(position, end)

    def _add_special(self, line: str, first: int, end: int) -> bool:
        """Add a line that is not of a paragraph; returns whether it is one."""
        if self._lines and _SETEXT.match(line):
            self._flush("title")
        elif _THEMATIC.match(line) or _KEPT_LINE.match(line):
            self._flush()
        elif heading := _HEADING.match(line):
            self._flush()
            closing = _HEADING_END.search(line, heading.end())
            last = first + (closing.start() if closing else len(line))
            self._add_block("text", [(first + heading.end(), last)])
        elif fence := _FENCE.match(line):
            self._flush()
            self._fence_end = _fence_end(fence)
        elif _ADMONITION.match(line):
            self._flush()
            self._containers.append(_Container(False, 4))
        elif _HTML_BLOCK.match(line) or (not self._lines and _HTML_TAG_LINE.match(line)):
            self._begin_html(line, first, end)
        elif not self._lines and (definition := _LINK_DEFINITION.match(line)):
            self.labels.add(normal_label(definition[1]))
            self._is_definition = True
        elif self._lines and "|" in line + self._text[slice(*self._lines[-1])]:
            return self._is_row(first, end)
        else:
            return False
        return True

    def _begin_html(self, line: str, first: int, end: int) -> None:
        self._flush()
        self._is_html = True
        self._html_end = next((last for begin, last in _HTML_ENDS if begin.match(line)), None)
        self._continue(first, end, False)

    def _is_row(self, first: int, end: int) -> bool:
        """Whether a line is a row of a table; then its cells, and those of the head, are added."""
        if not self._is_table:
            head = self._cells(*self._lines[-1])
            if not _DELIMITERS.match(self._text, first, end):
                return False
            if len(head) != len(self._cells(first, end)):
                return False
            *self._lines, _ = self._lines
            self._flush()
            self._add_cells(head)
            self._is_table = True
        else:
            self._add_cells(self._cells(first, end))
        self._lines = [(first, end)]  # so that the next line is a row too
        return True

    def _add_cells(self, cells: list[tuple[int, int]]) -> None:
        for cell in cells:
            self._add_block("cell", [cell])

    def _cells(self, first: int, end: int) -> list[tuple[int, int]]:
        """Returns begin and end of each cell of a row."""
        position = first + (self._text[first] == "|")
        end = first + len(self._text[first:end].rstrip())
        cells = []
        while position < end:
            match = _CELL.match(self._text, position, end)
            last = match.end() if match else end
            cells.append((position, last))
            position = last + 1
        return cells

    def _add_text(self, position: int, end: int) -> None:
        _, first = self._indent(position, end)
        if self._is_table:
            self._add_cells(self._cells(first, end))
        else:
            self._lines.append((first, end))

    def _flush(self, kind: BlockKind = "text") -> None:
        """Finish the paragraph, table or HTML."""
        if self._lines and not self._is_table:
            self._add_block("html" if self._is_html else kind, self._lines)
        self._lines = []
        self._is_html = self._is_table = False
        self._html_end = None

    def _add_block(self, kind: BlockKind, lines: list[tuple[int, int]]) -> None:
        begin, end = lines[-1]
        while end > begin and self._text[end - 1] in " \t":
            end -= 1
        lines = [*lines[:-1], (begin, end)]
        begin, end = lines[0]
        while begin < end and self._text[begin] in " \t":
            begin += 1
        lines[0] = begin, end
        if begin < lines[-1][1]:
            self.blocks.append(Block(kind, tuple(lines)))


def _fence_end(begin: re.Match[str]) -> Callable[[str], object]:
    if mark := begin[1] or begin[2]:
        return lambda line: len(line) >= len(mark) and not line.strip(mark[0])
    return (_FORMULA_END if begin[3] else _HIGHLIGHT_END).search


def normal_label(label: str) -> str:
    """Returns a label of links as it is compared."""
    return " ".join(label.split()).casefold()
