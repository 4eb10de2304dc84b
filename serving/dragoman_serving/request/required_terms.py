"""Terms that a sentence's translation must contain: glossary terms and placeholders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from reprlib import repr as brief

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.text import UNKNOWN_ID, Tokenizer
from dragoman_serving.engine.constraints import TermConstraints
from dragoman_serving.request.glossary import Glossary
from dragoman_serving.request.placeholders import find_placeholders, is_tag


class RequiredTerms:
    """Finds the terms that a translation must contain."""

    def __init__(
        self, glossary: Glossary | None, keeps_placeholders: bool, target: Tokenizer
    ) -> None:
        """Store the glossary and the target vocabulary."""
        self._glossary = glossary
        self.keeps_placeholders = keeps_placeholders
        self._target = target

    def __bool__(self) -> bool:
        """Whether a sentence may have required terms."""
        return self._glossary is not None or self.keeps_placeholders

    def of_sentence(
        self, text: str, placeholders: bool = True, kept: Sequence[str] = ()
    ) -> TermConstraints | None:
        """Returns the required terms of a sentence; None if it has none.

        Args:
            text: the sentence.
            placeholders: whether to include its placeholders, if the request keeps them.
            kept: more texts to repeat; those that the vocabulary cannot write are left out.

        Raises:
            InvalidRequest: the vocabulary cannot write a term.
        """
        terms: list[str] = []
        after: list[int | None] = []
        if self._glossary is not None:
            terms += self._glossary.targets_of(text)
            after += [None] * len(terms)
        of_glossary = len(terms)
        last_tag: int | None = None
        if self.keeps_placeholders and placeholders:
            for placeholder in self.placeholders(text):
                after.append(last_tag if is_tag(placeholder) else None)
                if is_tag(placeholder):
                    last_tag = len(terms)
                terms.append(placeholder)
        for text_to_keep in kept:
            if self._can_write(text_to_keep):
                terms.append(text_to_keep)
                after.append(None)
        if not terms:
            return None
        sequences = tuple(tuple(self._target.encode(term)) for term in terms)
        for place, sequence in enumerate(sequences):
            if not sequence or UNKNOWN_ID in sequence:
                name = "glossary" if place < of_glossary else "keep_placeholders"
                raise cannot_write(name, terms[place])
        return TermConstraints(sequences, self._continuing, tuple(after))

    def kept_placeholders(self, index: int, text: str) -> tuple[tuple[str, str], ...]:
        """Returns the placeholders of a sentence, each in the vocabulary's and the text's spelling.

        Args:
            index: index of the sentence's text.
            text: the sentence.

        Raises:
            InvalidRequest: the vocabulary lacks a character of a placeholder, or the two spellings
                have different placeholders.
        """
        if not self.keeps_placeholders:
            return ()
        raw, written = find_placeholders(text), self.placeholders(text)
        for placeholder in raw:
            # After decoding, other characters replace the unknown ones, so this is checked first.
            if UNKNOWN_ID in self._target.encode(placeholder):
                raise cannot_write("keep_placeholders", placeholder)
        if len(raw) != len(written):
            raise InvalidRequest(
                f"text {index} has placeholders that the model's vocabulary cannot write"
            )
        return tuple(zip(written, raw, strict=True))

    def _can_write(self, text: str) -> bool:
        ids = self._target.encode(text)
        return bool(ids) and UNKNOWN_ID not in ids

    def placeholders(self, text: str) -> list[str]:
        """Returns the placeholders of a sentence, in the vocabulary's spelling."""
        return find_placeholders(self._target.decode(self._target.encode(text)))

    @cached_property
    def _continuing(self) -> npt.NDArray[np.float32]:
        continuing = [piece[:1].isalnum() for piece in self._target.vocabulary]
        return np.where(continuing, -np.inf, 0.0).astype(np.float32)


def cannot_write(option: str, text: str) -> InvalidRequest:
    """Returns the error for text that the vocabulary has no tokens for."""
    return InvalidRequest(f"{option}: the model's vocabulary cannot write {brief(text)}")
