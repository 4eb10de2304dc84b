"""Finds literals: parts of a text that its translation must repeat unchanged.

Some have a known form, such as placeholders and addresses. Others have characters that the
vocabulary cannot write: it splits them into bytes, or its normalization replaces them.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Final, NamedTuple

from dragoman.kernel.text import Tokenizer
from dragoman.kernel.texts.cutting import Span
from dragoman_serving.fidelity import measures
from dragoman_serving.fidelity.counts import is_count
from dragoman_serving.fidelity.letter_case import upper
from dragoman_serving.fidelity.names import names_of

_SUFFIXES = (
    "avi|bash|bat|bin|bmp|bz2|c|cfg|conf|cpp|css|csv|deb|dll|docx?|eml|epub|exe|gif|go|gz|h|html?|"
    "ini|iso|jar|java|jpe?g|js|json|jsx|log|md|mkv|mov|mp3|mp4|ods|odt|ogg|pdf|php|png|po|pptx?|"
    "properties|ps1|py|rar|rb|rpm|rs|rst|rtf|sh|so|sql|srt|svg|tar|tex|tgz|tiff?|toml|ts|tsv|tsx|"
    "txt|vtt|wav|webp|whl|xlsx?|xml|xz|ya?ml|zip|zst"
)
_DOMAINS = "ai|app|at|be|ca|ch|com|de|dev|edu|eu|fr|gov|info|io|it|net|nl|org|uk"
_STANDARDS = "ANSI|ASTM|BS|DIN|EN|IEC|IEEE|ISO|NF|RFC|TR|TS|VDE|VDI"
_HEX = r"[0-9A-Fa-f]"
_CAPITALS = "A-ZÀ-ÖØ-Þ"
_DATE = r"(?:d{1,4}|D{1,4}|M{1,4}|mm|[yY]{2,4}|[hH]{1,2}|ss|S{2,3}|TT|J{2,4}|A{4})"
"""A part of the pattern of a date or a time, such as `yyyy`."""
_TIME = r"%[-_]?[aAbBcdHIjmMpSUwWxXyYzZ]"
_THOUSANDS = r"[1-9]\d{0,2}(?:\.\d{3})++(?:,\d+)?(?![\w-]|[.,]\d)"
_OF_SIGNS = (
    r"&(?:[A-Za-z][A-Za-z0-9]*|#\d+|#[xX][0-9A-Fa-f]+);",  # character references
    r"`[^`\n]+`",  # code in Markdown
    r"<[%?][^%?<>\n]*[%?]>|\{%[^%{}\n]*%\}",  # template engines
    r"\{{2,3}[^{}\n]*\}{2,3}",
    r"[$#%]?\{[^{}\n]*\}",  # str.format, ICU, shells, Ruby
    # LaTeX, but not amounts of dollars
    r"\$(?!\d[\d.,]*(?: [A-Za-z(]|\\n))(?=[^$\s][^$\n]{0,200}[\\^_])[^$\n]*+(?<!\s)\$(?!\d)",
    r"\$[A-Za-z_]\w*|[$#](?:\([A-Za-z_]\w*\)|\[[A-Za-z_]\w*\])",
    r"\\[A-Za-z]{2,32}(?:\[[^\[\]{}\n]*\])?\{[^{}\n]*\}",
    r"##\w{1,64}##|@@\w{1,64}@@|%%\w{1,64}%%|\*\|\w{1,64}\|\*|<<\w{1,64}>>",
    rf"\[(?=[{_CAPITALS}]{{2}})(?:(?<=\w \[)|(?<=\w, \[)|(?=[^][\n]{{1,64}}\](?:,| [a-z])))"
    rf"[{_CAPITALS}]{{2,32}}(?:[ _-][{_CAPITALS}]{{1,32}}){{0,4}}\](?!\()",
    r"\[\[[\w.:-]{1,64}\]\]|\$\$(?=[^$\n]*[\\^_=+])[^$\n]+\$\$(?!\$)",
    r"<(?:[@#!:]|t:\d)[^<>\s]+>",  # Slack, Discord
    r"-(?<![\w-]-)-?[A-Za-z][\w-]{0,64}+=[^\s<>\"'()\[\]{},;]{0,200}\w",
    rf"{_TIME}(?:(?:[-./:T ]|, )?{_TIME})+(?![A-Za-z])",  # strftime
    r"%[A-Za-z_](?:[\w.-]{0,62}\w)?%(?![\w%])",
    r"%\([^()\n]+\)[#0 +-]*+\d*+(?:\.\d+)?[diouxXeEfFgGcrsa]",  # printf
    r"%(?:\d+\$)?[#0+-]*+\d*+(?:\.\d+)?(?:hh|h|ll|l|L|z|j|t)?[diouxXeEfFgGcrsa@](?![A-Za-z])",
    r"%(?<!\w%)(?:L?\d{1,2}(?:%L?\d{1,2})*+%?|n)(?!\w)",  # Qt, Boost
    r":(?<![\w:]:)(?:[a-z0-9_+-]{1,64}:(?!\w)|\w+(?![\w:]|[.,]\d))|:(?<!\S:):\w++(?![.,]\d)",
    r"@(?<![\w@.]@)\w(?:[\w.-]*\w)?",
    r"!(?<!\S!)[a-z_]\w*+",
    r"#(?<![\w#&]#)(?=\w*[^\W\d])\w+",
    r"#(?<!\S#)(?= (?!of )[a-zß-ÿ])",  # a number in ICU messages
    r"\+(?<!\w\+)\d{1,3}(?:[ ./()-]{1,3}\d{1,6}){2,8}(?!\w)",  # telephone numbers
    r"\((?<!\w\()0\d{1,5}\)[ /-]?\d{2,8}(?:[ /-]\d{2,8}){0,4}(?![\w/]|[.,:]\d)",
    r"(?=[~/])(?<![\w./~])~?(?:/[\w.-]+){2,}/?",
)
"""Patterns of literals by what they begin with, so that few are tried at each position. Each must
take linear time on any text. A zero is both flag and digit, so both are possessive."""
_OF_DIGITS = (
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?:/\d+)?(?![\w.]?\w)",  # IPv4
    r"(?<![\w.,:/-])(?<!\d )(?:00?[1-9]\d{1,4}[ /-]\d{3,8}(?:[ -]\d{2,8}){0,4}|0[1-9](?: \d\d){4})"
    r"(?![\w/]|[.,:]\d)",
    # 10", 10" x 8", 2 1/2", 5'11", 4' x 8', 9' high
    r"(?<![\w.,/])(?:\d{1,3}' ?)?(?:\d{1,3}[ -])?\d+(?:[.,/]\d+)?\"(?: ?[x×] ?\d+(?:[.,]\d+)?\")*",  # noqa: RUF001
    r"(?<![\w.,/])\d{1,4}'(?:(?: ?[x×] ?| (?:by|x) )\d{1,4}'(?!\w)"  # noqa: RUF001
    r"|(?= (?:deep|high|long|tall|thick|wide)(?!\w)))",
    r"(?<![\w.,/])\d{1,3} [1-9]/(?:[2-9]|1[0-6])(?![\w/]|[.,]\d)",  # 4 1/2
    r"(?<![\w.,])\d+(?:[.,]\d+)? ?[×·x*] ?10(?:\^[+-]?\d+|[⁺⁻]?[⁰¹²³⁴-⁹]+)(?!\w)",  # noqa: RUF001
    r"(?<![\w.-])\d+(?:-\d+){2,}(?:-[\dX])?(?!\w)",  # dates, ISBNs
    r"(?<![\w.,-])\d{1,4}(?:\((?:[a-z]|[ivx]{1,5}|\d{1,2})\)){1,4}(?!\w)",  # 4(b)(ii)
    r"(?<![\w.,])\d+(?:[.,]\d+)?[eE][+-]?\d+(?!\w)",  # 1e-9
    rf"(?<![\w.])(?:(?<=ersion )|(?!{_THOUSANDS}))"  # versions, dates
    r"\d+(?:\.\d+){2,}(?:-\w+(?:\.\d+)*)?(?!\w)",
)
_OF_ADDRESSES = (
    r"(?:(?<![A-Za-z\d+.-])[A-Za-z][A-Za-z\d+.-]{1,15}+://|www\.)(?=[^\s<>\"])"
    r"(?:[^\s<>\"()]*+\([^\s<>\"()]*+\))*+(?:[^\s<>\"]*[^\s<>\".,;:!?)\]}'])?",
    r"(?<!\w)(?:arXiv|doi|localhost|magnet|mailto|sms|tel|urn):[^\s<>\",;)]*[\w/]",
)
_OF_LETTERS = (
    rf"(?=[dDMmyYhHsSTJA])(?<![\w./:-])(?=[\w./:-]{{0,12}}?(?:dd|DD|MM|mm|yy|YY|HH|TT|JJ)){_DATE}(?:[-./:]{_DATE}){{1,3}}"
    rf"(?:[T ]{_DATE}(?:[.:]{_DATE}){{1,2}})?(?![\w/:-]|\.\w)",
    r"(?<!\w)(?:BIC|SWIFT(?:[ -](?:BIC|[Cc]ode))?):? ?[A-Z]{6}[A-Z\d]{2}(?:[A-Z\d]{3})?(?!\w)",
    r"(?<![\w.])v\d+(?:\.\d+)*(?:-\w+(?:\.\d+)*)?(?!\w)",
    rf"(?<![\w.-])(?:{_STANDARDS})(?:[ /-](?:{_STANDARDS}))*+[ -]?\d{{3,6}}(?:[.:-]\d{{1,4}})*+"
    r"(?!\w)",
    r"(?<![\w./\\~@#$%:-])[A-Za-z][A-Za-z0-9]*+(?:_++[A-Za-z0-9]++)++(?!\w)",  # snake_case
    r"(?<![\w.:])(?:[A-Za-z_][\w.]{0,64}+\(\)"  # calls, but not `Comments(3)`
    r"|(?:[A-Za-z]|(?=[\w.]*[._]|[a-z\d]+[A-Z])[A-Za-z_][\w.]{1,64}+)\([\d., %-]*\))",
    r"(?<![\w:])[a-z_]\w*+(?:::\w++)++(?!:)",
    r"(?<![\w-])[a-z]{2}(?:-[A-Z][a-z]{3})?-[A-Z]{2}(?![\w-])",  # languages
    r"(?<!\w)eyJ[\w-]{8,}(?:\.[\w-]+){1,4}",  # JSON Web Tokens
    r"(?<![\w-])(?:AUD|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|NOK|NZD|PLN|SEK|USD)(?![\w-])",
)
_OF_WORDS = (
    r"(?<!\w)(?:__\w{1,64}__|_{3,})(?!\w)|(?<!\S)[a-h]\)(?=\s)",
    r"(?<![\w=<>!&-])(?:[a-z_]|[A-Z](?![a-z]))[\w.-]{0,64}+=(?!=)[^\s<>\"'()\[\]{},;]{0,200}\w",
    rf"(?<![\w:-])(?:{_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}(?![\w:])",  # MAC addresses
    rf"(?<![\w-]){_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}(?![\w-])",  # UUIDs
    rf"(?<![\w:])(?={_HEX}{{1,4}}:)(?:(?:{_HEX}{{1,4}}:){{2,7}}{_HEX}{{1,4}}(?:,\d{{3}})?"  # times
    rf"|(?:{_HEX}{{1,4}}:){{1,7}}:(?:{_HEX}{{1,4}}(?::{_HEX}{{1,4}}){{0,6}})?(?:/\d+)?)(?![\w:])",
    r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)",  # IBANs
    rf"(?<!\w)(?:0x{_HEX}{{1,64}}|(?=[a-f]*\d){_HEX}{{16,128}})(?!\w)",
    rf"(?=\d)(?:{'|'.join(_OF_DIGITS)})",
    rf"(?=[A-Za-z])(?:{'|'.join(_OF_LETTERS)})",
)
"""Patterns of literals that begin with a word."""
_FORMS = (
    rf"(?=[^\w\s])(?:{'|'.join(_OF_SIGNS)})",
    rf"(?=\w)(?:{'|'.join(_OF_ADDRESSES)})",
    r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+\.[\w.-]*\w",  # mail: at most 64 characters before the @
    rf"(?<![\w.@-])(?:[\w-]{{1,63}}\.){{1,8}}(?:{_DOMAINS})(?:/[^\s<>\"]*[\w/])?(?![\w-]|\.\w)",
    r"(?<![\w.@-])(?:[A-Z\d-]{1,63}\.){1,8}(?:COM|DE|EDU|EU|FR|GOV|INFO|NET|ORG|UK)(?![\w-]|\.\w)",
    rf"(?<!\w)(?=\w)(?:{'|'.join(_OF_WORDS)})",
    # names of files, but not `d.h.`
    rf"(?<![\w./\\~:-])(?!\w\.\w\.)[\w./\\~:-]{{1,200}}\.(?:{_SUFFIXES})(?![\w-]|\.\w)",
    r"(?<![\w\\])(?:[A-Za-z]:|\\\\[\w.-]{2,64})\\[^\s\"]*\w",  # Windows paths
)
DIRECTIONS: Final = "\u2066\u2067\u2068\u2069\u202a\u202b\u202d\u202e\u202c\u200e\u200f"
"""Invisible marks of the direction of text."""
_SMILEYS = (
    r"(?=[:;=8<^>-])(?<![^\s(\"„“«])(?:>?(?:[:;=]['’]?-?|8-)[()\[\]DPpOo|/\\]|<3|\^_?\^|-_-)(?!\w)"  # noqa: RUF001
)
_BB_NAMES = "b|i|u|s|p|url|img|quote|code|color|size|list|center|spoiler|email"
_MARKS = (
    r"(?=[\x1b<.~-])(?:\x1b\[[\d;]{0,16}+[A-Za-z]|<!--|-{2,}>|-{3,}|\.{4,}|~{3,})"
    r"|\*{2,3}|~~|%%(?!\w+%%)|={2,}|!=|&&|\|\||(?<=[\w,;] )!\[(?=\w)"
    r"|'{2,5}(?!(?<=[^\W\d_]'')(?:[^\W\d_]|\{)|(?<=\}'')[^\W\d_])"  # not `Don''t`
    r"|\[\[(?![\w.:-]{1,64}\]\])(?:[^\[\]|\n]*\|)?|\]\]"
    rf"|[{DIRECTIONS}](?:(?=[{{%$])|(?<=\}}.))"
    rf"|\[(?:/[A-Za-z]\w*+|(?<!\w\[)(?:{_BB_NAMES}"
    r"|[A-Za-z]\w*+(?: \w+)?=(?:\"[^\"\[\]\n]*\"|[^\s\[\]]*(?: [^\s\[\]]+)?)))\]"
)
"""Marks of Markdown, wikis and forums, and operators; not `![` where its `!` may end a sentence."""
_INSERTED = (
    "an|and|are|as|at|by|for|from|has|he|hers?|him|his|is|its?|my|of|or|our|she|that|the|their|them"
    "|they|this|to|was|we|were|which|who|will|with|would|you|your"
    "|als|an|auf|aus|das|dass|dem|den|der|des|die|ein|eine|er|es|ihn|ihr|ist|mit|sein|sie|und|von"
    "|wir|zu|à|au|aux|ce|de|des|du|elle|en|est|et|il|ils|la|le|les|leur|nous|on|ou|par|pour|que"
    "|qui|sa|se|ses|son|un|une|vous"
)
"""Words that an editor adds to a quotation, which are translated."""
_CODES = (
    # passwords
    r"(?!\d+[%*])(?=[A-Za-z\d!#$%&*?@^~]{8})"
    r"(?=[^\d\s]{1,32}\d|\d[^A-Za-z\s]{0,32}[A-Za-z]|\w+[!?]\w+[#$%&*@^~]\w)[A-Za-z\d]+"
    r"(?:[!#$%&*?@^~]{1,3}[A-Za-z\d]+)+",
    # names in programs, but not `home.Then`
    r"(?!\w+\.(?:[A-Z]+[a-z]*\.)*[A-Z]+[a-z]*(?!\.?\w))"
    r"[A-Za-z_][A-Za-z\d_]+(?:\.[A-Za-z_][A-Za-z\d_]+)+(?!\.\w)",
    r"(?=[A-Z]*\d)[A-Z\d]{4,8}(?:-[A-Z\d]{4,8}){2,8}",  # keys of licences
    r"(?=[A-Za-z]*[A-Z])[A-Za-z]{1,12}[-_/]?\d\w*(?:[-_./](?:\d\w*|[A-Z]+(?:\d\w*)?)(?!\w))*"
    r"(?: \d[A-Z]{2})?",  # A4, NW1 6XE
    r"(?:[a-z]{1,32}|[A-Z][a-z]{1,32})(?:[A-Z][a-z]{2,32}|[A-Z]{2,4}(?![a-z])){1,8}(?<!Innen)\d*",
    # letters and digits in three parts or more, but not `1h30`, `4x100m` or `1mars2012`
    r"(?=\w{5})(?!\d{1,4}(?:[hHmx]|k[gm]|cm|[a-z]{3,16})\d{1,4}[a-z]{0,3}(?!\w))"
    r"(?:\d+[A-Za-z]+\d|[A-Za-z]+\d+[A-Za-z])\w*(?:-(?=[A-Z]*\d)\w{3,})*",
    r"(?:[a-z]{1,2}\d{3}|[b-df-hj-np-tv-xz]{3,8})\d{2,}",
    r"(?=[A-Za-z]{6})(?:(?:[A-Z]*+[a-z]++[A-Z]++){2}[A-Za-z]*|[A-Z]{2,}+[a-z]++[A-Z][A-Za-z]*)",
)
"""Identifiers that are whole words."""
_IDENTIFIERS = (
    rf"(?=[A-Za-z\d_])(?<![\w&#/.\\-])(?:{'|'.join(_CODES)})(?!\w)",
    # Each begins with a character, so that `re` skips it quickly.
    r"\d(?<![\w.,:/-]\d)\d{0,3}(?!AM|PM)[A-Z]{1,3}(?!\w)",  # 5G
    r"[A-Z](?<!\w[A-Z])[A-Z] \d{5}(?!\w|[.,]\d)",  # IL 62701
    rf"\[(?!(?:{_INSERTED})\])[a-z][\w-]{{0,32}}\](?!\()",  # [name]
    r"\((?<![^\W\d_]\()(?<!\]\()(?:[a-z]|[ivx]{2,5})\)(?!\w)",  # (b)
    r"[a-z]\)(?:(?<=point ..)|(?<=points ..)|(?<=\d ..)|(?<=\), ..)|(?<=\) et ..))(?!\w)",
    measures.FORM,
)
"""Identifiers, words and letters in brackets, and units, which a model usually repeats."""
_KNOWN = re.compile(
    rf"(?P<sign>(?=[^\w\s])(?:{_MARKS})|{_SMILEYS})|"
    + "|".join(_FORMS)
    + f"|(?P<identifier>{'|'.join(_IDENTIFIERS)})"
)
_HINT = re.compile(
    rf"[{DIRECTIONS}]|"
    r"[\d*_~@#%$&{}\[\]`<>:;^/\\=]|\w\.\w|''|\(\)|[a-z]-[A-Z]{2}|[A-Z]{3}"
    r"|[a-z][A-Z]|yyyy|(?<!\S)![a-z_]|-{3}|\.{4}|\b[a-z]\)|\([ivx]+\)"
)
"""What every literal of a known form has."""
_QUOTED = re.compile(r"(?<!\w)[\"„“](?=\S)[^\"\n]*\"")
"""A quotation, whose end is no sign of inches."""
_TAG = re.compile(r"</?(?:[A-Za-z][^<>]*|\d+\s*/?)>")

_PLURALS = {
    language: re.compile(rf"(?<![^\W\d_])([^\W\d_]{{2,}})\(({endings})\)(?!\w)")
    for language, endings in (("de", "en?|n|s"), ("en", "e?s"), ("fr", "s|x"))
}
"""Words with an ending for several, as in `file(s)`, by language."""
_FREE_SIGNS = frozenset("°±×÷¬")  # noqa: RUF001  a multiplication sign
"""Signs that a model translates if its vocabulary has them."""
LETTERS = {
    "ca": "àçéèíïóòúü",
    "cs": "áčďéěíňóřšťúůýž",
    "da": "æøåé",
    "de": "äöüß",
    "en": "",
    "es": "áéíñóúü",
    "fi": "äöåšž",
    "fr": "àâæçéèêëîïôœùûÿ",
    "hu": "áéíóöőúüű",
    "it": "àèéìíîòóùú",
    "nb": "æøåéóòô",
    "nl": "áäéëíïóöúü",
    "no": "æøåéóòô",
    "pl": "ąćęłńóśźż",
    "pt": "áàâãçéêíóôõú",
    "ro": "ăâîșț",
    "sv": "åäöéà",
    "tr": "çğıöşü",
}
"""Letters of languages in Latin script besides A to Z: a model has learned words with them, even
if its vocabulary splits them into bytes. French has ü in names alone.

Source: Unicode CLDR 46, `characters/exemplarCharacters`."""
_USUAL_PIECES = 5
"""Least number of longer entries of the vocabulary with a letter that its languages use."""
_DIGITS = re.compile(r"\d+")
SHOWN: Final = str.maketrans("\u2010\u2011\u2012\u2015\u00ad\u2060", "--\u2013\u2014\x7f\x7f")
"""Dashes and invisible characters as the model reads them: SentencePiece removes U+007F."""
READ_AS: Final = SHOWN | {ord("ẞ"): "ß"}
"""Also the capital ß, which vocabularies lack."""
_CONTROLS = frozenset(
    sign
    for sign in map(chr, range(0xA0))
    if unicodedata.category(sign) == "Cc" and not sign.isspace()
)
_EMOJI = "\ufe0f"
"""Selects the form as an emoji of the character before it."""
_DECOMPOSED = re.compile(r"[^\W\d_][\u0300-\u036f]+")
_EMOJI_FORM = re.compile(r"[^1]?\ufe0f")
_INVISIBLE = _CONTROLS | frozenset("\u200d\ufe0e\u20e3") | {*map(chr, range(0xE0020, 0xE0080))}
"""Also parts of emoji, such as the tags of flags."""
_UNWRITTEN = re.compile(
    r"(?<![aN1L])[aN1]*L[aN1L]*(?:['-][aN1L]+)*(?: [aN1]*L[aN1L]*(?:['-][aN1L]+)*)*"  # words
    r"|(?<![aN1.,])(?:1+[.,]){0,4}(?:1+ ?|a{1,3})?N+(?:(?:a{1,3}|1+)N+)*"  # 10², m²
    r"(?:a{1,2}(?![a1]))?"  # H₂O
    r"|(?<![aN1.,])(?:1+[.,]){0,4}1+S+(?:a(?![a1]))?"  # 20℃
    r"|(?<![a1])S+a(?![a1])"  # °C
    r"|(?P<sign>[NS]+(?: [NS]+)*)"
)
"""Literals in the kinds of a text's characters: `L`, `N` and `S` are letters, numbers and signs
that cannot be written, `a` and `1` other letters and digits."""
LONE_LETTER: Final = r"(?i:[^\x00-\x7f\d_\Wàáåèéêíîóôöøőú])(?![\w'-])"
"""A letter by itself, at the beginning of a word, except for those that are words in some
language."""
_ALONE = re.compile(rf"(?<![\w'-]){LONE_LETTER}")
_FOREIGN = re.compile(r"(?<![aF1])[aF]*F[aF1]*(?:['-][aF1]+)*")
"""Words with `F`, a letter that can be written but is not one of the text's language."""
_FOREIGN_KINDS, _OTHER_KINDS = str.maketrans("U", "L"), str.maketrans("UF", "aa")
"""Kinds in texts of languages whose letters are known, and of others. `U` is a letter that cannot
be written but is part of usual words, mostly their capital."""


class Literal(NamedTuple):
    """A part of a text, from `begin` to `end`, that its translation must repeat unchanged."""

    begin: int
    end: int
    is_sign: bool = False
    """Whether it stands for no word, as an emoji."""
    is_usual: bool = False
    """Whether a model usually repeats it, so that it is read as it is at first."""
    target: str | None = None
    """Its text in the translation; None: the same."""
    is_count: bool = False
    """Whether it is a placeholder for a number."""
    read: str | None = None
    """Words that the model reads in its place and translates; see `spellings`."""

    @property
    def span(self) -> Span:
        """Begin and end."""
        return self.begin, self.end


def meets_any(literals: Sequence[Literal], begin: int, end: int) -> bool:
    """Whether one of some literals, in order and without overlaps, has characters of a span."""
    before = bisect_left(literals, end, key=attrgetter("begin"))
    return before > 0 and literals[before - 1].end > begin


def tag_spans(text: str) -> list[Span]:
    """Returns the spans of tags, which may be `<b>` or `<0>`."""
    return [match.span() for match in _TAG.finditer(text)] if "<" in text else []


def known_literals(text: str) -> list[Literal]:
    """Returns the literals of a known form, in order."""
    if not _HINT.search(text):
        return []
    quoted = {match.end() for match in _QUOTED.finditer(text)} if '"' in text else ()
    return [
        Literal(
            *match.span(),
            match.lastgroup == "sign",
            match.lastgroup == "identifier",
            is_count=match.lastgroup is None and is_count(text, *match.span()),
        )
        for match in _KNOWN.finditer(text)
        if match.end() not in quoted or not match[0][0].isdigit()
    ]


_MOST_KINDS = 8192
"""Characters whose kinds are remembered: texts may have any of a million."""


class _Kinds(dict[int, str]):
    """The kind of each seen character, for `str.translate`: one of `aLUFNS1`, or itself."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._sides = (tokenizer, tokenizer.target)

    def __missing__(self, code: int) -> str:
        if len(self) >= _MOST_KINDS:
            self.clear()
        kind = self[code] = self._kind(chr(code))
        return kind

    @cached_property
    def _pieces_with(self) -> Counter[str]:
        """Number of vocabulary entries with each character; made when needed, for fast loading."""
        pieces = (set(piece) for piece in self._sides[0].vocabulary if len(piece) > 2)
        return Counter(itertools.chain.from_iterable(pieces))

    @cached_property
    def unwritten(self) -> frozenset[str]:
        """Signs and control characters of ASCII that the vocabulary cannot write."""
        signs = (sign for sign in map(chr, range(128)) if unicodedata.category(sign)[0] == "S")
        return _CONTROLS | {sign for sign in signs if not self._can_write(sign)}

    def _can_write(self, character: str) -> bool:
        return all(side.can_write(character) for side in self._sides)

    def _kind(self, character: str) -> str:
        if character.isascii():
            if character.isalpha():
                return "a"
            if character in self.unwritten:
                return "S"
            return "1" if character.isdigit() else character
        return self._kind_of(character)

    def _is_usual(self, letter: str) -> bool:
        """Whether words of the model's languages have a letter, which then may lack its capital."""
        return self._pieces_with[letter] >= _USUAL_PIECES

    def _kind_of(self, character: str) -> str:
        category = unicodedata.category(character)
        is_sign = category in {"So", "Sm", "Sk"} and character not in _FREE_SIGNS
        if character == _EMOJI or ord(character) in SHOWN:
            return character
        if is_sign or category == "Cs" or character in _INVISIBLE:
            return "S"
        if category[0] == "Z" or category in ("Cc", "Cf"):
            return " " if category == "Zs" else character
        normal = unicodedata.normalize("NFKC", character)
        if unicodedata.decomposition(character).startswith(("<super>", "<sub>")):
            return "N"
        if category[0] == "L" and normal != character and normal.isascii():
            return "a"  # ligatures and the like are letters to translate
        is_written = self._can_write(character)
        if category[0] in "LM":
            if is_written:
                return "F"
            return "U" if self._is_usual(character.lower()) else "L"
        if category[0] == "N":
            return "1" if is_written else "N"
        is_mark = category[0] == "P" and len(normal) == 1 and normal.isascii()
        return character if is_written or is_mark or character == "…" else "S"


class Literals:
    """Finds the literals of texts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Store the vocabularies of both sides."""
        self._kinds = _Kinds(tokenizer)

    def of(
        self, text: str, language: str, known: bool = True, keep: Iterable[Literal] = ()
    ) -> list[Literal]:
        """Returns the literals of a text, in order, without overlaps.

        Literals next to each other, or with only a space between them, are one.

        Args:
            text: a text.
            language: its language code.
            known: whether to find those of a known form, names, and words such as `file(s)`, which
                are read as plurals.
            keep: further literals.
        """
        literals = list(keep)
        if known:
            literals += known_literals(text)
        if not (text.isascii() and self._kinds.unwritten.isdisjoint(text)):
            literals += self._outside_language(text, language)
        if literals:
            literals = [_with_digits(text, literal) for literal in literals]
            literals = _merged(text, sorted(literals, key=_place))
        if known and (spans := list(names_of(text, language))):
            names = _merged(text, [Literal(*span, is_usual=True) for span in spans])
            names = [name for name in names if not meets_any(literals, *name.span)]
            literals += names
            literals.sort(key=_place)
        if known and "(" in text and language in _PLURALS:
            plurals = (
                Literal(*match.span(), read=match[1] + match[2])
                for match in _PLURALS[language].finditer(text)
            )
            literals += [word for word in plurals if not meets_any(literals, *word.span)]
            literals.sort(key=_place)
        return literals

    def _outside_language(self, text: str, language: str) -> Iterator[Literal]:
        """Yields the parts that the vocabulary cannot write, and names with foreign letters.

        A model may know such a name, as `Zürich`, and usually repeats it.
        """
        text = _DECOMPOSED.sub(_composed, text)
        if language in LETTERS:
            yield from (Literal(*match.span()) for match in _ALONE.finditer(text))
        text_in_kinds = text.translate(_as_letters(LETTERS.get(language, "")))
        kinds = _EMOJI_FORM.sub(_signs, text_in_kinds.translate(self._kinds))
        kinds = kinds.translate(_FOREIGN_KINDS if language in LETTERS else _OTHER_KINDS)
        if any(kind in kinds for kind in "LNS"):
            for match in _UNWRITTEN.finditer(kinds.replace("F", "a")):
                yield Literal(*match.span(), match.lastgroup == "sign")
        if "F" in kinds:
            for match in _FOREIGN.finditer(kinds):
                word = text[slice(*match.span())]
                if word[0].isupper() or (len(word) == 1 and not unicodedata.decomposition(word)):
                    yield Literal(*match.span(), is_usual=True)


def _composed(match: re.Match[str]) -> str:
    """A letter with its accents as one character, as often as there are characters."""
    letter = unicodedata.normalize("NFC", match[0])
    return letter * len(match[0]) if len(letter) == 1 else match[0]


@lru_cache
def _as_letters(letters: str) -> Mapping[int, str]:
    return dict.fromkeys(map(ord, letters + upper(letters)), "a")


def _with_digits(text: str, literal: Literal) -> Literal:
    """A literal with the digits directly behind it, which a stand-in would join: `X1` for `{n}`."""
    digits = _DIGITS.match(text, literal.end)
    if digits is None or literal.is_sign or literal.target:
        return literal
    return literal._replace(end=digits.end())


def _place(literal: Literal) -> tuple[int, int, bool]:
    return literal.begin, -literal.end, literal.target is None


def _signs(match: re.Match[str]) -> str:
    return "S" * len(match[0])


def _merged(text: str, literals: Sequence[Literal]) -> list[Literal]:
    """Literals without overlaps; those that only a space separates are joined."""
    merged: list[Literal] = []
    for literal in literals:
        last = merged[-1] if merged else None
        if (
            last is None
            or text[last.end : literal.begin].strip(" ")
            or literal.begin > last.end + 1
        ):
            merged.append(literal)
            continue
        if literal.target or last.target:
            if literal.begin >= last.end:
                merged.append(literal)
            continue
        merged[-1] = Literal(
            last.begin,
            max(last.end, literal.end),
            last.is_sign and literal.is_sign,
            last.is_usual and literal.is_usual,
        )
    return merged


def without(text: str, spans: Iterable[Span]) -> str:
    """Returns a text with a space in place of each span; these are in order, and may overlap."""
    parts: list[str] = []
    at = 0
    for begin, end in spans:
        parts += (text[at:begin], " ")
        at = max(at, end)
    return "".join((*parts, text[at:]))


def blanked(text: str, spans: Iterable[Span]) -> str:
    """Returns a text of the same length with spaces in place of spans, which are in order."""
    parts: list[str] = []
    at = 0
    for begin, end in spans:
        parts += (text[at:begin], " " * (end - begin))
        at = end
    return "".join((*parts, text[at:]))


def outside(text: str, spans: Sequence[Span]) -> Iterator[Span]:
    """Yields the spans between the given ones, also empty ones."""
    ends = [0, *(end for _, end in spans)]
    begins = [*(begin for begin, _ in spans), len(text)]
    yield from zip(ends, begins, strict=True)
