"""Program order: Triton's barriers stand between every two accesses through pointers that may touch one element."""

import re

import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from tests.compiling import to_assembly

ACCESS = re.compile(r"\b(?:ld|st|atom|red|ldmatrix|stmatrix)\.\S*shared\S*")


@mimw.jit
def access(buffer, at, KIND: tl.constexpr, x):
    """One access by each thread to another thread's element, whose result goes to `x`."""
    turned = tle.gpu.local_ptr(buffer, (255 - at, ))
    if KIND == "view store":
        tl.store(tle.gpu.local_ptr(buffer), tl.load(x + at))
    elif KIND == "view load":
        tl.store(x + at, tl.load(tle.gpu.local_ptr(buffer)))
    elif KIND == "gather":
        tl.store(x + at, tl.load(turned))
    elif KIND == "scatter":
        tl.store(turned, tl.load(x + at))
    elif KIND == "masked scatter":
        tl.store(turned, tl.load(x + at), mask=at > 7)
    elif KIND == "scalar load":
        tl.store(x, tl.load(tle.gpu.local_ptr(buffer, (77, ))))
    elif KIND == "scalar store":
        tl.store(tle.gpu.local_ptr(buffer, (77, )), tl.load(x))
    elif KIND == "add":
        tl.atomic_add(turned, tl.load(x + at))
    elif KIND == "swap":
        tl.store(x + at, tl.atomic_cas(turned, tl.load(x + at), tl.load(x + 256 + at)))


@mimw.jit
def one_then_each(x, ONE: tl.constexpr, OTHERS: tl.constexpr, BITS: tl.constexpr):
    """Pairs of accesses, each in a buffer of its own, and between pairs a fence that is found in the text."""
    at = tl.arange(0, 256)
    for number in tl.static_range(len(OTHERS)):
        buffer = tle.gpu.alloc([256], tl.int16 if BITS == 16 else tl.int32)
        access(buffer, at, ONE, x)
        access(buffer, at, OTHERS[number], x + 1024)
        tlx.fence("gpu")


READS = ["view load", "gather", "scalar load"]
WRITES = ["view store", "scatter", "masked scatter", "scalar store", "add", "swap"]


def others(one: str, bits: int) -> tuple[str, ...]:
    """What is paired with an access: not two reads; of two sums nobody looks at the order."""
    return tuple(other for other in READS + WRITES if (one in WRITES or other in WRITES) and (one, other) != ("add", "add")
                 and (bits == 32 or "add" not in (one, other)))


@pytest.mark.long(everywhere=True, but=[
    "add-32", "gather-32", "masked scatter-16", "scalar load-16", "scalar store-16", "scatter-16", "swap-16", "view load-16",
    "view store-32"])
@pytest.mark.parametrize("one, bits", [(one, bits) for one in READS + WRITES for bits in (32, 16) if others(one, bits)])
def test_a_barrier_stands_between(one, bits):
    done = to_assembly(one_then_each, {"x": f"*i{bits}"}, dict(ONE=one, OTHERS=others(one, bits), BITS=bits), "sm_90a")
    *pairs, behind = done.stage("ptx").split("fence.acq_rel.gpu")
    assert len(pairs) == len(others(one, bits)) and not ACCESS.search(behind)
    for other, pair in zip(others(one, bits), pairs):
        lines = [line for line in pair.splitlines() if ACCESS.search(line) or "bar.sync" in line]
        text = "".join("|" if "bar.sync" in line else "x" for line in lines)
        assert re.fullmatch(r"\|*x[x|]*\|[x|]*x\|*", text), other
        assert len([part for part in text.split("|") if part]) >= 2, other


@mimw.jit
def round_and_round(x, rounds, KIND: tl.constexpr):
    """A read at the top of a loop, a write at its end: of the round before."""
    buffer = tle.gpu.alloc([256], tl.int32, init_value=tl.zeros([256], tl.int32))
    at = tl.arange(0, 256)
    for i in range(rounds):
        tl.store(x + i * 256 + at, tl.load(tle.gpu.local_ptr(buffer, (255 - at, ))))
        access(buffer, at, KIND, x)


@pytest.mark.parametrize("kind", WRITES)
def test_loops_have_two(kind):
    ptx = to_assembly(round_and_round, {"x": "*i32", "rounds": "i32"}, dict(KIND=kind), "sm_90a").stages["ptx"]
    loop = re.search(r"(\$L__BB0_\d+):(?:(?!\$L__BB0_\d+:).)*?bra(?:\.uni)? \t?\1", ptx, re.S)
    assert loop is not None and loop[0].count("bar.sync") >= 2
