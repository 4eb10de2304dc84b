"""The user's own text in a run, and the part held out for validation."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman_training.config import CorpusConfig, DataConfig, RunConfig
from dragoman_training.steps.processes import Processes
from dragoman_training.text.holding_out import TRAIN, VALID, hold_out, number_held_out
from dragoman_training.text.parallel_text import TextFiles, find_links

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OwnText:
    """A parallel corpus given as two files.

    Attributes:
        files: the two files.
        folder: where the parts are written if some of it is held out.
    """

    files: TextFiles
    folder: Path

    @property
    def prefix(self) -> str:
        """Prefix of the files, as in the settings."""
        return str(self.files.prefix)

    @property
    def valid_prefix(self) -> str:
        """Prefix of the held-out part."""
        return str(self.folder / VALID)

    def has_enough(self) -> bool:
        """Whether it is large enough to hold out a part.

        Raises:
            UsageError: it cannot be read.
        """
        return number_held_out(self.files) > 0

    def is_held_out(self, data: DataConfig) -> bool:
        """Whether a run validates on a part of it."""
        return self.valid_prefix in (corpus.prefix for corpus in data.valid)

    def hold_out(self, config: RunConfig, processes: Processes) -> RunConfig:
        """Hold out a part, and return settings that train on the rest; the first process writes.

        Raises:
            UsageError: the settings do not train on this text, or it cannot be read or written.
        """
        if self.prefix not in (corpus.prefix for corpus in config.data.train):
            raise UsageError("--text and data.train: give only one of them")
        if processes.is_first:
            weight = config.alignment.weight
            links = find_links(self.files.prefix, self.files.languages) if weight else ()
            hold_out(replace(self.files, links=links), self.folder)
            log.info(
                "%d of %d pairs are held out for validation, as %s; --valid-text names other text",
                number_held_out(self.files),
                len(self.files),
                self.valid_prefix,
            )
        processes.wait()
        train = tuple(map(self._rest, config.data.train))
        return replace(config, data=replace(config.data, train=train))

    def _rest(self, corpus: CorpusConfig) -> CorpusConfig:
        if corpus.prefix != self.prefix:
            return corpus
        return replace(corpus, prefix=str(self.folder / TRAIN))
