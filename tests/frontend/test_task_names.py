"""A name that a task assigns and that is read after the region: the reader is told, with both lines."""

import warnings

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import KernelWarning, TaskError

SHADOWED = tl.constexpr(3)


@mimw.jit
def reads_after(y, n):
    it = n
    with tlx.async_tasks():
        with tlx.async_task("default"):
            it += 10  # assigned
            tl.store(y, it)
        with tlx.async_task(num_warps=1):
            tl.store(y + 1, it)
    for i in range(2):
        tl.store(y + 2 + i, it)  # read


@mimw.jit
def reads_in_the_next_region(y, n):
    phase = n
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(y, phase)
        with tlx.async_task(num_warps=1):
            for _ in range(3):
                phase ^= 1  # assigned
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(y + 1, phase)  # read
        with tlx.async_task(num_warps=1):
            phase = 5
            tl.store(y + 2, phase)


@mimw.jit
def reads_a_global(y, n):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            SHADOWED = n  # assigned
            tl.store(y, SHADOWED)
        with tlx.async_task(num_warps=1):
            tl.store(y + 1, n)
    tl.store(y + 2, SHADOWED)  # read


@mimw.jit
def one_task(y, n):
    it = n
    with tlx.async_tasks():
        with tlx.async_task("default"):
            it = it + 1  # assigned
            tl.store(y, it)
    tl.store(y + 1, it)  # read


@mimw.jit
def assigns_anew(y, n, TAKEN: tl.constexpr):
    it, other = n, n
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if not TAKEN:
                other = 9
            it = 7
            tl.store(y, it + other)
        with tlx.async_task(num_warps=1):
            it = 8
            tl.store(y + 1, it)
    it = n + 1
    tl.store(y + 2, it + other)
    for it in range(2):
        tl.store(y + 3, it)


@mimw.jit
def has_no_value(y):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            fresh = 7  # assigned
            tl.store(y, fresh)
        with tlx.async_task(num_warps=1):
            tl.store(y + 1, 1)
    tl.store(y + 2, fresh)  # read


def simulated(kernel, *args, **meta) -> tuple[list, list]:
    """(what the kernel wrote, the warnings)"""
    y = np.zeros(4, np.int32)
    kernel.__dict__.pop("_simulated_programs", None)        # record it anew
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mimw.simulate(kernel, (1, ), y, *args, **meta)
    return y.tolist(), [one for one in caught if issubclass(one.category, KernelWarning)]


@pytest.mark.parametrize("kernel, name, wrote", [
    (reads_after, "it", [14, 4, 4, 4]), (reads_in_the_next_region, "phase", [4, 4, 5, 0]),
    (reads_a_global, "SHADOWED", [4, 4, 3, 0]), (one_task, "it", [5, 4, 0, 0])])
def test_the_reader_is_told_with_both_lines(kernel, name, wrote):
    found, (warning, ) = simulated(kernel, 4)
    assert found == wrote, "each task has a copy, and the value from before is there again"
    text = str(warning.message)
    assert text.startswith(f"`{name}` at ") and text.index("# read") < text.index("# assigned")
    assert warning.filename == __file__ and f":{warning.lineno} has the value from before the task region" in text


@pytest.mark.parametrize("taken", [True, False])
def test_names_that_are_assigned_again_need_no_warning(taken):
    found, caught = simulated(assigns_anew, 4, TAKEN=taken)
    assert found == [11 if taken else 16, 8, 9, 1]
    assert [str(one.message)[:7] for one in caught] == ([] if taken else ["`other`"])


def test_a_name_that_has_no_value_is_refused_with_both_lines():
    with pytest.raises(triton.CompilationError, match="`fresh` is not defined after the task region") as caught:
        mimw.simulate(has_no_value, (1, ), np.zeros(4, np.int32))
    assert isinstance(caught.value, TaskError) and len(caught.value.sites) == 2
    assert "# assigned" in str(caught.value) and "# read" in str(caught.value) and "local_store" in caught.value.hint
