"""One caller at a time for Triton's Python backend.

In release 24.10 answers, questions about cancellation and metrics all go through the same shared
memory; from several threads at once they bring the server down under load.
"""

from __future__ import annotations

import threading

one_at_a_time = threading.Lock()
"""Held around every call of Triton's module that talks to the server."""
