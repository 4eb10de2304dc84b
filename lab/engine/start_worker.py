"""A fresh process that translates once, and again with the same bundle loaded a second time.

It reports both times, and the memory of both together over that of the process without bundles.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from dragoman_serving.translation.translator import Translator

from lab.peers.worker_protocol import resident_bytes

TEXT = "1"
"""The text that serving translates before it is ready."""


def main() -> None:
    """Report the time of the first translation, then how long the second load took."""
    bundle, empty_bytes = Path(sys.argv[1]), resident_bytes()
    first = Translator(bundle)
    first.translate([TEXT])
    report = {"peak_bytes": resident_bytes("VmHWM"), "layout": str(first.layout)}
    print(json.dumps(report), flush=True)
    begin_s = time.perf_counter()
    second = Translator(bundle)
    load_s = time.perf_counter() - begin_s
    second.translate([TEXT])
    pair_bytes = resident_bytes() - empty_bytes
    second.close()
    print(json.dumps({"load_s": load_s, "pair_bytes": pair_bytes}), flush=True)
    first.close()


if __name__ == "__main__":
    main()
