"""Converts a folder with a Firefox model to one of our checkpoints."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from safetensors.numpy import save_file

from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.replacement import check_folder
from dragoman_training.config import DataConfig, ImportConfig, RunConfig, VocabularyConfig
from dragoman_training.firefox.lexical_lists import LexicalLists
from dragoman_training.firefox.student_file import StudentFile
from dragoman_training.firefox.student_settings import StudentSettings
from dragoman_training.firefox.student_weights import convert
from dragoman_training.marian.importing import own_files
from dragoman_training.marian.languages import Languages
from dragoman_training.marian.pieces import Entry, MarianSpecials, arrange, write_sentencepiece
from dragoman_training.marian.settings import refuse_pointers
from dragoman_training.run import checkpoint_folder
from dragoman_training.run.checkpoint_folder import SHORTLIST, TGT_TOKENIZER, TOKENIZER, WEIGHTS
from dragoman_training.text.piece_file import CONTROL, UNKNOWN, read_model

_MODEL, _LISTS = "*.intgemm*.bin", "lex*.bin"
_VOCABULARY, _SRC_VOCABULARY, _TGT_VOCABULARY = "vocab*.spm", "srcvocab*.spm", "trgvocab*.spm"
_PAIR = re.compile(r"\.(?P<pair>en[\w-]+|[\w-]+en)\.")
_MOST_TOKENS = 256
_SENTENCE_TOKENS = 127
"""Firefox cuts longer sentences."""


_END, _UNKNOWN = 0, 1
"""Marian's students have no list of tokens: an id is the index in the SentencePiece file, in which
these are the first two. There is no padding and no start token."""
_SPECIALS = MarianSpecials(pad=None, unknown=_UNKNOWN, begin=None, end=_END, says_unknown=False)


@dataclass(frozen=True)
class StudentFolder:
    """The files of a model.

    Attributes:
        model: weights and settings.
        src_vocabulary: SentencePiece model of the source side.
        tgt_vocabulary: of the target side; the same file if there is one for both.
        lists: shortlists, if there are any.
    """

    model: Path
    src_vocabulary: Path
    tgt_vocabulary: Path
    lists: Path | None

    @classmethod
    def of(cls, folder: Path) -> StudentFolder:
        """The files in a folder.

        Raises:
            UsageError: one is missing, or there are several of one kind.
        """
        shared = _single(folder, _VOCABULARY)
        return cls(
            _needed(folder, _MODEL),
            shared or _needed(folder, _SRC_VOCABULARY),
            shared or _needed(folder, _TGT_VOCABULARY),
            _single(folder, _LISTS),
        )

    @property
    def all(self) -> tuple[Path, ...]:
        """All files, each once."""
        paths = self.model, self.src_vocabulary, self.tgt_vocabulary, self.lists
        return tuple(dict.fromkeys(path for path in paths if path is not None))


def is_student(folder: Path) -> bool:
    """Whether a folder has a model of this kind."""
    return any(folder.glob(_MODEL))


def import_student(
    source: Path,
    out: Path,
    languages: Languages | None = None,
    name: str | None = None,
    force: bool = False,
) -> RunConfig:
    """Write a checkpoint with a student's weights, vocabularies and shortlists.

    Args:
        source: folder with the model's files.
        out: folder to create; it appears complete or not at all.
        languages: overrides the languages that the file's name states.
        name: of the model; None for the folder's name.
        force: replace an existing imported checkpoint.

    Returns:
        The checkpoint's configuration.

    Raises:
        UsageError: `out` may not be replaced or cannot be written, a file is missing or damaged, or
            the model is of another kind.
    """
    check_folder(out, force, own_files)
    refuse_pointers(source)
    files = StudentFolder.of(source)
    direction = _direction(languages or Languages(), files)
    file = StudentFile(files.model)
    theirs = StudentSettings.parse(file.path, file.settings)
    src_entries = _entries(files.src_vocabulary, theirs.src_vocab_size)
    tgt_entries = src_entries
    if files.tgt_vocabulary != files.src_vocabulary:
        tgt_entries = _entries(files.tgt_vocabulary, theirs.tgt_vocab_size)
    weights, model = convert(file, theirs, src_entries, tgt_entries)
    shortlist = None
    if files.lists is not None:
        lists = LexicalLists.read(files.lists, theirs.src_vocab_size, theirs.tgt_vocab_size)
        shortlist = lists.arrays(src_entries, tgt_entries, src_entries is tgt_entries)
    config = RunConfig(
        model=model,
        data=DataConfig(languages=direction),
        vocabulary=VocabularyConfig(size=model.vocab_size),
        imported=ImportConfig(
            name=name or source.resolve().name,
            directions=(direction,),
            tags={},
            max_tokens=_MOST_TOKENS,
            max_sentence_tokens=_SENTENCE_TOKENS,
            target_margin_tokens=0,
            alignment_head=(model.decoder_layers - 1, 0),
        ),
    )

    def save_files(folder: Path) -> None:
        save_file(weights, folder / WEIGHTS)
        if shortlist is not None:
            save_file(shortlist, folder / SHORTLIST)

    with writing(out), tempfile.TemporaryDirectory() as scratch:
        paths = Path(scratch) / TOKENIZER, Path(scratch) / TGT_TOKENIZER
        write_sentencepiece(files.src_vocabulary, src_entries, paths[0])
        write_sentencepiece(files.tgt_vocabulary, tgt_entries, paths[1])
        checkpoint_folder.save(out, save_files, config, *paths)
    return config


def _entries(path: Path, size: int) -> list[Entry]:
    """Read a vocabulary with a number of entries, in our order."""
    pieces = list(read_model(path).pieces)
    if len(pieces) != size:
        raise UsageError(f"{path}: has {len(pieces)} entries, the model has {size}")
    kinds = [piece.type for piece in pieces[:2]]
    if kinds != [CONTROL, UNKNOWN] or pieces[_END].piece != "</s>":
        names = [piece.piece for piece in pieces[:2]]
        raise UsageError(f"{path}: its first entries are {names}: expected </s> and <unk>")
    ids = {piece.piece: token_id for token_id, piece in enumerate(pieces)}
    if len(ids) < size:
        raise UsageError(f"{path}: has an entry twice")
    return arrange(ids, _SPECIALS, {})


def _direction(languages: Languages, files: StudentFolder) -> tuple[str, str]:
    """Source and target language: as given, else from a name such as `vocab.ende.spm`."""
    model = files.model
    targets = [language for language, _ in languages.targets]
    if len(languages.sources) == len(targets) == 1:
        return languages.sources[0], targets[0]
    if languages.sources or targets:
        raise UsageError(f"{model}: has one direction: name one --source and one --target")
    named = _PAIR.search(model.name) or _PAIR.search(files.src_vocabulary.name)
    if named is None:
        raise UsageError(f"{model}: its name has no languages; give --source and --target")
    pair = named["pair"]
    if pair.startswith("en"):
        return "en", pair.removeprefix("en").lstrip("-")
    return pair.removesuffix("en").rstrip("-"), "en"


def _single(folder: Path, pattern: str) -> Path | None:
    paths = sorted(folder.glob(pattern))
    if len(paths) > 1:
        raise UsageError(f"{folder}: has {len(paths)} files {pattern}; keep one")
    return paths[0] if paths else None


def _needed(folder: Path, pattern: str) -> Path:
    path = _single(folder, pattern)
    if path is None:
        raise UsageError(f"{folder}: has no file {pattern}")
    return path
