"""The development build stops where a caller breaks what a kernel requires of sizes and indices."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
import sys

import pytest
from dragoman_serving.engine.compiled import library

PREPARE = """
import ctypes, sys
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.library import (
    Constraints, SearchResult, Number, Product, Rows, Searches, Sizes, Sources
)
c, of, N = ctypes.CDLL(sys.argv[1]), ctypes.byref, Number
zeros = lambda count: (N * count)()
sizes = dict(model_size=64, feed_forward_size=64, heads=2, head_size=32, encoder_layers=1,
             decoder_layers=1, longest=16, vocab_size=100, src_ids=100, norm_epsilon=1e-5)
def model(**changed):
    c.dragoman_model_bytes.restype = N
    memory = ctypes.create_string_buffer(c.dragoman_model_bytes())
    c.dragoman_find_weights(of(Sizes(**{**sizes, **changed})), memory)
    return memory
def sources(ids, lengths, **changed):
    fields = dict(sentences=len(lengths), tokens=len(ids), room=16,
                  ids=ctypes.addressof((N * len(ids))(*ids)),
                  lengths=ctypes.addressof((N * len(lengths))(*lengths)))
    c.dragoman_encode(model(), of(Sources(**{**fields, **changed})), None, None)
def rows(token=1, position=0, src_length=1, **changed):
    kept = [(N * 1)(value) for value in (token, position, src_length)]
    ids, positions, lengths = map(ctypes.addressof, kept)
    fields = dict(sentences=1, width=1, ids=ids, positions=positions, src_lengths=lengths,
                  src_room=16, room=16, past=ids)
    c.dragoman_step(model(), of(Rows(**{**fields, **changed})), None, None, None)
def searches(**fields):
    return of(Searches(**{**dict(slots=2, width=1, branches=1, panels=1, capacity=4), **fields}))
def advance(**fields):
    constraints = Constraints(repetition_penalty=1.0, **fields)
    arrays = dict(constraints=(N * 2)(*[ctypes.addressof(constraints)] * 2), live=(N * 2)(1, 1),
                  limits=(N * 2)(4, 4), rows=zeros(2), lengths=zeros(2), history=zeros(4),
                  tokens=zeros(99))
    c.dragoman_advance(searches(**{name: ctypes.addressof(one) for name, one in arrays.items()}),
                       zeros(99), zeros(2), zeros(1))
"""
BROKEN = {
    "best: no token": "c.dragoman_best(None, N(1), N(1), N(0), None, None)",
    "best: too many tokens": "c.dragoman_best(None, N(1), N(99), N(1025), None, None)",
    "lay out: longer than its panels": "c.dragoman_lay_out(None, N(65), N(1), None)",
    "log-softmax: rows that overlap": "c.dragoman_log_softmax(None, N(1), N(63), N(64), None)",
    "quantise: a part of a vector": "c.quantise(None, N(1), N(17), None)",
    "key: before the first": "c.store_key(None, N(32), None, N(-1))",
    "value: too long": "c.store_value(None, N(272), None, N(0))",
    "product: a part of a panel": "c.multiply_listed(of(Product(inputs=16, outputs=63)))",
    "model: too many layers": "model(decoder_layers=65)",
    "model: heads of another size": "model(heads=3)",
    "model: no epsilon": "model(norm_epsilon=0.0)",
    "encode: an id beyond the vocabulary": "sources([1, 100], [2])",
    "encode: a negative id": "sources([1, -1], [2])",
    "encode: other lengths than tokens": "sources([1, 2, 3], [1, 1])",
    "encode: a part of a block": "sources([1], [1], room=24)",
    "encode: longer than its cache": "sources([1] * 17, [17])",
    "step: an id beyond the vocabulary": "rows(token=100)",
    "step: a position beyond the cache": "rows(position=16)",
    "step: a source longer than its cache": "rows(src_length=17)",
    "step: a part of a block": "rows(room=20)",
    "step: no keys and values": "rows(past=None)",
    "step: cells of another kind of decoder": "rows(cells=1)",
    "constraints: a mask of a larger vocabulary": "advance(not_first=1, not_first_size=65)",
    "leave: no such sentence": "c.dragoman_leave_search(searches(), N(2))",
    "result: no such slot": "c.dragoman_result(searches(), N(-1), N(0), None, None, None, None)",
    "advance: a part of a sentence": "c.dragoman_advance(searches(slots=3, branches=2))",
    "helpers: fewer than none": "c.dragoman_start_helpers(zeros(100), N(-1))",
}


KEPT = "model(); c.dragoman_helpers_bytes()"
RUN_EACH = """
import json, os, tempfile, traceback
outcomes = {}
for statement in json.load(sys.stdin):
    with tempfile.TemporaryFile() as written:
        if not (child := os.fork()):
            os.dup2(written.fileno(), 2)
            try:
                exec(statement)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        written.seek(0)
        outcomes[statement] = code, written.read().decode()
json.dump(outcomes, sys.stdout)
"""
"""Starting Python anew for each statement would take longer than all of them."""


@functools.cache
def outcomes(name: str | None) -> dict[str, tuple[int, str]]:
    """Exit code and error output of a process for each statement, with this library."""
    assert name
    done = subprocess.run(
        [sys.executable, "-c", PREPARE + RUN_EACH, str(library._path(name))],
        input=json.dumps([*BROKEN.values(), KEPT]),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    each: dict[str, tuple[int, str]] = json.loads(done.stdout)
    return each


@pytest.mark.parametrize("name", library.usable_instruction_sets())
def test_every_library_has_assertions(name: str) -> None:
    code, _ = outcomes(name)[BROKEN["best: no token"]]
    assert code == -signal.SIGABRT, "install with DRAGOMAN_DEVELOPMENT=1, as make does"


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_promise_stops_the_process(case: str) -> None:
    code, written = outcomes(library.choose_instruction_set())[BROKEN[case]]
    assert code == -signal.SIGABRT, written
    assert "Assertion" in written


def test_kept_promises_do_not() -> None:
    code, written = outcomes(library.choose_instruction_set())[KEPT]
    assert code == 0, written
