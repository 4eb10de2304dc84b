"""Makes a bundle's lexical shortlists from parallel text.

For each target language and source token, a list has the target tokens that the source token is
most often translated to. The list of the end symbol, which every source has, contains the most
frequent tokens of the language.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dragoman_serving.engine.compiled.library import LANES
from dragoman_serving.engine.compiled.shortlists import Shortlists
from dragoman_training.run.checkpoint_folder import SHORTLIST
from safetensors.numpy import save

from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.manifest import Manifest, digests
from dragoman.kernel.replacement import replacing
from dragoman.kernel.text import UNKNOWN_ID, Tokenizer
from dragoman_export.word_translation import Links, Pair, count_links

EACH, FREQUENT = 50, 100
"""Length of a source token's list, and of a language's list."""
MOST_TOKENS = 100
"""Maximum length of each side of a pair: longer pairs need much memory and add little."""
_FEWEST = 0.5
"""Expected count below which a token is not listed."""
_RARE = 20
"""Expected count below which a source token may also be copied, like parts of names."""

Direction = tuple[str, str]
Texts = tuple[Sequence[str], Sequence[str]]
"""Sources and their translations."""


def add_shortlist(
    bundle: Path,
    texts: Mapping[Direction, Texts],
    each: int = EACH,
    frequent: int = FREQUENT,
    force: bool = False,
    on_progress: Callable[[], None] = lambda: None,
) -> Manifest:
    """Write lexical shortlists into a bundle; everything else stays.

    Args:
        bundle: folder of a bundle.
        texts: for every direction of the model.
        each: maximum length of the list of a source token.
        frequent: length of the list that applies to all sentences.
        force: replace existing shortlists.
        on_progress: called after each round of each direction.

    Returns:
        The bundle's manifest.

    Raises:
        UsageError: the bundle is damaged, already has shortlists, or cannot be written; a direction
            has no text.
    """
    manifest = Manifest.load(bundle)
    if manifest.shortlist is not None and not force:
        raise UsageError(f"{bundle} has shortlists: give --force to replace them")
    tokenizer = manifest.open_tokenizer(bundle)
    for direction in manifest.all_directions:
        if direction not in texts:
            raise UsageError(
                f"no text covers the model's direction {'-'.join(direction)}: "
                "give one in both languages"
            )
    tags = manifest.special_ids.tags
    lists = _Lists(manifest, each, frequent)
    for (src, tgt), of_direction in texts.items():
        pairs = encode_pairs(tokenizer, *of_direction, tgt)
        if not pairs:
            raise UsageError(f"the text of {src}-{tgt} has no pair that the model can encode")
        lists.add(list(tags).index(tgt) if tags else 0, pairs, on_progress)
    with writing(bundle):
        with replacing(bundle / SHORTLIST) as (partial,):
            partial.write_bytes(save(lists.arrays()))
        added = dataclasses.replace(
            manifest,
            shortlist=SHORTLIST,
            files={**manifest.files, **digests(bundle, [SHORTLIST])},
        )
        added.write(bundle)
    return added


def encode_pairs(
    tokenizer: Tokenizer, sources: Sequence[str], targets: Sequence[str], language: str
) -> list[Pair]:
    """Pairs as ids: sources without the tag, targets without the end symbol; without long pairs."""
    end = tokenizer.encode_source("", language)[-1:]
    encoded = zip(tokenizer.encode_all(sources), tokenizer.target.encode_all(targets), strict=True)
    return [
        ((*src, *end), tgt)
        for src, tgt in encoded
        if tgt and max(len(src), len(tgt)) <= MOST_TOKENS
    ]


@dataclass(frozen=True)
class Coverage:
    """How much of the vocabulary and of the translations the shortlists contain, on average.

    Attributes:
        computed: share of the output layer that is computed.
        contained: share of the translations' tokens that are listed.
    """

    computed: float
    contained: float


def measure(bundle: Path, manifest: Manifest, texts: Texts, language: str) -> Coverage:
    """Measure a bundle's shortlists on sentences and their translations into a language."""
    assert manifest.shortlist is not None
    shortlists = Shortlists(bundle / manifest.shortlist, manifest)
    tokenizer = manifest.open_tokenizer(bundle)
    tag = tokenizer.tag_ids(language)
    vectors = -(-manifest.dimensions.vocab_size // LANES)
    shares, contained = [], []
    for src, tgt in encode_pairs(tokenizer, *texts, language):
        words = shortlists.of_sentence([*tag, *src], ())
        listed = np.unpackbits(words.view(np.uint8), bitorder="little")[:vectors]
        shares.append(listed.mean())
        contained.append(listed[np.array(tgt) // LANES])
    return Coverage(float(np.mean(shares)), float(np.concatenate(contained).mean()))


class _Lists:
    """Pairs of a row, the index of a language and a source id, and of a target id."""

    def __init__(self, manifest: Manifest, each: int, frequent: int) -> None:
        self._manifest = manifest
        self._each, self._frequent = each, frequent
        self._rows: list[npt.NDArray[np.int64]] = []
        self._ids: list[npt.NDArray[np.int64]] = []

    def add(self, language: int, pairs: Sequence[Pair], on_progress: Callable[[], None]) -> None:
        """Add the lists of one direction into a language."""
        sizes, end = self._manifest.dimensions, self._manifest.special_ids.end
        links = count_links(pairs, sizes.vocab_size, lambda _done: on_progress())
        src_ids, tgt_ids = _most_frequent(links, self._each, end)
        counts = np.bincount(np.concatenate([tgt for _, tgt in pairs]), minlength=sizes.vocab_size)
        common = np.argsort(-counts, kind="stable")[: self._frequent]
        common = np.union1d(common[counts[common] > 0], [end])
        copied = self._copied(links)
        src_ids = np.concatenate([src_ids, copied, np.full(len(common), end)])
        tgt_ids = np.concatenate([tgt_ids, copied, common])
        known = tgt_ids != UNKNOWN_ID
        self._rows.append(language * sizes.src_ids + src_ids[known])
        self._ids.append(tgt_ids[known])

    def _copied(self, links: Links) -> npt.NDArray[np.int64]:
        """Rare source tokens; they are also target tokens if the sides share a vocabulary."""
        sizes, special = self._manifest.dimensions, self._manifest.special_ids
        if sizes.src_vocab_size is not None:
            return np.zeros(0, np.int64)
        counts = np.bincount(links.src_ids, links.counts, sizes.src_ids)
        ids = {special.pad, special.begin, special.end, *special.tags.values()}
        return np.setdiff1d(np.flatnonzero(counts < _RARE), list(ids))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The tensors of the file; `begins` [L x src_ids + 1] says where lists in `ids` start."""
        sizes, tags = self._manifest.dimensions, self._manifest.special_ids.tags
        rows = max(len(tags), 1) * sizes.src_ids
        keys = np.concatenate(self._rows) * sizes.vocab_size + np.concatenate(self._ids)
        of_list, ids = np.divmod(np.unique(keys), sizes.vocab_size)
        return {
            "tags": np.array(list(tags.values()), np.int32),
            "begins": np.searchsorted(of_list, np.arange(rows + 1)).astype(np.int32),
            "ids": ids.astype(np.uint16 if sizes.vocab_size <= 1 << 16 else np.uint32),
        }


def _most_frequent(
    links: Links, each: int, empty_word: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Source and target ids of the most frequent links of each source token."""
    kept = (links.counts >= _FEWEST) & (links.src_ids != empty_word)
    src_ids, tgt_ids, counts = (
        column[kept] for column in (links.src_ids, links.tgt_ids, links.counts)
    )
    order = np.lexsort((-counts, src_ids))
    src_ids, tgt_ids = src_ids[order], tgt_ids[order]
    rank = np.arange(len(src_ids)) - np.searchsorted(src_ids, src_ids)
    return src_ids[rank < each], tgt_ids[rank < each]
