"""`dragoman export`: export a checkpoint to a bundle, or a bundle to TensorRT engines."""

from __future__ import annotations

import argparse
from pathlib import Path

from dragoman.commands import align_heads
from dragoman.commands.shared.folders import check_count, check_folder, configure_force
from dragoman.kernel.errors import UsageError
from dragoman.kernel.tensors import ATTENTION_GRAPH

HELP = "export a checkpoint to a bundle of ONNX graphs, or a bundle to TensorRT engines"
EXTRA = "export"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    what = "export a checkpoint to a bundle of ONNX graphs"
    _configure_onnx(kinds.add_parser("onnx", help=what, description=what))
    what = "build TensorRT engines from a bundle's graphs, and add them to the bundle"
    _configure_tensorrt(kinds.add_parser("tensorrt", help=what, description=what))
    what = "add the attention graph to a bundle of an earlier version"
    attention = kinds.add_parser("attention", help=what, description=what)
    attention.add_argument("bundle", type=Path, help="folder of a bundle")


def _configure_onnx(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path, help="folder of a checkpoint")
    parser.add_argument("--out", type=Path, required=True, help="folder of the bundle to make")
    configure_force(parser)
    parser.add_argument(
        "--storage",
        choices=("fp32", "fp16", "int8"),
        default="fp32",
        help="precision of the weights on disk; the graphs compute in fp32 (default: fp32). int8 "
        "halves fp16's size, and changes few translations",
    )
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="ALPHA",
        help="for requests that give none; choose it with `dragoman evaluate` on validation text "
        "(default: the checkpoint's, 0.6 unless it is a bundle with another)",
    )
    parser.add_argument(
        "--max-sentence-tokens",
        type=int,
        metavar="N",
        help="for requests that give no limit: longer sentences are split at a clause (default: "
        "the checkpoint's, else the model's limit)",
    )
    align_heads.configure_text(parser, "--alignment-text", required=False)


def _configure_tensorrt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, help="folder of a bundle")
    configure_force(parser)
    parser.add_argument(
        "--precision",
        choices=("fp32", "fp16", "bf16", "int8", "fp8"),
        default="fp16",
        help="of matrix products, attention and the cache; the rest stays in fp32. int8 and fp8 "
        "apply to products only, and need --calibration-text (default: fp16)",
    )
    _configure_calibration(parser)
    parser.add_argument(
        "--compute-capability",
        metavar="X.Y",
        help="of the GPU to build for, such as 8.9; only tensorrt_rtx can build for a GPU that is "
        "not in this machine (default: that of the first GPU)",
    )
    parser.add_argument(
        "--library",
        choices=("tensorrt", "tensorrt_rtx"),
        help="TensorRT library to use (default: the first that is installed)",
    )
    parser.add_argument(
        "--max-rows",
        type=int,
        default=256,
        metavar="N",
        help="largest batch of a step; a sentence takes one row per hypothesis (default: 256)",
    )
    parser.add_argument(
        "--cache-tokens",
        type=int,
        nargs="+",
        default=(),
        metavar="N",
        help="cache lengths, one engine each (default: 64, 128 and the longest translation)",
    )
    parser.add_argument(
        "--plain",
        action="store_true",
        help="build encoder and decoder for Triton's own TensorRT backend, with the cache as a "
        "separate output tensor, instead of for the engine",
    )
    parser.add_argument(
        "--workspace-mib", type=int, default=0, metavar="N", help="memory limit of the workspace"
    )
    parser.add_argument(
        "--timing-cache",
        type=Path,
        metavar="FILE",
        help="keep measurements of the GPU for the next build; only for tensorrt",
    )


def _configure_calibration(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--calibration-text",
        metavar="PREFIX",
        help="calibration text for int8 and fp8, such as tatoeba-en-de/valid",
    )
    parser.add_argument("--data-dir", type=Path, default=Path(), help="folder of the prefix")
    parser.add_argument(
        "--calibration-sentences",
        type=int,
        default=128,
        metavar="N",
        help="number of sentences in each direction (default: 128)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Export, and print the paths that were written."""
    kinds = {"onnx": _onnx, "tensorrt": _tensorrt, "attention": _attention}
    return kinds[arguments.kind](arguments)


def _onnx(arguments: argparse.Namespace) -> int:
    from dragoman_export.bundle import export_bundle

    check_folder("--out", arguments.out.parent)
    export_bundle(
        source=arguments.checkpoint,
        bundle=arguments.out,
        storage=arguments.storage,
        length_penalty=arguments.length_penalty,
        max_sentence_tokens=arguments.max_sentence_tokens,
        force=arguments.force,
    )
    if (text := arguments.alignment_text) is not None:
        try:
            align_heads.choose(
                arguments.out, arguments.data_dir, text, arguments.pairs, quiet=arguments.quiet
            )
        except UsageError as error:
            command = f"dragoman align-heads {arguments.out}"
            fix = f"the bundle is complete; choose heads with: {command}"
            raise UsageError(f"{error}; {fix}") from error
    print(arguments.out)
    return 0


def _tensorrt(arguments: argparse.Namespace) -> int:
    # Calibration runs the graphs on the CPU.
    arguments.extra = "tensorrt" if arguments.calibration_text is None else "serve-cpu,tensorrt"
    from dragoman_export.tensorrt.build_progress import build_progress
    from dragoman_export.tensorrt.plans import PlanSettings, build_plans

    settings = PlanSettings(
        precision=arguments.precision,
        compute_capability=arguments.compute_capability,
        library=arguments.library,
        max_rows=arguments.max_rows,
        cache_tokens=tuple(arguments.cache_tokens),
        workspace_bytes=arguments.workspace_mib << 20,
        timing_cache=arguments.timing_cache,
        plain=arguments.plain,
        calibration=_calibration(arguments),
    )
    with build_progress(settings.library, quiet=arguments.quiet) as monitor:
        for plan in build_plans(arguments.bundle, settings, monitor, arguments.force):
            print(arguments.bundle / plan.file, flush=True)
    return 0


def _calibration(arguments: argparse.Namespace) -> list[list[int]]:
    """Token ids of source texts, in all directions of the text."""
    from dragoman_training.text.parallel_text import read_directions

    from dragoman.kernel.manifest import Manifest

    text = arguments.calibration_text
    if text is None:
        return []
    check_count("--calibration-sentences", arguments.calibration_sentences)
    manifest = Manifest.load(arguments.bundle)
    tokenizer = manifest.open_tokenizer(arguments.bundle)
    directions = read_directions(
        arguments.data_dir / text, manifest.all_directions, arguments.calibration_sentences
    )
    longest = manifest.limits.max_source_tokens
    encoded = [
        tokenizer.encode_source(sentence, tgt.language)
        for src, tgt in directions
        for sentence in src.texts
    ]
    return [ids for ids in encoded if len(ids) <= longest]


def _attention(arguments: argparse.Namespace) -> int:
    from dragoman_export.bundle import add_attention_graph

    manifest = add_attention_graph(arguments.bundle)
    print(arguments.bundle / manifest.graphs[ATTENTION_GRAPH].file)
    return 0
