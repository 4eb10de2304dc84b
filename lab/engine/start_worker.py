"""A fresh process that translates once, loads the same bundle again, and translates with it.

It reports both times, and the memory that the second one adds.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from dragoman_serving.translation.translator import Translator

from lab.peers.workers.worker_protocol import resident_bytes

TEXT = "1"
"""The text that serving translates before it is ready."""
SENTENCE = "A red house stands by the river."
"""Its translation reads all weights; that of a number does not."""


def main() -> None:
    """Report the time of the first translation, then how long the second load took."""
    bundle = Path(sys.argv[1])
    first = Translator(bundle)
    first.translate([TEXT])
    report = {"peak_bytes": resident_bytes("VmHWM"), "layout": str(first.layout)}
    print(json.dumps(report), flush=True)
    first.translate([SENTENCE])
    before_bytes = resident_bytes()
    begin_s = time.perf_counter()
    second = Translator(bundle)
    load_s = time.perf_counter() - begin_s
    second.translate([SENTENCE])
    added_bytes = resident_bytes() - before_bytes
    second.close()
    print(json.dumps({"load_s": load_s, "added_bytes": added_bytes}), flush=True)
    first.close()


if __name__ == "__main__":
    main()
