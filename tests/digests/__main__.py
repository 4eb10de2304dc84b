"""Compare the digests of translations with the committed ones, or write them again."""

from __future__ import annotations

import argparse
import sys

from dragoman_serving.engine.compiled.library import choose_instruction_set

from tests.digests import digests


def main() -> int:
    """Run the command line; 1 if a digest differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.digests", description=__doc__)
    parser.add_argument("--sentences", type=int, help="only the first ones, a multiple of 20")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--cases", nargs="+", default=[*digests.CASES], help="names; default: all")
    which.add_argument("--write", action="store_true", help="write all digests anew")
    arguments = parser.parse_args()
    hashes = {
        name: digests.digests(
            digests.translate(digests.read_sentences(digests.CASES[name], arguments.sentences))
        )
        for name in arguments.cases
    }
    if arguments.write:
        digests.write(hashes)
        return 0
    right = digests.read()
    differing = [
        f"{name}: sentences {digests.BLOCK * i + 1} to {digests.BLOCK * (i + 1)}"
        for name, blocks in hashes.items()
        for i, block in enumerate(blocks)
        if block != right[name][i]
    ]
    print(
        f"{choose_instruction_set()}: {len(differing)} of {sum(map(len, hashes.values()))} differ"
    )
    print(*differing, sep="\n", file=sys.stderr)
    return 1 if differing else 0


sys.exit(main())
