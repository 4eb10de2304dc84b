"""Start a run from the weights of an existing model, or from some of them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from torch import Tensor

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import Tokenizer
from dragoman_training.network.architecture import ModelConfig
from dragoman_training.network.shrinking import MAY_SHRINK, shrink
from dragoman_training.network.transformer import Transformer
from dragoman_training.run import checkpoint, checkpoint_folder
from dragoman_training.text.extension import Former

log = logging.getLogger(__name__)

_MAY_DIFFER = {"vocab_size", "dropout"}
_EMBEDDING, _SPACE = "embedding.weight", "▁"


class Start:
    """A checkpoint, or a bundle exported from one, that a run starts from."""

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        """Read it.

        Args:
            folder: of the checkpoint or bundle.
            config: the model of the run.

        Raises:
            UsageError: a file is missing or damaged; or the model has neither the run's
                architecture, nor that of a larger model that can be pruned to it, nor that of one
                whose decoder's self-attention can be replaced by SSRUs; or the run's vocabulary is
                smaller although its model is not; or it differs from an imported model's.
        """
        self._folder, self._checkpoint = folder, checkpoint.load(folder)
        theirs, ours = self._checkpoint.model.config, config
        for setting in dataclasses.fields(ModelConfig):
            has, given = (getattr(sizes, setting.name) for sizes in (theirs, ours))
            fits = has >= given if setting.name in MAY_SHRINK else has == given
            fits |= setting.name == "decoder" and given == "ssru"
            if setting.name not in _MAY_DIFFER and not fits:
                raise UsageError(
                    f"{folder}: its model.{setting.name} is {has}, but the settings give {given}"
                )
        self._config = config
        is_smaller = any(getattr(ours, name) < getattr(theirs, name) for name in MAY_SHRINK)
        too_few = ours.vocab_size < theirs.vocab_size and not is_smaller
        if too_few or (self._is_imported and ours.vocab_size != theirs.vocab_size):
            raise UsageError(
                f"{folder}: its vocabulary has {theirs.vocab_size} entries, but vocabulary.size "
                f"is {ours.vocab_size}: set it to the same number"
            )

    @property
    def _is_imported(self) -> bool:
        return self._checkpoint.config.imported is not None

    @property
    def vocabulary(self) -> Former | None:
        """The vocabulary that the run's must contain; None: a smaller model trains its own."""
        if self._config.vocab_size < self._checkpoint.model.config.vocab_size:
            return None
        return Former(self._folder / checkpoint_folder.TOKENIZER, self._checkpoint.config.languages)

    @property
    def is_same_model(self) -> bool:
        """Whether the run's model has the same sizes and the same vocabulary."""
        theirs = self._checkpoint.model.config
        return dataclasses.replace(theirs, dropout=self._config.dropout) == self._config

    def give_weights(self, model: Transformer, tokenizer: Tokenizer) -> None:
        """Initialize the run's model, whose vocabulary may differ.

        An entry of both vocabularies keeps its row of the embedding. A new entry gets the mean of
        the rows of the tokens that the former vocabulary splits it into; a new language's tag gets
        the mean of all tags. From a larger model, it gets the weights that `shrink` keeps. SSRUs in
        place of self-attention keep their random weights. An imported model keeps its vocabularies.

        Source: Gee et al. 2022, https://aclanthology.org/2022.emnlp-industry.41
        """
        larger = self._checkpoint.model
        weights = shrink(larger.state_dict(), larger.config, self._config)
        if not self._is_imported:
            weights[_EMBEDDING] = self._rows(weights[_EMBEDDING], model, tokenizer)
        if self._config.decoder != larger.config.decoder:
            weights = _with_own_decoder(weights, model)
        model.load_state_dict(weights)
        log.info("starting from the weights of %s", self._folder)

    def _rows(self, former: Tensor, model: Transformer, tokenizer: Tokenizer) -> Tensor:
        """The initial embedding for another vocabulary."""
        rows: Tensor = model.state_dict()[_EMBEDDING].cpu().clone()
        for entry, parts in enumerate(self._parts(tokenizer)):
            if parts:
                rows[entry] = former[parts].mean(dim=0)
        return rows

    def _parts(self, tokenizer: Tokenizer) -> Iterator[list[int]]:
        """For each entry of another vocabulary, the ids of its tokens in this one."""
        former = self._checkpoint.tokenizer
        ids = {former.piece(entry): entry for entry in range(former.vocab_size)}
        tags = [former.tag_id(language) for language in self._checkpoint.config.languages]
        for entry, text in enumerate(tokenizer.vocabulary):
            piece = tokenizer.piece(entry)
            if piece in ids:
                yield [ids[piece]]
            else:  # a new entry that stands for no text is a tag
                yield former.encode(text.replace(_SPACE, " ")) if text else tags


def _with_own_decoder(weights: Mapping[str, Tensor], model: Transformer) -> dict[str, Tensor]:
    """The weights for a model with SSRUs, which take the norm of the self-attention."""
    renamed = {
        name.replace("self_attention_norm", "ssru_norm") if "decoder" in name else name: weight
        for name, weight in weights.items()
    }
    return {name: renamed.get(name, own) for name, own in model.state_dict().items()}
