"""Tables of the roles of elements in kinds of XML."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from dragoman_documents.xml import android_strings
from dragoman_documents.xml.xml_spelling import Change

Role = Literal[
    "block", "text", "inline", "auto", "keep", "opaque", "hidden", "break", "nested", "skip"
]
"""The role of an element.

- block: splits texts; its own text is translated.
- text: a block whose elements are inline; if a profile has this role, no other text is translated.
- inline: part of the text around it.
- auto: inline in an element that has its own text, else a block.
- keep: inline; its content is not translated, but shown to the model.
- opaque: inline; its content is neither translated nor shown to the model.
- hidden: inline; an opaque element that shows nothing, not even a space.
- break: inline; an opaque element that ends a line.
- nested: in a text, with its own texts, such as a footnote.
- skip: a block without translatable content.
"""


class Rule(NamedTuple):
    """Gives elements with an attribute a role.

    Attributes:
        name: name of the element, without its prefix.
        attribute: name of the attribute, with its prefix.
        value: matches the whole value of the attribute; None: any value.
        role: role of the element.
    """

    name: str
    attribute: str
    value: re.Pattern[str] | None
    role: Role


class PairedElement(NamedTuple):
    """One of two empty elements that together stand for an element.

    Attributes:
        kind: kind of the pair.
        ids: attributes that link the two; the first one present is used.
        is_first: whether this is the first element of the pair; None: `value` shows it.
        value: matches the id of an element in a pair; the group `name` is what both ids have in
            common, and only the first one has the group `first`.
    """

    kind: str
    ids: tuple[str, ...]
    is_first: bool | None = None
    value: re.Pattern[str] = re.compile("(?P<first>)(?P<name>.*)", re.DOTALL)

    def pair(self, attributes: Mapping[str, str]) -> tuple[str, bool] | None:
        """Returns the name of the pair that an element belongs to, and whether it is the first."""
        given = next((attributes[key] for key in self.ids if key in attributes), None)
        match = None if given is None else self.value.fullmatch(given)
        if match is None:
            return None
        is_first = match["first"] is not None if self.is_first is None else self.is_first
        return f"{self.kind} {match['name']}", is_first


@dataclass(frozen=True)
class XmlProfile:
    """A kind of XML. Names are local: without their prefix.

    Attributes:
        roles: roles of elements by name.
        otherwise: role of all other elements.
        rules: rules that override `roles`.
        preserving: elements whose spaces and line ends are significant.
        preserves: whether those of all elements are.
        attributes: attributes that contain text, by name of the element; "*" is any.
        pairs: elements with the role `opaque` that come in pairs, by name.
        subflows: elements in `opaque` ones that have their own text.
        languages: attributes that name the language of an element; the first one present is used.
        untranslated_class: class of elements that are not translated.
        keep: matches parts of a text that the translation repeats.
        has_tags_as_text: whether text may contain HTML tags, escaped or in CDATA.
        mnemonics: marks of the letters that are keys, as they are written; see `with_mnemonic`.
        has_quotes: whether quotation marks around text only keep its white space, as in Android's
            strings.
        decode: removes the format's own escapes from unescaped XML text.
        encode: the reverse of `decode`.
    """

    roles: Mapping[str, Role] = field(default_factory=dict)
    otherwise: Role = "auto"
    rules: tuple[Rule, ...] = ()
    preserving: frozenset[str] = frozenset()
    preserves: bool = False
    attributes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    pairs: Mapping[str, PairedElement] = field(default_factory=dict)
    subflows: frozenset[str] = frozenset()
    languages: tuple[str, ...] = ("xml:lang",)
    untranslated_class: str | None = None
    keep: re.Pattern[str] | None = None
    has_tags_as_text: bool = False
    mnemonics: tuple[str, ...] = ()
    has_quotes: bool = False
    decode: Change = str
    encode: Change = str

    @property
    def is_by_element(self) -> bool:
        """Whether only elements with the role `text` have text."""
        return "text" in self.roles.values()

    @property
    def has_auto(self) -> bool:
        """Whether some roles depend on the content of the element."""
        return self.otherwise == "auto" or "auto" in self.roles.values()

    def language_of(self, attributes: Mapping[str, str]) -> str | None:
        """Returns the language that an element's attributes declare, or None."""
        return next(filter(None, map(attributes.get, self.languages)), None)

    def with_tags(
        self,
        *,
        ignore: Iterable[str] = (),
        splitting: Iterable[str] = (),
        non_splitting: Iterable[str] = (),
        outline_detection: bool = True,
    ) -> XmlProfile:
        """Returns the profile with changed roles.

        Args:
            ignore: elements whose content is not translated.
            splitting: elements that split texts.
            non_splitting: elements that do not split texts.
            outline_detection: False: no other elements split texts.
        """
        roles: dict[str, Role] = dict.fromkeys(non_splitting, "inline")
        roles |= dict.fromkeys(splitting, "block")
        roles |= dict.fromkeys(ignore, "keep")
        otherwise = self.otherwise if outline_detection else "inline"
        known = self.roles if outline_detection else {}
        return dataclasses.replace(self, roles={**known, **roles}, otherwise=otherwise)


def roles(**names: str) -> dict[str, Role]:
    """Converts names by role to roles by name."""
    return {name: role for role, listed in names.items() for name in listed.split()}  # type: ignore[misc]


PLACEHOLDERS = re.compile(
    r"%(?:\d++\$)?[-+#0,(]*+\d*+(?:\.\d++)?[a-zA-Z](?![a-zA-Z])|%L?\d+|%%"
    r"|\{\{[^{}]*+\}\}|\$?\{[\w.:,-]*+\}"
)
"""Placeholders of printf, Qt, .NET and template languages."""

LINE_BREAKS = frozenset({"br", "lb", "line-break", "linebreak"})
"""Names of empty elements, and of instructions, that end a line in any kind of XML."""
LINE_BREAK_TAG = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
"""A line break of HTML, as the content of an element or attribute."""

GENERIC = XmlProfile()
TEXT = XmlProfile(preserves=True)
"""For texts with tags that are no files: their line breaks are those that the reader sees."""

XHTML = XmlProfile(
    roles=roles(
        block="address area article aside base basefont bgsound blockquote body caption center "
        "col colgroup datalist dd details dialog dir div dl dt fieldset figcaption figure footer "
        "form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html isindex legend li link "
        "listing main marquee menu meta multicol nav nextid ol optgroup option p pre search "
        "section select summary table tbody td tfoot th thead title tr ul",
        inline="a abbr acronym b bdi bdo big button cite data del dfn em font i img input ins "
        "label map mark meter nobr output picture progress q rb rp rt rtc ruby s slot small span "
        "strike strong sub sup time tt u wbr",
        **{"break": "br"},
        keep="code kbd samp var",
        opaque="applet audio canvas embed iframe math object svg video",
        skip="script style textarea template noscript",
    ),
    otherwise="inline",
    languages=("lang", "xml:lang"),
    untranslated_class="notranslate",
    preserving=frozenset({"pre"}),
    attributes={
        "*": frozenset(
            {
                "title",
                "placeholder",
                "aria-label",
                "aria-description",
                "aria-placeholder",
                "aria-roledescription",
                "aria-valuetext",
            }
        ),
        **dict.fromkeys(("img", "area", "input"), frozenset({"alt"})),
        **dict.fromkeys(("track", "optgroup", "option"), frozenset({"label"})),
        "th": frozenset({"abbr"}),
    },
)

DOCBOOK = XmlProfile(
    roles=roles(
        inline="abbrev acronym alt anchor application author authorinitials citation citetitle "
        "citerefentry coref corpauthor database date edition email emphasis firstname firstterm "
        "foreignphrase glossterm guibutton guiicon guilabel guimenu guimenuitem guisubmenu "
        "hardware inlinegraphic interface jobtitle keycap keycode keycombo "
        "keysym lineage link manvolnum medialabel menuchoice mousebutton olink orgname othername "
        "person personname phrase productname productnumber pubdate quote refentrytitle "
        "releaseinfo remark revnumber shortcut simplelist sgmltag subscript superscript surname "
        "systemitem tag termdef token trademark ulink uri wordasword year xref",
        keep="accel classname code command computeroutput constant enumname enumvalue envar "
        "errorcode errorname errortype exceptionname filename function initializer interfacename "
        "inlineequation literal markup methodname modifier msgtext ooclass ooexception oointerface "
        "option optional package parameter parametername property prompt replaceable returnvalue "
        "structfield structname symbol type userinput varname",
        opaque="co footnoteref",
        nested="footnote indexterm inlinemediaobject",
        skip="programlisting screen synopsis classsynopsis methodsynopsis constructorsynopsis "
        "destructorsynopsis funcsynopsis cmdsynopsis fieldsynopsis mathphrase math equation "
        "informalequation isbn issn",
    ),
    otherwise="block",
    languages=("xml:lang", "lang"),
    preserving=frozenset({"literallayout", "address"}),
)

DITA = XmlProfile(
    roles=roles(
        inline="abbreviated-form b cite i keyword line-through menucascade overline ph q sub sup "
        "term text tm tt u uicontrol wintitle xref link",
        keep="apiname cmdname codeph filepath markupname msgnum msgph numcharref option "
        "parameterentity parmname state synph systemoutput textentity userinput varname xmlatt "
        "xmlelement xmlnsname xmlpi",
        opaque="foreign unknown data boolean",
        nested="fn image indexterm",
        skip="codeblock msgblock screen draft-comment required-cleanup metadata prolog",
    ),
    otherwise="block",
    preserving=frozenset({"lines", "pre"}),
)

SVG = XmlProfile(
    roles=roles(text="text title desc flowRoot", skip="script style metadata foreignObject"),
    otherwise="block",
    rules=(
        Rule("tspan", "sodipodi:role", re.compile("line"), "block"),
        Rule("tspan", "dy", re.compile(r"1(\.\d+)?em|[1-9]\d+(\.\d+)?(px)?"), "block"),
    ),
    attributes={"*": frozenset({"aria-label", "xlink:title"})},
)

RESX = XmlProfile(
    roles=roles(text="value", skip="resheader metadata assembly schema comment"),
    otherwise="block",
    rules=(
        Rule("data", "type", None, "skip"),
        Rule("data", "mimetype", None, "skip"),
        Rule("data", "name", re.compile(r">>.*"), "skip"),
    ),
    preserving=frozenset({"value"}),
    keep=PLACEHOLDERS,
    mnemonics=("&amp;", "_"),
)

ANDROID = XmlProfile(
    roles=roles(text="string item", block="resources plurals string-array", keep="g"),
    otherwise="skip",
    rules=(
        Rule("*", "translatable", re.compile("false"), "skip"),
        Rule("item", "type", None, "skip"),
    ),
    keep=PLACEHOLDERS,
    has_tags_as_text=True,
    has_quotes=True,
    decode=android_strings.decode,
    encode=android_strings.encode,
)

OPENDOCUMENT = XmlProfile(
    roles=roles(
        block="chart:title svg:title",
        inline="span a meta meta-field ruby ruby-base content-control",
        hidden="bookmark bookmark-start bookmark-end reference-mark reference-mark-start "
        "reference-mark-end change change-start change-end soft-page-break alphabetical-index-mark "
        "alphabetical-index-mark-start alphabetical-index-mark-end toc-mark toc-mark-start "
        "toc-mark-end user-index-mark user-index-mark-start user-index-mark-end annotation-end "
        "ruby-text fieldmark fieldmark-start fieldmark-end",
        **{"break": "line-break tab"},
        keep="sequence chapter bibliography-mark variable-set variable-get variable-input "
        "user-field-get user-field-input expression text-input placeholder database-display "
        "title subject keywords creator initial-creator description author-name author-initials "
        "drop-down user-defined page-variable-get "
        "sender-firstname sender-lastname sender-company file-name template-name sheet-name",
        opaque="s page-number page-count page-continuation date time creation-date creation-time "
        "modification-date modification-time print-date print-time paragraph-count word-count "
        "character-count note-ref sequence-ref bookmark-ref reference-ref editing-cycles "
        "editing-duration printed-by conditional-text hidden-text script measure database-name",
        nested="note annotation frame custom-shape rect line polyline polygon regular-polygon path "
        "circle ellipse g connector caption",
        skip="automatic-styles styles font-face-decls scripts settings tracked-changes "
        "note-citation dc:creator dc:date creator-initials number math sequence-decls "
        "variable-decls user-field-decls table-of-content-source illustration-index-source "
        "table-index-source object-index-source user-index-source alphabetical-index-source "
        "bibliography-source forms named-expressions database-ranges glue-point event-listeners "
        "binary-data",
    ),
    otherwise="block",
    rules=(Rule("table-cell", "table:formula", None, "skip"),),
    languages=(),
    pairs={
        f"{kind}-{end}": PairedElement(
            kind, ("text:name", "text:id", "text:change-id"), end == "start"
        )
        for kind in ("bookmark", "reference-mark", "change", "toc-mark", "user-index-mark")
        for end in ("start", "end")
    },
)

NCX = XmlProfile(roles=roles(text="text", skip="head"), otherwise="block")
"""Contents of EPUB books."""

_BY_ROOT: Mapping[str, XmlProfile] = {
    "html": XHTML,
    "svg": SVG,
    "resources": ANDROID,
    **dict.fromkeys(("topic", "concept", "task", "reference", "glossentry", "dita"), DITA),
    **dict.fromkeys(
        (
            *("set", "book", "part", "article", "preface", "chapter", "appendix", "section"),
            *("sect1", "sect2", "refentry", "glossary", "bookinfo", "para"),
        ),
        DOCBOOK,
    ),
}


def profile_of(root: str, head: bytes) -> XmlProfile:
    """Returns the profile of a document.

    Args:
        root: name of the root element.
        head: first bytes of the document.
    """
    if root == "root" and b"text/microsoft-resx" in head.replace(b"\0", b""):
        return RESX
    return _BY_ROOT.get(root.rpartition(":")[2], GENERIC)
