"""Trees of documents, parsed by html5lib and lxml, in forms that can be compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

import html5lib
from dragoman_documents.html import html_profile
from dragoman_documents.html.html_profile import is_text
from lxml import etree

Change = Callable[[str], str]
"""A change of texts before they are compared."""
Label = tuple[str, tuple[tuple[str, str], ...]]

_SVG = "{http://www.w3.org/2000/svg}"
_SPACES = re.compile(r"[ \t\n\f\r]+")


def html_tree(document: bytes, encoding: str = "utf-8") -> Any:
    """The tree that browsers build from a page."""
    text = document.decode(encoding, "replace").removeprefix("\ufeff")
    tree = html5lib.parse(text, namespaceHTMLElements=False)
    for option in tree.iter("option"):  # its text is its value, if it has no other
        option.attrib.setdefault("value", " ".join("".join(option.itertext()).split()))
    return tree


def xml_tree(document: bytes) -> Any:
    """The tree of a well-formed document; no other file is loaded.

    Raises:
        XMLSyntaxError: the document is not well-formed, or a prefix has no namespace.
    """
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True, strip_cdata=False
    )
    return etree.fromstring(document, parser)


def ordered(root: Any, change: Change = str) -> list[Any]:
    """The nodes and texts of a tree in document order, with runs of white space collapsed.

    In a page with a table white space is ignored: its position depends on the text next to it.

    Args:
        root: root of the tree.
        change: applied to texts and to values of attributes.
    """
    space = "" if next(root.iter("table"), None) is not None else " "
    nodes: list[Any] = []
    for step, node in _walked(root):
        text = ""
        if step == "in":
            nodes.append(_label(node, change))
            text = _own(node.text)
        else:
            nodes.append("out")
            text = _own(node.tail) if node is not root else ""
        if text := _SPACES.sub(space, change(text)):
            nodes.append(text)
    return nodes


def html_texts(root: Any) -> list[tuple[str, bool]]:
    """Texts and attributes of a page, in order, and whether each is to be translated."""
    texts: list[tuple[str, bool]] = []
    around = [(True, False, False)]
    """For each enclosing element: whether its text is translated, and whether it is skipped, and
    whether it is in a picture with labels."""
    for step, node in _walked(root):
        if step == "out":
            around.pop()
            texts.append((_own(node.tail), around[-1][:2] == (True, False)))
            continue
        is_translated, is_skipped, is_picture = around[-1]
        role, attributes, name = "skip", {}, ""
        if isinstance(node.tag, str):
            name = node.tag.removeprefix(_SVG)
            role = "opaque" if "}" in name else html_profile.role(name)
            attributes = {name: value for name, value in node.attrib.items() if type(name) is str}
        says = html_profile.says_translated(attributes)
        is_translated = is_translated if says is None else says
        texts += (
            (value, is_translated and not is_skipped and is_text(node.tag, name, attributes))
            for name, value in sorted(attributes.items())
        )
        is_translated &= role != "keep" or says is True
        if is_picture and html_profile.is_label(name, attributes):
            is_skipped = False
        elif name == "svg" and not is_picture:
            is_picture, is_skipped = is_translated and not is_skipped, True
        elif not is_picture or role == "skip":
            is_skipped |= role in ("opaque", "skip")
        around.append((is_translated, is_skipped, is_picture))
        texts.append((_own(node.text), around[-1][:2] == (True, False)))
    return texts


def unordered(
    root: Any, change: Change = str, blocks: Collection[str] = ()
) -> tuple[int, list[Label]]:
    """The digest of a tree, which ignores the order of children, and its blocks in order.

    Args:
        root: root of the tree.
        change: applied to texts and to values of attributes.
        blocks: names of the elements whose order is compared.
    """
    parts: list[tuple[list[int], list[str]]] = [([], [])]
    order: list[Label] = []
    for step, node in _walked(root):
        if step == "in":
            if node.tag in blocks:
                order.append(_label(node, change))
            parts.append(([], [_own(node.text)]))
            continue
        children, texts = parts.pop()
        characters = "".join(sorted("".join(change("".join(texts)).split())))
        parts[-1][0].append(hash((_label(node, change), tuple(sorted(children)), characters)))
        parts[-1][1].append(_own(node.tail))
    ((digest,), _) = parts[0]
    return digest, order


def _walked(root: Any) -> Iterator[tuple[str, Any]]:
    stack = [("in", root)]
    while stack:
        step, node = stack.pop()
        yield step, node
        if step == "in":
            stack.append(("out", node))
            if isinstance(node.tag, str):
                stack += [("in", child) for child in reversed(list(node))]


def _own(text: str | None) -> str:
    return (text or "").replace("\u00ad", "")  # translations have none


def _label(node: Any, change: Change) -> Label:
    if not isinstance(node.tag, str):  # a comment, an instruction, an entity reference
        return str(node.tag), ()
    return node.tag, tuple(sorted((str(k), change(str(v))) for k, v in node.attrib.items()))
