"""The machine: program ids, clocks, the timeline, prints and assertions."""

import time

import ml_dtypes
import numpy as np
import pytest

from mimw.errors import SimulationError

from .programs import FP32, I1, I32, I64, HostTensor, Sketch
from .sketches import gemm


def test_every_program_runs_once():
    k = Sketch()
    y = k.pointer(I32, "y")
    row = k.op("mul", k.op("get_program_id", 1), k.op("get_num_programs", 0))
    column = k.op("get_program_id", 0)
    spot = k.op("addptr", y, k.op("add", row, column))
    k.op("atomic_rmw", "ADD", spot, k.op("add", column, k.const(1)), k.const(1, I1), None, None)
    out = np.zeros((70, 3), np.int32)
    k.run(out, grid=(3, 70))
    assert out.tolist() == [[1, 2, 3]] * 70


def test_while_loops():
    """Collatz steps from 27."""
    k = Sketch()
    y = k.pointer(I32, "y")
    op = k.regions("while", (k.const(27), k.const(0)))

    def before(n, steps):
        k.op("condition", k.op("icmpNE", n, k.const(1)), (n, steps))

    def after(n, steps):
        odd = k.op("icmpNE", k.op("and", n, k.const(1)), k.const(0))
        (n, ) = k.when(odd, lambda: (k.op("add", k.op("mul", n, k.const(3)), k.const(1)), ),
                       lambda: (k.op("sdiv", n, k.const(2)), ), [I32])
        return n, k.op("add", steps, k.const(1))

    for body in (before, after):
        k.block(op, body, [I32, I32])
    k.store(y, op.results[1])
    out = np.zeros(1, np.int32)
    k.run(out)
    assert out.tolist() == [111]


def test_the_clock_goes_on():
    k = Sketch()
    y = k.pointer(I64, "y")
    start = k.op("clock64", type=I64)
    x = k.op("load", y, None, False)
    k.store(y, k.op("add", k.op("sub", k.op("clock64", type=I64), start), x))
    out = np.zeros(1, np.int64)
    k.run(out)
    assert out[0] > 100


def test_a_task_is_its_first_thread():
    k = Sketch()
    y = k.pointer(I32, "y")
    tid = [None, None]

    def task(index):
        def body():
            tid[index] = k.op("thread_id", 0)
            k.store(k.op("addptr", y, k.const(index)), tid[index])
        return body

    k.tasks(first=task(0), second=task(1))
    out = np.full(2, -1, np.int32)
    k.run(out)
    assert out.tolist() == [0, 128]


def test_prints_and_assertions(capsys):
    k = Sketch()
    k.op("print", " value: ", False, (k.const(7), ), (True, ))
    k.op("assert", k.const(1, I1), "fine")
    k.op("assume", k.const(1, I1))
    k.run()
    assert capsys.readouterr().out == "(0, 0, 0) default value: 7\n"
    for op, text in (("assert", "n is too small"), ("assume", None)):
        k = Sketch()
        k.op(op, k.const(0, I1), *filter(None, [text]))
        with pytest.raises(SimulationError, match=text or "not true here"):
            k.run()


def test_errors_inside_numpy_know_their_op():
    k = Sketch()
    x = k.pointer(FP32, "x")
    k.op("reshape", k.load(x, (4, )), (3, ), False)
    with pytest.raises(ValueError) as caught:
        k.run(np.zeros(4, np.float32))
    assert "reshape" in caught.value.__notes__[0] and "task 'default' of CTA (0, 0, 0)" in caught.value.__notes__[0]


@pytest.fixture(scope="module")
def large_gemm():
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(1024, 1024)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((1024, 1024), ml_dtypes.bfloat16)
    kernel, start = gemm(), time.process_time()
    run = kernel.run(HostTensor(a), HostTensor(b), HostTensor(c), grid=(8, 4), trace=True)
    return a, b, c, run, time.process_time() - start


def test_a_warp_specialised_gemm_is_right_and_quick(large_gemm):
    a, b, c, _, seconds = large_gemm
    np.testing.assert_allclose(c.astype(float), a.astype(float) @ b.astype(float).T, rtol=1e-2, atol=0.1)
    assert seconds < 30  # of CPU; about 2 on an idle machine, several times that on a crowded one


def test_events_of_a_lane_do_not_overlap_and_end_in_order(large_gemm):
    trace = large_gemm[3].trace
    assert {(0, lane) for lane in ("default", "upper", "lower", "load", "TMA", "tensor core")} == \
        {lane for lane in trace.lanes() if lane[0] == 0}
    last = {}
    for event in sorted(trace.events, key=lambda event: event.start):
        assert last.get((event.cta, event.lane), 0.0) <= event.start + 1e-6
        last[event.cta, event.lane] = event.end
    ends = [event.end for event in trace.events]
    assert ends == sorted(ends)
    assert {event.kind for event in trace.events} == {"run", "wait", "copy", "dot"}


def test_the_timeline_is_causal(large_gemm):
    """No dot starts before the first tiles can have come, and the run ends after its last event."""
    trace, cycles = large_gemm[3].trace, large_gemm[3].cycles
    first_copy = min(event.start for event in trace.events if event.kind == "copy")
    first_dot = min(event.start for event in trace.events if event.kind == "dot")
    assert first_dot >= first_copy + 600
    assert cycles >= trace.end
