"""What drawings contain: the texts of a picture, and the data of a page with attention."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree


def texts_of(svg: str | Path) -> list[str]:
    """The texts of a picture, from its file or its source."""
    source = svg.read_text(encoding="utf-8") if isinstance(svg, Path) else svg
    tree = ElementTree.fromstring(source)
    return [element.text or "" for element in tree.iter() if element.tag.endswith("}text")]


def data_of(page: str | Path) -> dict[str, Any]:
    """The data in a page with attention, from its file or its source."""
    source = page.read_text(encoding="utf-8") if isinstance(page, Path) else page
    start = '<script type="application/json" id="attention">'
    match = re.search(f"{start}(.*?)</script>", source, re.DOTALL)
    assert match
    data: dict[str, Any] = json.loads(match[1])
    return data
