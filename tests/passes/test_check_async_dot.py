"""Results of asynchronous dots before and after their wait."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.passes import check_async_dot
from mimw.errors import AsyncDotOverwritten, AsyncDotReadEarly
from mimw.target import target
from tests.analysis.building import ACC, Kernel

SM90 = target("sm_90a")


class Dots(Kernel):

    def __init__(self):
        super().__init__()
        self.a, self.b = self.buffers("a", 0), self.buffers("b", 0, (64, 128))

    def dot(self, acc=None, named="acc"):
        return self.op("async_dot", self.a, self.b, acc, "tf32", 0, type=ACC, named=named)

    def wait_dots(self, pending, value):
        return self.op("async_dot_wait", pending, value, named="done")

    def use(self, value):
        self.op("fneg", value)

    def refused(self) -> str:
        with pytest.raises(AsyncDotReadEarly) as caught:
            check_async_dot(self.program(), SM90)
        return str(caught.value)

    def accepted(self) -> bool:
        return check_async_dot(self.program(), SM90) is None


def test_a_use_before_the_wait():
    k = Dots()
    acc = k.at(5).dot()
    k.at(6).use(acc)
    text = k.refused()
    assert text.splitlines()[:2] == [
        "AsyncDotReadEarly at kernel.py:6: 'fneg' uses 'acc' while the asynchronous dot at kernel.py:5 is still computing it.",
        "Mend: pass the result through async_dot_wait(0, ...) first; until then it may only be the accumulator of another "
        "async_dot or be carried through a loop.",
    ]
    assert text.splitlines()[2:] == ["kernel.py:6", "kernel.py:5"]


def test_a_use_after_the_wait():
    k = Dots()
    k.use(k.wait_dots(0, k.dot()))
    assert k.accepted()


def test_a_chain_of_accumulators():
    k = Dots()
    k.use(k.wait_dots(0, k.dot(k.dot(k.dot()))))
    assert k.accepted()


def test_it_may_not_be_an_operand_of_a_dot():
    k = Dots()
    acc = k.dot()
    k.op("async_dot", acc, k.b, None, "tf32", 0, type=ACC)
    assert "'async_dot' uses 'acc'" in k.refused()


def loop_over_dots(wait_after):
    k = Dots()
    with k.loop(4, [k.tile()]) as (_, (acc, )):
        k.carry(k.at(7).dot(acc))
    result = k.results[0]
    k.at(9).use(k.wait_dots(0, result) if wait_after else result)
    return k


def test_a_loop_that_carries_it():
    assert loop_over_dots(wait_after=True).accepted()
    assert "kernel.py:9: 'fneg' uses a value while the asynchronous dot at kernel.py:7" in loop_over_dots(False).refused()


def test_a_use_at_the_start_of_the_next_round():
    k = Dots()
    with k.loop(4, [k.tile()]) as (_, (acc, )):
        k.at(6).use(acc)
        k.carry(k.at(7).dot(acc))
    assert "kernel.py:6" in k.refused()


def rounds_behind(pending):
    """`acc = async_dot(a, b, acc); acc = async_dot_wait(pending, acc)` in a loop, used after it."""
    k = Dots()
    with k.loop(4, [k.tile()]) as (_, (acc, )):
        running = k.at(7).dot(acc)
        k.carry(k.at(8).wait_dots(pending, running))
    k.at(9).use(k.results[0])
    return k


def test_a_wait_that_leaves_the_newest_dot_running():
    assert rounds_behind(0).accepted()
    assert rounds_behind(1).refused().splitlines()[:2] == [
        "AsyncDotReadEarly at kernel.py:9: 'fneg' uses a value, which async_dot_wait(1, ...) at kernel.py:8 has not finished: the "
        "dot at kernel.py:7 is among the newest 1, which that wait leaves running.",
        "Mend: wait with async_dot_wait(0, ...) before this use.",
    ]


@pytest.mark.parametrize("pending, right", [(0, True), (1, True), (2, False)])
def test_a_newer_dot_may_go_on(pending, right):
    k = Dots()
    scores = k.dot(named="scores")
    acc = k.dot(named="acc")
    k.use(k.wait_dots(pending, scores))
    k.wait_dots(0, acc)
    if right:
        assert k.accepted()
    else:
        assert "'fneg' uses 'done'" in k.refused()


def test_an_if_that_hands_it_on():
    k = Dots()
    acc = k.at(4).dot()
    op = k.regions("if", k.number(1), (ACC, ))
    k.block(op, lambda: (acc, ))
    k.block(op, lambda: (acc, ))
    k.at(8).use(op.results[0])
    assert "kernel.py:8" in k.refused()


def test_a_while_that_hands_it_on():
    k = Dots()
    op = k.regions("while", (k.tile(), ))
    with k.inside(op, (ACC, )) as (before, ):
        k.op("condition", k.number(1), (before, ))
    with k.inside(op, (ACC, )) as (after, ):
        k.op("yield", (k.at(7).dot(after), ))
    k.at(9).use(op.results[0])
    assert "kernel.py:9: 'fneg' uses a value while the asynchronous dot at kernel.py:7" in k.refused()


# ---- the operand that lies in registers ------------------------------------------------------------------------------------------


@mimw.jit
def of_registers(x_desc, y_desc, out, K, PENDING: tl.constexpr):
    """A is computed, so it lies in registers; B lies in shared memory."""
    y = tlx.local_alloc((64, 64), tl.float16, 2)
    full = tlx.alloc_barriers(2)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        at = (k // 64) % 2
        tlx.barrier_expect_bytes(full[at], 64 * 64 * 2)
        tlx.async_descriptor_load(y_desc, y[at], [k, 0], full[at])
        tlx.barrier_wait(full[at], (k // 128) & 1)
        a = (x_desc.load([0, k]) * 2.0).to(tl.float16)
        acc = tlx.async_dot(a, y[at], acc)
        acc = tlx.async_dot_wait(PENDING, acc)
    acc = tlx.async_dot_wait(0, acc)
    tl.store(out + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)


def compiled(pending):
    describe = mimw.TensorDescriptor.from_tensor
    x, y = np.zeros((64, 256), np.float16), np.zeros((256, 64), np.float16)
    args = describe(x, [64, 64]), describe(y, [64, 64]), np.zeros((64, 64), np.float32), 256
    return mimw.compile(of_registers, (1, ), *args, PENDING=pending, num_warps=4, target="sm_90a")


def test_a_trip_does_not_write_registers_that_the_dot_before_still_reads():
    with pytest.raises(AsyncDotOverwritten, match="may still read them"):
        compiled(1)
    assert compiled(0).registers
