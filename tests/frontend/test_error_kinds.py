"""What the compiler raises is Triton's error and ours at once, and says nothing in Python's quotes."""

import pickle

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.compiler.errors import CompileTimeAssertionFailure

import mimw
import mimw.tlx as tlx
from mimw import errors
from mimw.runtime.compile_kernel import compile_kernel


@mimw.jit
def waits_alone(x, COUNT: tl.constexpr):
    bars = tlx.alloc_barriers(1, arrive_count=COUNT)
    tlx.barrier_arrive(bars[0])
    tlx.barrier_wait(bars[0], 0)
    tl.store(x, 1)


@mimw.jit
def waits_for_more(x, n, COUNT: tl.constexpr):
    """What the compiler cannot know."""
    bars = tlx.alloc_barriers(1, arrive_count=COUNT)
    for _ in range(n):
        tlx.barrier_arrive(bars[0])
    tlx.barrier_wait(bars[0], 0)
    tl.store(x, 1)


@mimw.jit
def task_outside(x):
    with tlx.async_task("default"):
        tl.store(x, 1)


@mimw.jit
def too_much(x, N: tl.constexpr):
    tile = tlx.local_alloc((N, 128), tl.float32, 4)
    tlx.local_store(tile[0], tl.zeros((N, 128), tl.float32))
    tl.store(x, tl.max(tl.max(tlx.local_load(tile[0]), 1), 0))


@mimw.jit
def odd_registers(x):
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=3):
            tl.store(x, 1)


@mimw.jit
def no_number(x):
    tlx.local_alloc((32, 32), tl.float32)


@mimw.jit
def not_offered(x):
    tlx.require_layout(tl.arange(0, 64), tlx.DummyRegisterLayoutEncoding([64], tl.int32))


def refused(kernel, target="sm_90a", **constants):
    with pytest.raises(triton.CompilationError) as caught:
        compile_kernel(kernel, {"x": "*fp32"}, constants, target=target)
    return caught.value


def test_one_class_for_what_is_known_before_and_what_a_run_finds():
    known = refused(waits_alone, COUNT=2)
    with pytest.raises(errors.TooFewArrivals) as found:
        mimw.simulate(waits_for_more, (1, ), np.zeros(1, np.float32), 1, COUNT=2)
    for error in (known, found.value):
        assert isinstance(error, errors.TooFewArrivals) and isinstance(error, errors.Deadlock) and error.sites
    with pytest.raises(errors.TooFewArrivals):      # the simulator's launch asks the compiler first
        mimw.simulate(waits_alone, (1, ), np.zeros(1, np.float32), COUNT=2)
    assert known.hint and "Mend:" in str(known) and known.message in str(known) and known.kind == "TooFewArrivals"
    mimw.simulate(waits_alone, (1, ), out := np.zeros(1, np.float32), COUNT=1)
    assert out[0] == 1


@pytest.mark.parametrize("kernel, constants, kind", [
    (task_outside, {}, errors.TaskError), (too_much, {"N": 256}, errors.OutOfSharedMemory),
    (not_offered, {"target": "sm_100a"}, NotImplementedError)])
def test_other_kinds(kernel, constants, kind):
    error = refused(kernel, **constants)
    assert isinstance(error, kind) and type(error.__cause__) is not type(error) and isinstance(error.__cause__, kind)
    assert isinstance(error, CompileTimeAssertionFailure) == (kind is errors.OutOfSharedMemory), "what autotuners skip"


def test_such_an_error_can_be_sent_to_another_process():
    for error in (refused(waits_alone, COUNT=2), refused(too_much, N=256), refused(odd_registers)):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error)
        assert getattr(again, "hint", "") == getattr(error, "hint", "")


@pytest.mark.parametrize("kernel, text, cause", [
    (odd_registers, "num_regs must be divisible by 8 and positive, got 3", ValueError),
    (no_number, "num, storage=tlx.storage_kind.smem, reuse=None, layout=None): missing a required argument: 'num'", TypeError),
    (task_outside, "`async_task` stands outside `async_tasks`\nMend: ", errors.TaskError)])
def test_messages_are_as_they_were_written(kernel, text, cause):
    error = refused(kernel)
    assert text in str(error) and f"{cause.__name__}('" not in str(error) and "\\n" not in str(error)
    assert isinstance(error.__cause__, cause) and str(error).count(f"in {kernel.__name__}") == 1
