"""What a loop carries is found while its body is recorded: nested loops cost what their text does, whatever their depth."""

import time

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.frontend.recorder import Recorder
from mimw.compiler.pipeline.stages import Kernel, Setting, record
from mimw.compiler.pipeline.targets import chip_of, gpu_target
from mimw.compiler.triton_port.runtime import make_backend
from mimw.target import target


@mimw.jit
def two_deep(x, n, NEVER: tl.constexpr):
    tlx.fence("gpu")
    a = tl.load(x)
    b = a
    for i in range(n):
        a += i
        for j in range(n):
            a += j
            if NEVER:
                b = a
            tl.store(x + j, a + b)


@mimw.jit
def four_deep(x, n, NEVER: tl.constexpr):
    tlx.fence("gpu")
    a = tl.load(x)
    b = a
    for i in range(n):
        a += i
        for j in range(n):
            a += j
            k = 0
            while k < n:
                a += k
                for m in range(n):
                    a += m
                    if NEVER:
                        b = a
                    tl.store(x + m, a + b)
                k += 1


@mimw.jit
def six_deep(x, n, NEVER: tl.constexpr):
    tlx.fence("gpu")
    a = tl.load(x)
    b = a
    for i in range(n):
        a += i
        for j in range(n):
            a += j
            k = 0
            while k < n:
                a += k
                for m in range(n):
                    a += m
                    for p in range(n):
                        a += p
                        for q in range(n):
                            a += q
                            if NEVER:
                                b = a
                            tl.store(x + q, a + b)
                k += 1


DEPTHS = {2: two_deep, 4: four_deep, 6: six_deep}


@pytest.fixture
def recorded(monkeypatch):
    """A function that records a kernel: (ops that were noted for each op of the program, CPU seconds)."""
    noted, insert = [], Recorder.insert
    monkeypatch.setattr(Recorder, "insert", lambda recorder, op: noted.append(op) or insert(recorder, op))
    gpu = gpu_target(target("sm_90a"))
    backend = make_backend(gpu)

    def run(kernel, never) -> tuple[float, float]:
        noted.clear()
        start = time.process_time()
        made = Kernel(kernel, dict(x="*i32", n="i32", NEVER="constexpr"), {(2, ): never}, {})
        program = record(made, Setting(chip_of(gpu), backend.parse_options({}), backend), None)
        seconds = time.process_time() - start
        return len(noted) / sum(1 for _ in program.walk()), seconds

    return run


@pytest.mark.parametrize("depth", DEPTHS)
def test_every_op_is_recorded_once(recorded, depth):
    """Stock Triton's search records the innermost body once more for each loop around it."""
    noted, seconds = recorded(DEPTHS[depth], True)
    assert noted == 1 and seconds < 0.5


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_wrong_guess_is_made_once_a_loop(recorded, depth):
    """`b` changes in no round, which no text says. Each loop then records its body once more; were the answer not kept, the loops
    in the body would do so again each time: the innermost one of six would be recorded 64 times."""
    noted, seconds = recorded(DEPTHS[depth], False)
    assert noted < 1 + depth / 2 and seconds < 0.5


@mimw.jit
def swapped(x, y, n):
    """Values that only change places, one of them in a branch that depends on data; `same` is assigned and never changes."""
    tlx.fence("gpu")
    a, b, same = tl.load(x), tl.load(x + 1), tl.load(x + 2)
    for i in range(n):
        if i > 1:
            a, b = b, a
        for j in range(2):
            same = same
        tl.store(y + i, a * 100 + b * 10 + same)


def test_values_that_change_places_are_carried():
    x, y = np.arange(1, 4, dtype=np.int32), np.zeros(4, np.int32)
    mimw.simulate(swapped, 1, x, y, 4)
    assert y.tolist() == [123, 123, 213, 123]
