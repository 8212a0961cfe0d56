"""Twice the lines cost about twice the CPU time: of recording and checking a kernel, and of lowering it to Triton's first module.

What Triton's passes take is not asked: of a chain of values between two accesses `tritongpu-coalesce` looks at every pair
(benchmarks/notes/compiler.md, "Very long kernels").
"""

import linecache
from dataclasses import replace

import pytest
import triton.language as tl

import mimw
from benchmarks.growth import MOST, seconds
from mimw import tlx
from mimw.compiler.lowering.emitter import Emitter
from mimw.runtime.compile_kernel import record_kernel
from tests.lowering.harness import Case

pytestmark = pytest.mark.usefixtures("little_to_collect")


def kernel_of(body: list[str]):
    """The kernel of these lines, as a file would have it."""
    text = "\n".join(["@mimw.jit", "def kernel(x):", *(f"    {line}" for line in body), ""])
    name = f"<{len(body)} lines of {body[-1]}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    scope = {"__name__": "long_kernels", "mimw": mimw, "tl": tl, "tlx": tlx}
    exec(compile(text, name, "exec"), scope)
    return scope["kernel"]


def handed(lines: int):
    """Two tasks that hand a barrier to each other: every wait could be for any arrival."""
    waits, arrivals = [], []
    for at in range(lines // 4):
        waits += [f"        tlx.barrier_wait(full[0], {at % 2})", "        tlx.barrier_arrive(free[0])"]
        arrivals += ["        tlx.barrier_arrive(full[0])", f"        tlx.barrier_wait(free[0], {at % 2})"]
    return kernel_of(["full, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1)", "with tlx.async_tasks():",
                      "    with tlx.async_task('default'):", *waits, "    with tlx.async_task(num_warps=4):", *arrivals])


def computed(lines: int):
    """Values from values, and now and then through a buffer."""
    steps = [f"v = v * {at}.5 + {at}.0" if at % 10 else "tlx.local_store(tile[0], v); v = tlx.local_load(tile[0])"
             for at in range(lines)]
    return kernel_of(["at = tl.arange(0, 128)", "tile = tlx.local_alloc((128, ), tl.float32, 1)", "v = tl.load(x + at)", *steps,
                      "tl.store(x + at, v)"])


def recorded(kernel) -> None:
    record_kernel(kernel, {"x": "*fp32"})


def lowered(kernel) -> None:
    Case(kernel, {"x": "*fp32"}).lowered()


@pytest.mark.parametrize("make, work, lines", [(handed, recorded, 500), (computed, recorded, 250), (computed, lowered, 250)])
def test_twice_the_lines_cost_twice(make, work, lines):
    kernels = make(lines), make(2 * lines)
    small, large = seconds(*(lambda kernel=kernel: work(kernel) for kernel in kernels), rounds=1,
                           enough=lambda best: best[1] <= MOST * best[0])
    assert large <= MOST * small, f"{lines} lines take {small:.3f} s, {2 * lines} take {large:.3f} s, {large / small:.2f} x"


class Whole(tuple):
    """Ops of a block, of which nobody takes a part: a part for each op is a square."""

    def __getitem__(self, at):
        assert not isinstance(at, slice), "a copy of the ops of a block"
        return super().__getitem__(at)


def test_no_op_takes_a_copy_of_those_behind_it(monkeypatch):
    emit = Emitter.block
    monkeypatch.setattr(Emitter, "block", lambda self, block: emit(self, replace(block, ops=Whole(block.ops))))
    lowered(computed(20))
