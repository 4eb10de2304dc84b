"""`dragoman attention`: draw a model's attention, position encodings or architecture."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dragoman.commands.shared.asking import (
    configure_server,
    one_line,
    open_translator,
    server_error,
)
from dragoman.commands.shared.folders import configure_force
from dragoman.commands.shared.options import configure_options, flag, given_options
from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.replacement import check_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dragoman.drawing.architecture import Architecture
    from dragoman.kernel.attention_maps import Attention, Kind

HELP = "draw the attention of each head of a model, as a web page or for print"
EXTRA = "export"

_PAGE = ".html"
_PRINT = (".svg", ".png", ".pdf")
_KIND: Kind = "cross"
_POSITIONS, _MOST_POSITIONS = 100, 512
_MOST_COLUMNS = 1 << 16
_OF_ATTENTION = (
    *("text", "translation", "source_language", "target_language"),
    *("kind", "layer", "head", "token"),
)
"""Arguments that do not apply to figures of the model alone."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "text", nargs="?", help="a sentence; leave it out for --figure positions or architecture"
    )
    parser.add_argument(
        "--model",
        dest="folder",  # `model` is a translation option
        type=Path,
        metavar="FOLDER",
        help="a bundle or a checkpoint (default: the server at --server)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help=f"file to write: a web page, {_PAGE}, or a picture, {', '.join(_PRINT)}",
    )
    configure_force(parser)
    parser.add_argument(
        "--figure",
        choices=("attention", "positions", "architecture"),
        default="attention",
        help="what to draw; positions and architecture need --model and no text "
        "(default: attention)",
    )
    parser.add_argument(
        "--translation", metavar="TEXT", help="given translation, instead of the model's own"
    )
    configure_options(parser, names=("source_language", "target_language"))
    parser.add_argument(
        "--kind",
        choices=("encoder", "decoder", "cross"),
        help="self-attention of the encoder or the decoder, or cross-attention; a page has all "
        "three and shows this one first (default: cross)",
    )
    parser.add_argument(
        "--layer", type=int, metavar="N", help="layer to draw, from 0 (default: all layers)"
    )
    parser.add_argument(
        "--head",
        type=int,
        nargs="+",
        metavar="N",
        help="heads to draw, from 0 (default: all; a page of cross-attention first shows those "
        "that align words)",
    )
    parser.add_argument(
        "--token",
        type=int,
        metavar="N",
        help="draw the attention of this token only, from 0 (default: all tokens)",
    )
    parser.add_argument(
        "--positions",
        type=int,
        metavar="N",
        help=f"number of positions in --figure positions (default: {_POSITIONS})",
    )
    configure_server(parser, "--server")


def run(arguments: argparse.Namespace) -> int:
    """Draw the figure, and print the file's path."""
    if arguments.folder is None:
        arguments.extra = "figures"  # the server runs the model, so nothing more is needed
    _check(arguments)
    arguments.kind = arguments.kind or _KIND
    if arguments.figure == "attention":
        attention, translation = _look(arguments)
        if not attention.source:
            raise UsageError("the text is empty: give a sentence")
        _check_choice(arguments, attention)
        _draw(arguments, attention, translation)
    else:
        _save(_of_the_model(arguments), arguments.out)
    print(arguments.out)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Check that the arguments fit together."""
    out, figure = arguments.out, arguments.figure
    known = _PRINT if figure != "attention" else (_PAGE, *_PRINT)
    if out.suffix.lower() not in known:
        raise UsageError(f"--out {out}: name a file that ends in {', '.join(known)}")
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: {out.parent} is not a folder")
    check_file(out, arguments.force)
    if arguments.positions is not None and figure != "positions":
        raise UsageError(f"--positions {arguments.positions}: is for --figure positions")
    if figure == "attention":
        _check_attention(arguments)
    else:
        _check_model(arguments)


def _check_attention(arguments: argparse.Namespace) -> None:
    if arguments.text is None:
        raise UsageError("no text: give a sentence")
    for what in ("text", "translation"):
        _check_text(what, getattr(arguments, what))
    is_page = arguments.out.suffix.lower() == _PAGE
    if arguments.token is not None and arguments.layer is None and not is_page:
        raise UsageError(f"--token {arguments.token}: needs a --layer")
    heads = arguments.head or []
    if twice := [head for head in heads if heads.count(head) > 1]:
        raise UsageError(f"--head {twice[0]}: is named twice")


def _check_model(arguments: argparse.Namespace) -> None:
    figure = arguments.figure
    if arguments.folder is None:
        raise UsageError(f"--figure {figure}: give a bundle or a checkpoint with --model")
    for name in _OF_ATTENTION:
        if getattr(arguments, name) is not None:
            word = "the text" if name == "text" else flag(name)
            raise UsageError(f"--figure {figure}: shows only the model; leave out {word}")
    if arguments.positions is not None and not 1 <= arguments.positions <= _MOST_POSITIONS:
        raise UsageError(f"--positions {arguments.positions}: give 1 to {_MOST_POSITIONS}")


def _check_text(what: str, text: str | None) -> None:
    """Check that a text is valid, since command-line arguments may hold any bytes."""
    try:
        (text or "").encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the {what} is not UTF-8 at character {error.start}") from error


def _check_choice(arguments: argparse.Namespace, attention: Attention) -> None:
    """Check that the model has the layer, the token and the heads."""
    layers, heads = attention.weights(arguments.kind).shape[:2]
    if not layers:
        raise UsageError(
            f"--kind {arguments.kind}: the model's {arguments.kind} is recurrent, without "
            "self-attention"
        )
    if arguments.layer is not None and not 0 <= arguments.layer < layers:
        raise UsageError(
            f"--layer {arguments.layer}: {arguments.kind} attention has layers 0 to {layers - 1}"
        )
    tokens = len(attention.queries(arguments.kind))
    if arguments.token is not None and not 0 <= arguments.token < tokens:
        raise UsageError(f"--token {arguments.token}: there are tokens 0 to {tokens - 1}")
    for head in arguments.head or ():
        if not 0 <= head < heads:
            raise UsageError(f"--head {head}: the model has heads 0 to {heads - 1}")


def _look(arguments: argparse.Namespace) -> tuple[Attention, str]:
    """Returns the attention and the translation."""
    if arguments.folder is None:
        return _through_server(arguments)
    from dragoman.kernel.manifest import FILE_NAME

    if not arguments.folder.is_dir():
        raise UsageError(f"--model {arguments.folder}: no such folder")
    if (arguments.folder / FILE_NAME).exists():
        return _by_bundle(arguments)
    from dragoman_options.languages import fold_language
    from dragoman_training.config import RunConfig
    from dragoman_training.run.checkpoint_folder import CONFIG
    from dragoman_training.run.reading import read_attention

    known = RunConfig.from_json(arguments.folder / CONFIG).languages
    given = arguments.source_language, arguments.target_language
    source, target = (code and (fold_language(code, known) or code) for code in given)
    return read_attention(arguments.folder, arguments.text, source, target, arguments.translation)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {**given_options(arguments), "return_attention": True}


def _by_bundle(arguments: argparse.Namespace) -> tuple[Attention, str]:
    from dragoman_serving.translation.translator import Translator

    options = _options(arguments)
    translator = Translator(arguments.folder)
    try:
        if (given := arguments.translation) is not None:
            (assessment,) = translator.score([arguments.text], [given], options).future.result()
            translation = given
        else:
            (answer,) = translator.translate([arguments.text], options)
            assert answer.assessment is not None  # it was requested
            assessment, translation = answer.assessment, answer.text
    finally:
        translator.close()
    assert assessment.attention is not None
    return assessment.attention, translation


def _through_server(arguments: argparse.Namespace) -> tuple[Attention, str]:
    from dragoman_client import TranslationError

    from dragoman.kernel.attention_maps import Attention

    options: Any = _options(arguments)
    try:
        with open_translator(arguments) as translator:
            if (given := arguments.translation) is not None:
                assessed, translation = translator.score(arguments.text, given, **options), given
            else:
                answer = translator.translate(arguments.text, **options)
                assessed, translation = answer, answer.text
    except TranslationError as error:
        raise server_error(arguments.url, error) from error
    except ValueError as error:
        raise UsageError(one_line(error)) from error
    seen = assessed.attention
    assert seen is not None  # it was requested, and the client has checked the answer
    return Attention(**vars(seen)), translation


def _draw(arguments: argparse.Namespace, attention: Attention, translation: str) -> None:
    kind: Kind = arguments.kind
    layer, heads = arguments.layer, cast(Sequence[int] | None, arguments.head)
    if arguments.out.suffix.lower() == _PAGE:
        from dragoman.drawing.page import write_page

        page = write_page(
            attention=attention,
            text=arguments.text,
            translation=translation,
            kind=kind,
            layer=layer,
            heads=heads,
            token=arguments.token,
        )
        with writing(f"--out {arguments.out}"):
            arguments.out.write_text(page, encoding="utf-8")
        return
    from dragoman.drawing.figures import draw_grid, draw_lines

    if layer is None:
        _save(draw_grid(attention, kind, heads), arguments.out)
    else:
        every = range(attention.weights(kind).shape[1])
        tokens = None if arguments.token is None else [arguments.token]
        _save(draw_lines(attention, kind, layer, heads or every, tokens), arguments.out)


def _of_the_model(arguments: argparse.Namespace) -> Figure:
    from dragoman.drawing.architecture import draw_architecture
    from dragoman.drawing.figures import draw_positions

    architecture = _architecture(arguments.folder)
    if arguments.figure == "architecture":
        return draw_architecture(architecture)
    size = architecture.sizes.model_size
    if size % 2 or size > _MOST_COLUMNS:
        raise UsageError(
            f"{arguments.folder}: model_size is {size}: position encodings can be drawn for even "
            f"numbers up to {_MOST_COLUMNS}"
        )
    rates = architecture.sizes.position_rates
    return draw_positions(size, arguments.positions or _POSITIONS, rates)


def _architecture(folder: Path) -> Architecture:
    from dragoman.drawing.architecture import Architecture
    from dragoman.kernel.manifest import FILE_NAME, Dimensions

    if not folder.is_dir():
        raise UsageError(f"--model {folder}: no such folder")
    if (folder / FILE_NAME).exists():
        return Architecture.of_bundle(folder)
    from dragoman_training.config import RunConfig
    from dragoman_training.run.checkpoint_folder import CONFIG

    config = RunConfig.from_json(folder / CONFIG)
    model = config.model
    return Architecture(
        Dimensions(**{field.name: getattr(model, field.name) for field in fields(Dimensions)}),
        config.languages,
        model.norm,
        model.activation,
        model.own_output,
    )


def _save(figure: Figure, path: Path) -> None:
    from dragoman.drawing.figures import save

    save(figure, path)
