"""`dragoman link-words`: align the words of parallel text, for guided alignment training."""

from __future__ import annotations

import argparse
import logging
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.commands.shared.folders import configure_force
from dragoman.kernel.errors import UsageError
from dragoman.kernel.replacement import check_file

if TYPE_CHECKING:
    from dragoman_training.config import CorpusConfig
    from dragoman_training.text.parallel_text import TextFiles

log = logging.getLogger(__name__)

HELP = "align the words of parallel text with eflomal, for training with alignment.weight"
EXTRA = "train"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--config", type=Path, help="the recipe that names the corpora")
    given.add_argument(
        "--text", nargs=2, type=Path, metavar="FILE", help="two text files instead: my.en my.de"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="override one setting"
    )
    parser.add_argument(
        "--data-dir", type=Path, default=Path(), help="folder of the prefixes in the settings"
    )
    parser.add_argument(
        "--eflomal",
        type=Path,
        default=Path("eflomal-align"),
        metavar="PATH",
        help="the program eflomal-align (default: from $PATH)",
    )
    configure_force(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write a file of word links next to each corpus, for each pair of its languages."""
    from dragoman_training.config import refuse_joined, resolve
    from dragoman_training.text.parallel_text import named_files
    from dragoman_training.text.word_aligner import link_texts

    data = None
    if arguments.text:
        text = named_files(*arguments.text)
        data = {"languages": text.languages, "train": [str(text.prefix)]}
    corpora = resolve(arguments.config, arguments.set, data).data.train
    refuse_joined(corpora)
    if not corpora:
        raise UsageError("data.train is empty: name the text whose words to link")
    groups = _by_languages(corpora, arguments.data_dir)
    for texts in groups:
        for text in texts:
            _check_target(text, arguments.force)
    for texts in groups:
        log.info("linking %s, %d corpora", "-".join(texts[0].languages), len(texts))
        for path in link_texts(arguments.eflomal, texts):
            print(path)
    return 0


def _by_languages(corpora: tuple[CorpusConfig, ...], data_dir: Path) -> list[list[TextFiles]]:
    """Each pair of languages of each corpus, once, grouped by languages."""
    from dragoman_training.text.parallel_text import TextFiles

    groups: dict[frozenset[str], list[TextFiles]] = defaultdict(list)
    for corpus in corpora:
        for languages in combinations(corpus.languages, 2):
            text = TextFiles(data_dir / corpus.prefix, languages, with_empty=True)
            group = groups[frozenset(languages)]
            if text.prefix not in (other.prefix for other in group):
                group.append(text)
    return list(groups.values())


def _check_target(text: TextFiles, force: bool) -> None:
    """Check that the links of a text can be written, and that no other file would hide them."""
    from dragoman_training.text.parallel_text import existing_file, find_links, links_ending
    from dragoman_training.text.word_aligner import links_file

    target = links_file(text)
    for languages in find_links(text.prefix, text.languages):
        file = existing_file(text.prefix, links_ending(languages))
        if file != target:
            raise UsageError(f"{file} has links of the same text: remove it")
    check_file(target, force)
