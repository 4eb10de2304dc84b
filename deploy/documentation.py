"""Hooks of MkDocs: the pages that are not files in docs/, and links to files outside of it."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman import cli

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parents[1]

_FILES = {
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "python.md": "client/README.md",
}
"""The pages of files outside of docs/."""

_HISTORY = ("CHANGELOG.md", "docs/lab-notebook.md")
"""What a search finds last."""

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")

_CLIENT = """
## Reference

::: dragoman_client
    options:
      show_root_heading: false
      show_root_toc_entry: false
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made: of files outside of docs/, and of the commands' parsers."""
    from mkdocs.structure.files import File

    pages = {page: (REPOSITORY / file).read_text() for page, file in _FILES.items()}
    pages["python.md"] += _CLIENT
    pages["command-line.md"] = command_line_page()
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links to files outside of docs/ at their pages; name those that have none."""
    source = _FILES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if source in _HISTORY:
        page.meta["search"] = {"boost": 0.1}
    return with_site_links(markdown, source)


def with_site_links(markdown: str, source: str) -> str:
    """A page's text, whose links lead to pages of the site alone.

    Args:
        markdown: the text.
        source: the file that it comes from, from the repository's root.

    Raises:
        FileNotFoundError: a link leads to a file that does not exist.
    """
    pages = {file: page for page, file in _FILES.items()}

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if ":" in target or target.startswith("/"):
            return match[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if not (REPOSITORY / file).exists() and not file.startswith("docs/"):
            raise FileNotFoundError(f"{source}: links to {target}, which does not exist")
        if file in pages:
            page = f"docs/{pages[file]}"
        elif file.startswith("docs/"):
            page = file
        else:
            return f"{text} (`{file}`)"
        here = "docs" if source in pages else posixpath.dirname(source)
        return f"[{text}]({posixpath.relpath(page, here)}{anchor})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def command_line_page() -> str:
    """A page with the help of every command."""
    lines = [
        "# Command line",
        "",
        "`dragoman COMMAND --help` prints the same. Exit codes: 0 done; 1 a check or",
        "the work failed; 2 a wrong option, file or value. Results go to stdout, progress and",
        "errors to stderr; `--quiet` before the command turns progress off.",
        "",
    ]
    for name in cli.COMMANDS:
        lines += [f"## {name}", ""]
        for text in cli.helps(name):
            lines += ["```text", text.rstrip(), "```", ""]
    return "\n".join(lines)
