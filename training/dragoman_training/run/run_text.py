"""The text of a run: vocabulary, training text and held-out text."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.text import Tokenizer
from dragoman_training.config import CorpusConfig, RunConfig
from dragoman_training.network.precision import padding_multiple
from dragoman_training.run.checkpoint_folder import tokenizer_files
from dragoman_training.run.validation import learnt_parts
from dragoman_training.steps.processes import Processes
from dragoman_training.text.encoding import Drawing, Numbered, TokenFiles
from dragoman_training.text.examples import Examples
from dragoman_training.text.extension import Former, extend_vocabulary
from dragoman_training.text.parallel_text import ParallelText, TextFiles, read_some_pairs
from dragoman_training.text.vocabulary import train_vocabulary, vocabulary_text

log = logging.getLogger(__name__)

_ENCODED_TEXT = "encoded-text"
"""Folder in the run's folder; missing files are made again."""


class RunText:
    """Reads the text of a run once; the first process does the slow work for the others."""

    def __init__(
        self,
        config: RunConfig,
        data_dir: Path,
        run: Path,
        vocabulary: Path,
        processes: Processes,
        former: Former | None = None,
    ) -> None:
        """Train or read the vocabulary, and encode the training text.

        Args:
            config: names the corpora.
            data_dir: where relative prefixes start.
            run: the run's folder.
            vocabulary: the tokenizer's file; made if missing.
            processes: all processes that share the folder.
            former: a vocabulary whose entries a new one must contain.

        Raises:
            UsageError: text cannot be read, the vocabulary has another size, or no pair is short
                enough.
        """
        self._config, self._run, self._processes = config, run, processes
        self._vocabulary = vocabulary
        self._vocabularies = [vocabulary.with_name(name) for name in tokenizer_files(config)]
        self._files = TokenFiles(run / _ENCODED_TEXT, *self._vocabularies)
        texts = self._with_links([_text(data_dir, corpus) for corpus in config.data.train])
        self.held_out = {
            _name(corpus): learnt_parts(_in_memory(data_dir, corpus), config.data.directions)
            for corpus in config.data.valid
        }
        """Held-out corpora by name, restricted to the trained directions."""
        self.tokenizer = self._open_vocabulary(texts, former)
        self.config = _with_vocabulary(config, self.tokenizer.target.vocab_size)
        """The settings, with the actual size of the vocabulary."""
        self.examples = self._encoded(texts)

    def _with_links(self, texts: Sequence[ParallelText]) -> list[ParallelText]:
        """Add the word alignments to the texts, if the run guides a head by them."""
        weight = self._config.alignment.weight
        if weight is None:
            return list(texts)
        aligned = [self._files.with_links(Numbered(*numbered)) for numbered in enumerate(texts)]
        linked = sum(bool(text.links) for text in aligned)
        if not linked:
            raise UsageError(
                f"alignment.weight is {weight}, but no text of data.train has word alignments: "
                "make them with dragoman link-words, or remove the weight"
            )
        log.info("word alignments in %d of %d corpora", linked, len(aligned))
        return aligned

    def _open_vocabulary(self, texts: Sequence[ParallelText], former: Former | None) -> Tokenizer:
        """The run's vocabulary; trained on its text unless the file exists."""
        config, path, is_first = self._config, self._vocabulary, self._processes.is_first
        is_ours = is_first and not path.exists()
        if is_ours:
            with writing(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
            languages = config.data.languages
            if former:
                further = former.without(languages)
                log.info("the vocabulary of %s, with %s", former.path, further or "no new language")
                # `path` is written last: once it exists, the vocabulary is complete.
                for written in reversed(self._vocabularies):
                    side = replace(former, path=former.path.with_name(written.name))
                    sentences = vocabulary_text(texts, further or languages)
                    extend_vocabulary(side, sentences, languages, config.vocabulary, written)
            else:
                log.info("training a vocabulary of %d subword tokens", config.vocabulary.size)
                self._train_vocabulary(texts, path)
        elif is_first:
            log.info("using the existing vocabulary %s", path)
        self._processes.wait()
        tokenizer = Tokenizer(*self._vocabularies)
        size, entries = config.model.vocab_size, tokenizer.target.vocab_size
        if entries < size and not former and (is_ours or self._is_all_of_text(texts, tokenizer)):
            if is_first:
                log.warning(
                    "vocabulary.size is %d, but the text gives only %d entries; this run uses %d",
                    size,
                    entries,
                    entries,
                )
        elif entries != size:
            raise UsageError(
                f"model.vocab_size is {size}, but {path} has {entries} entries; set "
                "vocabulary.size to that, or remove the file"
            )
        return tokenizer

    def _train_vocabulary(self, texts: Sequence[ParallelText], path: Path) -> None:
        languages = self._config.data.languages
        sentences = vocabulary_text(texts, languages)
        train_vocabulary(sentences, languages, self._config.vocabulary, path)

    def _is_all_of_text(self, texts: Sequence[ParallelText], tokenizer: Tokenizer) -> bool:
        """Whether a vocabulary is smaller than `vocabulary.size` because the text gives no more.

        Another process or a stopped run may have made it, so it is trained again to compare.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / self._vocabulary.name
            self._train_vocabulary(texts, path)
            return Tokenizer(path).vocabulary == tokenizer.vocabulary

    def _encoded(self, texts: Sequence[ParallelText]) -> Examples:
        data = self._config.data
        numbers = range(data.subword_drawings if data.subword_dropout else 0)
        drawings = [Drawing(data.subword_dropout, number) for number in numbers]
        targets_too = data.subword_dropout_on == "both"
        # The first process writes the files; the others read them.
        for turn in (True, False):
            if self._processes.is_first == turn:
                options = (data.max_length_tokens, data.temperature, self._files)
                examples = Examples(
                    texts,
                    self.tokenizer,
                    *options,
                    drawings,
                    targets_too,
                    padding_multiple(self._processes.device),
                )
            self._processes.wait()
        if not len(examples):
            raise UsageError(
                f"all {examples.left_out} pairs exceed data.max_length_tokens, "
                f"{data.max_length_tokens}, or have targets that the vocabulary cannot write"
            )
        directions = ", ".join(f"{src}-{tgt}" for src, tgt in examples.directions)
        log.info("%d examples (%s)", len(examples), directions)
        if examples.left_out:
            log.info(
                "left out: %d pairs that are longer than %d tokens, or with targets that the "
                "vocabulary cannot write",
                examples.left_out,
                data.max_length_tokens,
            )
        return examples


def _with_vocabulary(config: RunConfig, size: int) -> RunConfig:
    return replace(
        config,
        vocabulary=replace(config.vocabulary, size=size),
        model=replace(config.model, vocab_size=size),
    )


def _name(corpus: CorpusConfig) -> str:
    """A held-out corpus's name in the log."""
    return f"{corpus.prefix} {('>' if corpus.one_way else '-').join(corpus.languages)}"


def _text(data_dir: Path, corpus: CorpusConfig) -> ParallelText:
    joined = [data_dir / prefix for prefix in corpus.joined]
    pairs = TextFiles(data_dir / corpus.prefix, corpus.languages, joined=joined)
    options = (corpus.weight, corpus.max_pairs, corpus.one_way)
    return ParallelText(pairs, corpus.languages, *options, name=corpus.prefix)


def _in_memory(data_dir: Path, corpus: CorpusConfig) -> ParallelText:
    pairs = read_some_pairs(data_dir / corpus.prefix, corpus.languages)
    return replace(_text(data_dir, corpus), pairs=pairs)
