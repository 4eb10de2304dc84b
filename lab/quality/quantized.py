"""Effect of 8-bit products, as TensorRT rounds them, on the shipped model's translations.

Greedy search, in every direction. ONNX Runtime runs the graphs on the CPU; it rounds as they
specify but multiplies in fp32, so this says nothing about speed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import onnx
import sacrebleu
from dragoman_export.tensorrt.calibration import QUANTIZED_GRAPHS, calibrate
from dragoman_export.tensorrt.host_runner import HostRunner, read_decoding_graphs
from dragoman_export.tensorrt.quantized_products import quantize_products
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.runtimes.device.device_memory import HostMemory
from dragoman_serving.engine.runtimes.device.device_network import DeviceNetwork
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import QuantizedPrecision
from dragoman_training.text.parallel_text import Side, read_directions

from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import Tokenizer
from lab.measurement import DATA_DIR, SHIPPED, Results, number, program
from lab.report import markdown_table

Graphs = Mapping[str, onnx.ModelProto]
PRECISIONS = get_args(QuantizedPrecision)
TEST, CALIBRATION = "tatoeba-en-de/test", "tatoeba-en-de/valid"
CALIBRATION_SENTENCES = 128


def quantized(
    bundle: Path, manifest: Manifest, graphs: Graphs, texts: Sequence[tuple[Side, Side]]
) -> dict[QuantizedPrecision, Graphs]:
    """Graphs with 8-bit products, calibrated on texts in all directions."""
    tokenizer = manifest.open_tokenizer(bundle)
    products = calibrate(bundle, manifest, [ids for pair in texts for ids in _ids(tokenizer, pair)])
    return {
        precision: {
            **graphs,
            **{
                graph: quantize_products(graphs[graph], products[graph], precision, "fp32")
                for graph in QUANTIZED_GRAPHS
            },
        }
        for precision in PRECISIONS
    }


def translate(
    bundle: Path, manifest: Manifest, graphs: Graphs, text: tuple[Side, Side]
) -> list[str]:
    """Translate greedily from one side to the other."""
    tokenizer = manifest.open_tokenizer(bundle)
    network = DeviceNetwork(manifest, HostRunner(graphs, manifest.limits, bundle), HostMemory())
    engine = Engine(network, manifest.special_ids, workers=1)
    try:
        futures = engine.submit(
            [
                Sentence(
                    tuple(ids), manifest.limits.target_tokens(len(ids)), SearchOptions(beam_width=1)
                )
                for ids in _ids(tokenizer, text)
            ]
        )
        return [tokenizer.target.decode(future.result().ids) for future in futures]
    finally:
        engine.close()


def bleu(translations: Sequence[str], target: Side) -> float:
    """BLEU of translations against the other side."""
    return float(sacrebleu.corpus_bleu(list(translations), [list(target.texts)]).score)


def equal_share(translations: Sequence[str], others: Sequence[str]) -> float:
    """Share of equal translations."""
    return sum(mine == other for mine, other in zip(translations, others, strict=True)) / len(
        others
    )


def _ids(tokenizer: Tokenizer, text: tuple[Side, Side]) -> list[list[int]]:
    source, target = text
    return [tokenizer.encode_source(line, target.language) for line in source.texts]


@program(DATA_DIR, number("--sentences", 1000, "for each direction"))
def main(arguments: argparse.Namespace) -> Results:
    """Print a table."""
    manifest = Manifest.load(SHIPPED)
    directions = manifest.all_directions
    valid = read_directions(arguments.data_dir / CALIBRATION, directions, CALIBRATION_SENTENCES)
    graphs = read_decoding_graphs(SHIPPED, manifest)
    changed = quantized(SHIPPED, manifest, graphs, valid)
    lines = []
    for text in read_directions(arguments.data_dir / TEST, directions, arguments.sentences):
        right = translate(SHIPPED, manifest, graphs, text)
        direction = f"{text[0].language}-{text[1].language}"
        lines.append([direction, "fp32", f"{bleu(right, text[1]):.2f}", ""])
        for precision, of_precision in changed.items():
            translations = translate(SHIPPED, manifest, of_precision, text)
            equal = f"{equal_share(translations, right):.1%}"
            lines.append([direction, precision, f"{bleu(translations, text[1]):.2f}", equal])
    head = ["direction", "products", "BLEU", "texts as in fp32"]
    print(markdown_table(head, lines))
    return {"rows": [dict(zip(head, line, strict=True)) for line in lines]}


if __name__ == "__main__":
    sys.exit(main())
