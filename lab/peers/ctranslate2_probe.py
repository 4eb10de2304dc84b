"""Translates once with CTranslate2, so that it logs its instruction sets.

`lab.peers.instruction_sets` runs it in an environment that makes CTranslate2 and its
libraries log what they use; a library logs it on first use.
"""

from __future__ import annotations

import argparse
import sys

import ctranslate2


def main() -> int:
    """Translate one token, which need not be in the vocabulary."""
    parser = argparse.ArgumentParser(prog="python -m lab.peers.ctranslate2_probe")
    parser.add_argument("model", help="folder of CTranslate2's model")
    parser.add_argument("--compute-type", default="float32")
    arguments = parser.parse_args()
    translator = ctranslate2.Translator(
        arguments.model, device="cpu", compute_type=arguments.compute_type, intra_threads=1
    )
    translator.translate_batch([["a"]], beam_size=1, max_decoding_length=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
