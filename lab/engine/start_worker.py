"""A fresh process that translates once, loads the same bundle again, and reports both times."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from dragoman_serving.translation.translator import Translator

from lab.peers.worker_protocol import peak_resident_bytes

TEXT = "1"
"""The text that serving translates before it is ready."""


def main() -> None:
    """Report the time of the first translation, then how long the second load took."""
    bundle = Path(sys.argv[1])
    first = Translator(bundle)
    first.translate([TEXT])
    report = {"peak_bytes": peak_resident_bytes(), "layout": str(first.layout)}
    print(json.dumps(report), flush=True)
    begin_s = time.perf_counter()
    second = Translator(bundle)
    load_s = time.perf_counter() - begin_s
    second.close()
    print(json.dumps({"load_s": load_s}), flush=True)
    first.close()


if __name__ == "__main__":
    main()
