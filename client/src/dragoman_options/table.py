"""Every option of a request, and every output of an answer, declared once.

The server's checks, Triton's inputs and outputs, the clients' arguments and tensors, the flags of
the command line and the table in docs/options.md are derived from it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from reprlib import repr as brief
from typing import Annotated, Any, Final

from dragoman_options.assessment import ALIGNMENTS, Alignments, Attention, TokenScores
from dragoman_options.markup import PlacedCodes
from dragoman_options.option import Items, Limits, Option, Range
from dragoman_options.output import SCORE as SCORE
from dragoman_options.output import STREAM as STREAM
from dragoman_options.output import TRANSLATE as TRANSLATE
from dragoman_options.output import TRANSLATING, Output, declared_outputs
from dragoman_options.refusal import Refused, WrongType, WrongValue

_ALL: Final = (*TRANSLATING, SCORE)
INFO: Final = "info"
"""Name of the model that describes the server, and of its output."""
TEXT, TARGET = "text_input", "target_input"
TEXT_INPUTS: Final = {TRANSLATE: (TEXT,), STREAM: (TEXT,), SCORE: (TEXT, TARGET), INFO: ()}
"""The required inputs of each model."""
AUTO: Final = "auto"
"""The source language that requests language detection."""
MOST_SEQUENCES: Final = 64
MOST_LENGTH_PENALTY: Final = 10

ShortItems = tuple[tuple[str, type, Any], ...]
_SCALARS = frozenset((str, int, float, bool))
_SHORT = 50
"""Characters of the longest text of options that are cached."""

SAMPLING: Final = ("temperature", "top_k", "top_p", "seed")
"""Options that each turn on sampling."""

OPTIONS: Final[Mapping[str, Option]] = {
    option.name: option
    for option in (
        Option(
            "source_language",
            "text",
            "language of the texts, such as en; auto detects it for each text",
            unset="a language that the model translates into the target",
            scores=True,
            aliases=("--from",),
        ),
        Option(
            "target_language",
            "text",
            "language to translate into, such as de",
            unset="a language that the model translates the source into",
            scores=True,
            aliases=("--to",),
        ),
        Option(
            "model",
            "text",
            "name of the bundle to use if several translate between the languages",
            unset="the first bundle that translates between the languages",
            scores=True,
        ),
        Option(
            "max_tokens",
            "whole number",
            "maximum number of tokens of a sentence's translation, with the end-of-sequence token",
            range=Range(1, "max_target_tokens"),
            unset="proportional to the sentence's length",
            legs="last",
        ),
        Option(
            "beam_width",
            "whole number",
            "number of hypotheses in beam search; 1 is greedy search",
            range=Range(1, "max_beam_width"),
            unset="4; 1 with sampling",
        ),
        Option(
            "length_penalty",
            "number",
            "exponent of the length by which scores are divided: higher values favour longer "
            "translations",
            range=Range(0, MOST_LENGTH_PENALTY),
            unset="the model's",
            source="[Wu et al. 2016](https://arxiv.org/abs/1609.08144), equation 14",
            scores=True,
        ),
        Option(
            "coverage_penalty",
            "number",
            "weight of the coverage penalty, which lowers scores of hypotheses that skip source "
            "words",
            range=Range(0, 10),
            default=0.0,
            source="[Wu et al. 2016](https://arxiv.org/abs/1609.08144), equation 14",
            streams=False,
            not_with=SAMPLING,
            needs_beam=True,
        ),
        Option(
            "patience",
            "number",
            "the search ends when patience x beam_width hypotheses have finished",
            range=Range(0, 10, above=True),
            default=1.0,
            source="[Kasai et al. 2022](https://arxiv.org/abs/2204.05424)",
            not_with=SAMPLING,
        ),
        Option(
            "early_stopping",
            "switch",
            "false: continue until no hypothesis can become better than the finished ones",
            default=True,
            not_with=SAMPLING,
        ),
        Option(
            "num_return_sequences",
            "whole number",
            "number of translations of each text: at most beam_width, or "
            f"{MOST_SEQUENCES} with sampling",
            range=Range(1, MOST_SEQUENCES),
            default=1,
            streams=False,
            not_with=("split_sentences",),
            aliases=("--alternatives",),
            legs="last",
        ),
        Option(
            "return_alternatives",
            "switch",
            "return translations of a text that differ in the token after the prefix",
            default=False,
            streams=False,
            not_with=(
                *("split_sentences", "glossary", "coverage_penalty"),
                *SAMPLING,
            ),
            only_with="num_return_sequences",
            legs="last",
        ),
        Option(
            "prefix",
            "texts",
            "beginning of the translation: one for all texts, or one for each",
            unset="none",
            not_with=("split_sentences",),
            legs="last",
        ),
        Option(
            "min_tokens",
            "whole number",
            "minimum number of tokens of a sentence's translation, without the end-of-sequence "
            "token",
            range=Range(0, "max_target_tokens"),
            default=0,
            at_most="max_tokens",
            legs="last",
        ),
        Option(
            "max_length_ratio",
            "number",
            "maximum number of tokens of a translation per token of the sentence",
            range=Range(0, 100, above=True),
            unset="as max_tokens",
            not_with=("max_tokens",),
            legs="none",
        ),
        Option(
            "min_length_ratio",
            "number",
            "minimum number of tokens of a translation per token of the sentence",
            range=Range(0, 100),
            default=0.0,
            at_most="max_length_ratio",
            legs="none",
        ),
        Option(
            "temperature",
            "number",
            "sampling temperature, which divides the logits: above 1 flattens the distribution, "
            "below 1 sharpens it",
            range=Range(0.001, 100, advice="for the most probable translation leave it out"),
            unset="1 with sampling",
            legs="last",
        ),
        Option(
            "top_k",
            "whole number",
            "sample from the k most probable tokens",
            range=Range(1, "vocabulary"),
            unset="all",
            legs="last",
        ),
        Option(
            "top_p",
            "number",
            "sample from the smallest set of tokens whose probabilities sum to p",
            range=Range(0, 1, above=True),
            unset="1 with sampling",
            source="[Holtzman et al. 2020](https://arxiv.org/abs/1904.09751)",
            legs="last",
        ),
        Option(
            "seed",
            "whole number",
            "seed for sampling: the same seed gives the same translation of a text",
            range=Range(0, 2**63 - 1),
            unset="random",
            source="[Salmon et al. 2011](https://doi.org/10.1145/2063384.2063405)",
            aliases=("--sampling-seed",),
            legs="last",
        ),
        Option(
            "repetition_penalty",
            "number",
            "factor for the log-probabilities of tokens that are already in the translation",
            range=Range(0, 10, above=True),
            default=1.0,
            source="[Keskar et al. 2019](https://arxiv.org/abs/1909.05858)",
        ),
        Option(
            "no_repeat_ngram_size",
            "whole number",
            "no sequence of this many tokens occurs twice in a translation",
            range=Range(1, 100),
            unset="no limit",
        ),
        Option(
            "suppress",
            "texts",
            "words that must not occur in a translation; case-sensitive",
            items=Items(100, 100, "word"),
            default=(),
            legs="last",
        ),
        Option(
            "glossary",
            "terms",
            "target terms by source term; the translation of a sentence with a source term has "
            "the target term",
            items=Items(1000, 200, "term"),
            default={},
            not_with=SAMPLING,
            legs="none",
        ),
        Option(
            "keep_placeholders",
            "switch",
            "keep placeholders, addresses, codes and numbers",
            default=True,
        ),
        Option(
            "markup",
            "markup",
            "elements of each text as offsets, which are placed in its translation, and spans that "
            "are repeated verbatim",
            unset="none",
            output="codes",
            not_with=(
                *("num_return_sequences", "return_alternatives", "prefix"),
                *SAMPLING,
            ),
        ),
        Option(
            "shortlist",
            "switch",
            "use only target tokens that the bundle lists for the words of the sentence: faster",
            default=False,
        ),
        Option(
            "split_sentences",
            "switch",
            "split texts into sentences and translate each",
            unset="true, unless an incompatible option is given",
        ),
        Option(
            "max_sentence_tokens",
            "whole number",
            "split longer sentences, preferably at the end of a clause",
            range=Range(8, "most_text_tokens"),
            unset="the model's setting, or else its limit for a sentence",
            only_with="split_sentences",
        ),
        Option(
            "repair",
            "switch",
            "search again if a sentence's translation repeats itself, or is far too short or long",
            default=True,
            streams=False,
        ),
        Option(
            "return_scores",
            "switch",
            "return the translations' scores",
            default=False,
            scores=True,
            output="scores",
            not_with=("split_sentences",),
            aliases=("--scores",),
            legs="last",
        ),
        Option(
            "return_token_scores",
            "switch",
            "return the log-probabilities of the translations' tokens",
            default=False,
            scores=True,
            output="token_scores",
            aliases=("--token-scores",),
            legs="last",
        ),
        Option(
            "return_alignments",
            "text",
            "return links between words (hard), or weights between tokens (soft)",
            choices=("hard", "soft"),
            unset="none",
            scores=True,
            output="alignments",
            aliases=("--alignments",),
        ),
        Option(
            "return_confidence",
            "switch",
            "return the mean log-probability of a translation's tokens",
            default=False,
            scores=True,
            output="confidences",
            aliases=("--confidence",),
            legs="last",
        ),
        Option(
            "return_attention",
            "switch",
            "return the attention weights of every head",
            default=False,
            streams=False,
            scores=True,
            output="attention",
            not_with=("split_sentences",),
            legs="none",
        ),
        Option(
            "return_bundle",
            "switch",
            "return the identity of the bundle",
            default=False,
            scores=True,
            output="bundle",
        ),
        Option(
            "return_source_tokens",
            "switch",
            "return the number of tokens of a text",
            default=False,
            output="source_tokens",
        ),
    )
}
"""Options by name."""


@dataclass(frozen=True)
class _Generated:
    """The outputs of every translation."""

    text: Annotated[
        str, Output("the translation", always=TRANSLATING, name="text_output", line="translation")
    ]
    output_tokens: Annotated[int, Output("number of tokens in the translation", always=TRANSLATING)]
    finish_reason: Annotated[
        str,
        Output(
            "`stop`, `length` if the token limit cut the translation, or empty if the stream "
            "continues",
            always=TRANSLATING,
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class Assessed:
    """The outputs that the model `score` has too."""

    score: Annotated[
        float | None,
        Output(
            "sum of its tokens' log-probabilities, divided by the length penalty",
            always=(SCORE,),
            name="scores",
        ),
    ] = None
    token_scores: Annotated[
        TokenScores | None, Output("its tokens and their log-probabilities")
    ] = None
    alignments: Annotated[
        Alignments | None,
        Output(
            "links between words such as `0-0 1-2` (hard), or weights between tokens (soft)",
            codec=ALIGNMENTS,
        ),
    ] = None
    confidence: Annotated[
        float | None,
        Output(
            "mean log-probability of its tokens, with the end-of-sequence token",
            always=(SCORE,),
            name="confidences",
        ),
    ] = None
    attention: Annotated[
        Attention | None, Output("attention weights of every head", models=(TRANSLATE, SCORE))
    ] = None
    bundle: Annotated[
        str | None,
        Output(
            "identity of the bundle; with a pivot language both, separated by a comma", join="first"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Translation(Assessed, _Generated):
    """One translated text, or a part of it in a stream.

    docs/options.md describes the fields. A field is None, or empty, if it was not requested or
    there is none. `alternatives` are more translations of the text, best first, if
    `num_return_sequences` requested them; all different, so there may be fewer. `elapsed_s` is the
    time from sending the request to reading this answer, or this part of it, with retries; ignored
    when translations are compared.
    """

    alternatives: tuple[Translation, ...] = ()
    elapsed_s: float = field(default=0.0, compare=False)
    detected_language: Annotated[
        str | None,
        Output("language of the text; absent if it has none", detected=True, join="first"),
    ] = None
    detected_probability: Annotated[
        float | None,
        Output(
            "probability of that language, from 0 to 1",
            detected=True,
            only_with="detected_language",
            join="first",
        ),
    ] = None
    warnings: Annotated[
        tuple[str, ...],
        Output(
            "any of `numbers`, `phrases`, `placeholders`, `signs`, `terms`, `negation`, "
            "`repetition`, `short`, `long`, `untranslated`",
            if_any=True,
            in_api=True,
            join="union",
        ),
    ] = ()
    language_fallbacks: Annotated[
        tuple[str, ...],
        Output(
            "requested language codes that stand for others of the model, such as `zh-CN=cmn_Hans`",
            if_any=True,
            join="first",
        ),
    ] = ()
    codes: Annotated[
        PlacedCodes | None, Output("positions of the text's elements in the translation")
    ] = None
    via: Annotated[str | None, Output("the pivot language", if_any=True, join="first")] = None
    source_tokens: Annotated[
        int | None,
        Output(
            "number of tokens that the encoder reads: those of the text, and of each sentence the "
            "end-of-sequence token and the token of the target language, if the model has one",
            join="sum",
        ),
    ] = None
    delta: Annotated[
        str | None,
        Output("text that an event adds to the previous one", models=(STREAM,), always=(STREAM,)),
    ] = field(default=None, compare=False)


OUTPUTS: Final[Mapping[str, Output]] = declared_outputs(Translation, Assessed)
"""Outputs by the name of their tensors, which have one element per translation."""
DETECTED_OUTPUTS: Final = tuple(output.name for output in OUTPUTS.values() if output.detected)
"""Outputs of a request with language detection."""


_WHOLE: Final = frozenset(
    option.name for option in OPTIONS.values() if "split_sentences" in option.not_with
)


def splits(options: Mapping[str, Any]) -> bool:
    """Whether texts are split into sentences with these options, by name."""
    given = options.get("split_sentences")
    return _WHOLE.isdisjoint(options) if given is None else bool(given)


def requested_outputs(options: Mapping[str, Any]) -> list[str]:
    """Returns the names of the outputs that options, by name, request."""
    names = [output for name in options if (output := OPTIONS[name].output) is not None]
    if str(options.get("source_language")).lower() == AUTO:
        names += DETECTED_OUTPUTS
    return names


def sampled(options: Collection[str]) -> bool:
    """Whether options, by name, turn on sampling."""
    return any(name in options for name in SAMPLING)


def takes(model: str, option: Option) -> bool:
    """Whether a model accepts an option."""
    return {TRANSLATE: True, STREAM: option.streams, SCORE: option.scores}[model]


def restrictions(option: Option) -> Iterator[str]:
    """Yields what an option cannot be combined with, in Markdown."""
    if option.only_with:
        yield f"only with `{option.only_with}`"
    without_sampling = set(SAMPLING) <= set(option.not_with)
    hidden = SAMPLING if without_sampling else ()
    excluded = [f"`{name}`" for name in option.not_with if name not in hidden]
    excluded += ["sampling"] * without_sampling + ["a `beam_width` of 1"] * option.needs_beam
    if excluded:
        yield f"not with {', '.join(excluded)}"
    if option.at_most:
        yield f"at most `{option.at_most}`"


def describe(limits: Limits) -> list[dict[str, Any]]:
    """Returns JSON descriptions of all options, with a model's limits and the models' names."""
    return [
        option.describe(limits) | {"models": [model for model in _ALL if takes(model, option)]}
        for option in OPTIONS.values()
    ]


def check(
    given: Mapping[str, Any], model: str = TRANSLATE, limits: Limits | None = None
) -> dict[str, Any]:
    """Check the options of a request.

    Args:
        given: values by name; None: not given.
        model: name of the model.
        limits: limits of the model: `max_target_tokens`, `most_text_tokens`, `max_beam_width` and
            `vocabulary`; missing ones are not checked.

    Returns:
        Values as `Option.read` returns them, without those equal to the default.

    Raises:
        TypeError: a name is unknown, or a value has the wrong type.
        ValueError: a value is out of range, or conflicts with another option or the model.
    """
    limits = limits or {}
    if (short := short_items(given)) is None:
        return _check(given, model, limits)
    return dict(_check_short(short, model, tuple(limits.items())))


def short_items(options: Mapping[str, Any]) -> ShortItems | None:
    """Returns options as a key of a cache, with types, since 1 and True are equal.

    Clients seldom vary their options. None: a value is long, or not a text, a number or a switch.
    """
    items = []
    for name, value in options.items():
        kind = type(value)
        if kind not in _SCALARS or (kind is str and len(value) > _SHORT):
            return None
        items.append((name, kind, value))
    return tuple(items)


@functools.lru_cache(maxsize=256)
def _check_short(
    given: ShortItems, model: str, limits: tuple[tuple[str, float], ...]
) -> dict[str, Any]:
    return _check({name: value for name, _, value in given}, model, dict(limits))


def _check(given: Mapping[str, Any], model: str, limits: Limits) -> dict[str, Any]:
    checked = {}
    name = ""
    try:
        for name, value in given.items():
            option = OPTIONS.get(name)
            if option is None:
                raise WrongType(_unknown(name), "unknown_option")
            if value is None:
                continue
            value = option.read(value, limits)
            if value != option.default:
                checked[name] = value
        for name, value in checked.items():
            _check_combination(OPTIONS[name], value, checked, model)
    except Refused:
        raise
    except TypeError as error:
        raise WrongType(str(error), option=name) from error
    except ValueError as error:
        raise WrongValue(str(error), option=name) from error
    return checked


def _unknown(name: str) -> str:
    close = get_close_matches(name[:40], OPTIONS, n=1)
    return f"unknown option {brief(name)}" + (f": did you mean {close[0]}?" if close else "")


def _check_combination(option: Option, value: Any, options: Mapping[str, Any], model: str) -> None:
    """Refuse an option that conflicts with another, or with the model."""
    name = option.name
    if model != TRANSLATE and not takes(model, option):
        where = "in a stream" if model == STREAM else f"by the model {model}"
        raise ValueError(f"{name}: not supported {where}; use the model {TRANSLATE}")
    for other in option.not_with:
        if other in options and options[other] is not False:
            raise ValueError(f"{name}: not with {other}")
    width = options.get("beam_width")
    if width == 1 and option.needs_beam:
        raise ValueError(f"{name}: not with beam_width 1, give 2 or more")
    if name in SAMPLING and width not in (None, 1):
        raise ValueError(f"{name}: turns on sampling, give beam_width 1 or none")
    base = option.only_with
    if base is not None and not (splits(options) if base == "split_sentences" else base in options):
        default = OPTIONS[base].default
        raise ValueError(f"{name}: only with {base}" + (f" above {default}" if default else ""))
    most = options.get(option.at_most or "")
    if most is not None and value > most:
        raise ValueError(f"{name} is {value}, more than {option.at_most}, {most}")
