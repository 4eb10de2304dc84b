"""What a request may ask beside its texts, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Any, get_args, get_origin, get_type_hints

from dragoman.kernel.errors import InvalidRequest


@dataclass(frozen=True)
class RequestOptions:
    """What a request may ask beside its texts; None leaves it to the model.

    With `target_language` alone the source is the model's other language, and the reverse; with
    neither, the model's first language is translated into its second. With a `source_language` of
    `auto` it is found out, text by text.
    """

    source_language: str | None = None
    target_language: str | None = None
    max_tokens: int | None = None
    beam_width: int | None = None
    length_penalty: float | None = None
    split_sentences: bool = False
    num_return_sequences: int | None = None
    return_scores: bool = False
    min_tokens: int | None = None
    max_length_ratio: float | None = None
    min_length_ratio: float | None = None
    prefix: tuple[str, ...] | None = None
    return_alternatives: bool = False
    patience: float | None = None
    early_stopping: bool | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    suppress: tuple[str, ...] | None = None
    glossary: str | None = None
    keep_placeholders: bool = False
    return_token_scores: bool = False
    return_alignments: str | None = None
    return_confidence: bool = False
    coverage_penalty: float | None = None
    max_sentence_tokens: int | None = None
    return_attention: bool = False

    @property
    def sampled(self) -> bool:
        """Whether tokens are sampled."""
        return (
            self.temperature is not None
            or self.top_k is not None
            or self.top_p is not None
            or self.seed is not None
        )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> RequestOptions:
        """Check names and types of options.

        Raises:
            InvalidRequest: an unknown name or a value of the wrong type, by name.
        """
        checked: dict[str, Any] = {}
        for name, value in values.items():
            wanted = _TYPES.get(name)
            if wanted is None:
                raise InvalidRequest(f"unknown option {brief(name)}; known: {', '.join(_TYPES)}")
            checked[name] = _typed(name, value, wanted)
        return cls(**checked)


def _typed(name: str, value: Any, wanted: type) -> Any:
    """A value as the option's type.

    Raises:
        InvalidRequest: it is of another one.
    """
    if wanted is tuple and isinstance(value, str | list | tuple):
        texts = (value,) if isinstance(value, str) else tuple(value)
        if all(type(text) is str for text in texts):
            return texts
    if wanted is float and type(value) is int:
        value = float(value)
    if type(value) is not wanted or wanted is tuple:
        raise InvalidRequest(f"option {name} is {brief(value)}: expected {_KINDS[wanted]}")
    return value


def _type_of(hint: Any) -> type:
    """The type of an option, without the None."""
    bare = (get_args(hint) or (hint,))[0]
    kind: type = get_origin(bare) or bare
    return kind


_TYPES: dict[str, type] = {
    name: _type_of(hint) for name, hint in get_type_hints(RequestOptions).items()
}
_KINDS = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: "strings",
}
OF_SEVERAL_VALUES = frozenset(name for name, kind in _TYPES.items() if kind is tuple)
"""Options that may have several."""
