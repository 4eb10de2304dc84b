"""Word alignment by the statistical aligner eflomal, which runs as a separate program.

Source: Östling & Tiedemann 2016, https://ufal.mff.cuni.cz/pbml/106/art-ostling-tiedemann.pdf, for
eflomal; Koehn et al. 2005, https://aclanthology.org/2005.iwslt-1.8/, for symmetrization.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman_training.text.cleaning import write_pairs, written_file
from dragoman_training.text.parallel_text import TextFiles, links_ending
from dragoman_training.text.word_links import Link, find_words, format_links, read_links

Links = set[Link]

_NEIGHBOURS = tuple(step for step in product((-1, 0, 1), repeat=2) if any(step))


def links_file(text: TextFiles) -> Path:
    """The file to which `link_texts` writes the word alignments of a text in two languages."""
    return written_file(text.prefix, _ending(text))


def link_texts(program: Path, texts: Sequence[TextFiles]) -> Iterator[Path]:
    """Align the words of texts, on which the aligner is trained together, and write the links.

    Args:
        program: `eflomal-align`.
        texts: in the same two languages, in either order, with empty sides.

    Yields:
        Each file that was written.

    Raises:
        UsageError: the program is missing or fails, or the disk cannot be written.
    """
    languages = texts[0].languages
    linked = align(program, (pair for text in texts for pair in _in_order(text, languages)))
    for text in texts:
        is_turned = text.languages != languages
        links = (grow_diagonally(*both) for both in islice(linked, len(text)))
        lines = (
            (format_links(turned(pair_links) if is_turned else pair_links),) for pair_links in links
        )
        write_pairs(text.prefix, [_ending(text)], lines)
        yield links_file(text)


def align(program: Path, pairs: Iterable[Sequence[str]]) -> Iterator[tuple[Links, Links]]:
    """Word alignments of each pair in both directions, by an aligner trained on all pairs.

    Args:
        program: `eflomal-align`.
        pairs: texts; one without words has no links.

    Raises:
        UsageError: the program is missing or fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, *outputs = (Path(folder, name) for name in ("pairs", "forward", "reverse"))
        is_given = bytearray()
        with given.open("w", encoding="utf-8") as file:
            for pair in pairs:
                sides = [" ".join(word[0].lower() for word in find_words(text)) for text in pair]
                is_given.append(all(sides))
                if is_given[-1]:
                    file.write(" ||| ".join(sides) + "\n")
        if any(is_given):
            _run(program, given, *outputs)
        else:
            for path in outputs:
                path.touch()
        with outputs[0].open() as forward, outputs[1].open() as reverse:
            both = zip(forward, reverse, strict=True)
            for has_words in is_given:
                lines = next(both, None) if has_words else ("", "")
                if lines is None:
                    raise UsageError(f"{program}: wrote word alignments of only some of the pairs")
                yield set(read_links(lines[0])), set(read_links(lines[1]))


def _run(program: Path, given: Path, forward: Path, reverse: Path) -> None:
    outputs = ["-f", str(forward), "-r", str(reverse), "--overwrite"]
    try:
        command = [str(program), "-i", str(given), *outputs]
        done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603
    except OSError as error:
        raise UsageError(
            f"{program}: cannot be run: {error.strerror}; pip install eflomal in a separate "
            "environment, and give the path of its eflomal-align"
        ) from error
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UsageError(f"{program}: failed with status {done.returncode}: {reason}")


def grow_diagonally(forward: Links, reverse: Links) -> Links:
    """Symmetrize: the links of both directions, and those of one direction that extend them.

    A link of one direction is taken if it is adjacent to a taken one, also diagonally, and one of
    its words has no link yet.
    """
    links, possible = forward & reverse, forward | reverse
    linked = [{link[side] for link in links} for side in (0, 1)]
    waiting = sorted(links)
    for src, tgt in waiting:  # grows during the loop
        for down, right in _NEIGHBOURS:
            near = (src + down, tgt + right)
            is_new = any(at not in taken for at, taken in zip(near, linked, strict=True))
            if near in possible and near not in links and is_new:
                links.add(near)
                waiting.append(near)
                for at, taken in zip(near, linked, strict=True):
                    taken.add(at)
    return links


def turned(links: Links) -> Links:
    """The same links with the sides swapped."""
    return {(tgt, src) for src, tgt in links}


def _ending(text: TextFiles) -> str:
    first, second = text.languages
    return links_ending((first, second))


def _in_order(text: TextFiles, languages: Sequence[str]) -> Iterator[Sequence[str]]:
    """The pairs of a text, with the sides in the order of the languages."""
    for pair in text:
        yield pair if text.languages == languages else pair[::-1]
