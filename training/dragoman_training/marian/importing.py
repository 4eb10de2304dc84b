"""Convert a folder with a Marian model to one of our checkpoints."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import save_file

from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.replacement import check_folder
from dragoman.kernel.text import Tokenizer
from dragoman_training.config import DataConfig, ImportConfig, RunConfig, VocabularyConfig
from dragoman_training.marian.languages import Languages, find_languages
from dragoman_training.marian.pieces import (
    Entry,
    MarianSpecials,
    arrange,
    read_list,
    write_sentencepiece,
)
from dragoman_training.marian.settings import (
    CONFIG,
    MarianSettings,
    content_of,
    read_object,
    refuse_own_format,
    refuse_pointers,
)
from dragoman_training.marian.stored_tensors import PICKLE, SAFETENSORS
from dragoman_training.marian.weights import convert
from dragoman_training.run import checkpoint_folder
from dragoman_training.run.checkpoint_folder import SHORTLIST, TGT_TOKENIZER, TOKENIZER, WEIGHTS

TOKENIZER_CONFIG = "tokenizer_config.json"
SOURCE_PIECES, TARGET_PIECES = "source.spm", "target.spm"
LIST, TARGET_LIST = "vocab.json", "target_vocab.json"
FILES = (
    *(CONFIG, TOKENIZER_CONFIG, LIST, TARGET_LIST, SOURCE_PIECES, TARGET_PIECES),
    *(SAFETENSORS, PICKLE),
)
"""All files that are read from a model's folder, if present."""
_MOST_TOKENS = 512


def import_marian(
    source: Path,
    out: Path,
    languages: Languages | None = None,
    name: str | None = None,
    force: bool = False,
) -> RunConfig:
    """Write a checkpoint with a Marian model's weights and vocabularies.

    Args:
        source: folder in the layout of `transformers`.
        out: folder to create; it appears complete or not at all.
        languages: overrides the languages that the folder states.
        name: of the model; None for the folder's name.
        force: replace an existing imported checkpoint.

    Returns:
        The checkpoint's configuration.

    Raises:
        UsageError: `out` may not be replaced or cannot be written, a file is missing or damaged, or
            the model is of another kind.
    """
    check_folder(out, force, own_files)
    name = name or source.resolve().name
    refuse_pointers(source)
    refuse_own_format(source)
    theirs = MarianSettings.read(source / CONFIG)
    words = read_object(source / TOKENIZER_CONFIG) if (source / TOKENIZER_CONFIG).exists() else {}
    lists = _Lists.read(source, theirs, words)
    sources, tags, targets = find_languages(
        languages or Languages(), lists.source.pieces, words, name
    )
    src_entries, tgt_entries = lists.arranged(tags)
    weights, model = convert(source, theirs, src_entries, tgt_entries)
    config = RunConfig(
        model=model,
        data=DataConfig(languages=tuple(dict.fromkeys((*sources, *targets)))),
        vocabulary=VocabularyConfig(size=model.vocab_size),
        imported=ImportConfig(
            name=name,
            directions=tuple((src, tgt) for src in sources for tgt in targets if src != tgt),
            tags=tags,
            max_tokens=min(theirs.max_tokens, _MOST_TOKENS),
        ),
    )
    with writing(out), tempfile.TemporaryDirectory() as scratch:
        paths = Path(scratch) / TOKENIZER, Path(scratch) / TGT_TOKENIZER
        sides = (SOURCE_PIECES, src_entries), (TARGET_PIECES, tgt_entries)
        for path, (pieces, entries) in zip(paths, sides, strict=True):
            write_sentencepiece(source / pieces, entries, path)
        _check_pieces(source, *paths)
        checkpoint_folder.save(
            out, lambda folder: save_file(weights, folder / WEIGHTS), config, *paths
        )
    return config


def own_files(out: Path) -> tuple[str, ...]:
    """The files that an import writes into a folder; see `replacement.OwnFiles`."""
    config = RunConfig.from_json(out / checkpoint_folder.CONFIG)
    if config.imported is None or config.data.train:
        raise UsageError(f"{out / checkpoint_folder.CONFIG}: this model was trained, not imported")
    return WEIGHTS, checkpoint_folder.CONFIG, TOKENIZER, TGT_TOKENIZER, SHORTLIST


def _check_pieces(source: Path, path: Path, tgt_path: Path) -> None:
    try:
        Tokenizer(path, tgt_path)
    except UsageError as error:
        raise UsageError(f"{source}: its SentencePiece files and its list disagree") from error


@dataclass(frozen=True)
class _List:
    """A Marian vocabulary list, and its special tokens."""

    path: Path
    pieces: Mapping[str, int]
    pad: int
    unknown: int
    end: int

    @classmethod
    def read(cls, path: Path, words: Mapping[str, Any]) -> _List:
        """Read a list; `words` gives the names of the special tokens."""
        pieces = read_list(path)
        ids = {}
        for kind, usual in (("pad", "<pad>"), ("unk", "<unk>"), ("eos", "</s>")):
            token = content_of(words.get(f"{kind}_token", usual))
            if token not in pieces:
                raise UsageError(f"{path}: has no entry {token!r}")
            ids[kind] = pieces[token]
        return cls(path, pieces, ids["pad"], ids["unk"], ids["eos"])

    def check_size(self, name: str, said: int) -> None:
        """Refuse a list whose length differs from the configuration's."""
        if len(self.pieces) != said:
            raise UsageError(
                f"{self.path}: has {len(self.pieces)} entries, but {CONFIG} says {name} {said}"
            )

    def arranged(self, begin: int, tags: Mapping[str, str]) -> list[Entry]:
        """The entries in our order."""
        specials = MarianSpecials(self.pad, self.unknown, begin, self.end)
        return arrange(self.pieces, specials, tags)


@dataclass(frozen=True)
class _Lists:
    """The lists of both sides: one shared object, or one for each side."""

    source: _List
    target: _List
    begin: int
    """The target id that decoding starts with."""

    @classmethod
    def read(cls, folder: Path, theirs: MarianSettings, words: Mapping[str, Any]) -> _Lists:
        """Read the lists, and check them against the configuration."""
        source = _List.read(folder / LIST, words)
        separate = words.get("separate_vocabs")
        target = _List.read(folder / TARGET_LIST, words) if separate else source
        lists = cls(source, target, theirs.begin)
        lists._check(theirs)
        return lists

    def _check(self, theirs: MarianSettings) -> None:
        target = self.target
        if theirs.shared and self.source is not target:
            raise UsageError(f"{theirs.path}: one embedding for two vocabularies")
        self.source.check_size("vocab_size", theirs.sizes.vocab_size)
        target.check_size("decoder_vocab_size", theirs.tgt_vocab_size)
        for name, listed, said in (
            ("pad_token_id", target.pad, theirs.pad),
            ("eos_token_id", target.end, theirs.end),
        ):
            if listed != said:
                raise UsageError(
                    f"{theirs.path}: {name} is {said}, but {target.path.name} and "
                    f"{TOKENIZER_CONFIG} say {listed}"
                )
        if not self.begin < len(target.pieces):
            raise UsageError(f"{theirs.path}: decoder_start_token_id is {self.begin}: no entry")

    def arranged(self, tags: Mapping[str, str]) -> tuple[list[Entry], list[Entry]]:
        """Each side's entries in our order; the same object if there is one list."""
        if self.source is self.target:
            entries = self.target.arranged(self.begin, tags)
            return entries, entries
        # The source side has no start token: it is not decoded.
        source = self.source.arranged(self.source.pad, tags)
        return source, self.target.arranged(self.begin, {})
