"""What an Ascend core cannot hold, move or compute is refused at the author's line; what it can, runs."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.errors import AliasError, IllegalPath, OutOfLocalMemory, PartlyOverwritten
from mimw.target import target

CHIP = "ascend_910b"
UB, L1, L0A, L0B, L0C = (getattr(tle.dsa.ascend, name) for name in ("UB", "L1", "L0A", "L0B", "L0C"))


@mimw.jit
def moves(x, y, FROM: tl.constexpr, TO: tl.constexpr, HOW: tl.constexpr):
    """16 x 16 numbers from `x`, by way of the memory FROM, and on as HOW says."""
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    a = tle.dsa.alloc([16, 16], tl.float16, FROM)
    tle.dsa.copy(x + at, a, [16, 16])
    tile = tle.dsa.to_tensor(a)
    if HOW == "to_buffer":
        b = tle.dsa.to_buffer(tile.T, TO)
        tle.dsa.copy(b, y + at, [16, 16])
    if HOW == "store":
        tl.store(y + at, tile)
    if HOW == "vector":
        tl.store(y + at, tile + tile)
    if HOW == "add":
        tle.dsa.add(a, a, a)
        tle.dsa.copy(a, y + at, [16, 16])
    if HOW == "dot":
        b = tle.dsa.alloc([16, 16], tl.float16, TO)
        tle.dsa.copy(x + at, b, [16, 16])
        c = tle.dsa.to_buffer(tl.dot(tile, tle.dsa.to_tensor(b)).to(tl.float16), L0C)
        tle.dsa.copy(c, y + at, [16, 16])
    if HOW == "overlap":
        upper = tle.dsa.subview(a, [8, 0], [8, 16], [1, 1])
        tle.dsa.mul(tle.dsa.subview(a, [4, 0], [8, 16], [1, 1]), upper, upper)


@mimw.jit
def shifted(x, at):
    """The first 24 elements added to the 24 from `at` on, which only a run knows."""
    a = tle.dsa.alloc([64], tl.float32, tle.dsa.ascend.UB)
    tle.dsa.copy(x + tl.arange(0, 64), a, [64])
    there = tle.dsa.subview(a, [at], [24], [1])
    tle.dsa.add(tle.dsa.subview(a, [0], [24], [1]), there, there)


def run(source, to, how, chip=CHIP):
    x = np.random.default_rng(2).standard_normal((16, 16)).astype(np.float16)
    y = np.zeros_like(x)
    mimw.simulate(moves, (1, ), x, y, FROM=source, TO=to, HOW=how, target=chip)
    return x, y


def test_what_a_core_can_do():
    """By MTE2 into each memory but L0C; out of UB by MTE3; products of L1 and L0 leave by FixPipe, which rounds them."""
    x, y = run(UB, UB, "to_buffer")
    assert (y == x.T).all()
    x, y = run(UB, UB, "vector")
    assert (y == x + x).all()
    x, y = run(L1, L1, "store")
    assert (y == x).all()
    for left, right in ((L0A, L0B), (L1, L0B)):
        x, y = run(left, right, "dot")
        np.testing.assert_allclose(y, (x.astype(np.float32) @ x.astype(np.float32)), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("source, to, how, line, said, mend", [
    (UB, L1, "to_buffer", "to_buffer(tile.T, TO)", "a tensor cannot go from the unified buffer .* to the L1 buffer",
     "ub -MTE3-> global -MTE2-> l1"),
    (L1, UB, "to_buffer", "to_buffer(tile.T, TO)",
     "Out of l1 go MTE1 to l0a, MTE1 to l0b, MTE3 to global; into ub go MTE2 from global", "l1 -MTE3-> global -MTE2-> ub"),
    (L0C, UB, "store", "copy(x + at, a", "a copy cannot go from global memory to the L0C buffer",
     "no engine copies from global to l0c"),
    (L0A, L0A, "store", "tl.store(y + at, tile)", "a tensor cannot go from the L0A buffer to global memory",
     "no engine copies from l0a"),
    (L1, L1, "add", "tle.dsa.add(a, a, a)", "the buffer 'a' in the L1 buffer cannot be computed with by 'tle.dsa.add'",
     "take it there first, l1 -MTE3-> global -MTE2-> ub"),
    (L0B, L0B, "vector", "tile + tile", "a tensor in the L0B buffer cannot be computed with .*; Cube units take it for tl.dot",
     "copy to ub what is to be computed with"),
    (UB, L0B, "dot", "tl.dot(tile", "operand a of a product cannot go from the unified buffer .* to the L0A buffer",
     "ub -MTE3-> global -MTE2-> l0a"),
    (L0B, L0B, "dot", "tl.dot(tile", "operand a of a product cannot go from the L0B buffer to the L0A buffer",
     "no engine copies from"),
])
def test_what_a_core_cannot_do(source, to, how, line, said, mend):
    with pytest.raises(IllegalPath, match=said) as caught:
        run(source, to, how)
    text = str(caught.value)
    assert mend in text and line in text.partition("Mend:")[2] and re.search(r"test_check_paths.py:\d+", text)


def test_overlap_is_refused_where_units_work_block_by_block():
    said = "`out`, elements 8 to 15, 0 to 15 of 'a', overlaps `lhs`, elements 4 to 11, 0 to 15 of 'a'"
    with pytest.raises(AliasError, match=said):
        run(UB, UB, "overlap")
    x = np.zeros(64, np.float32)
    mimw.simulate(shifted, (1, ), x, 40, target=CHIP)       # 0 to 23 and 40 to 63
    mimw.simulate(shifted, (1, ), x, 0, target=CHIP)        # in place
    with pytest.raises(PartlyOverwritten, match=r"'a'\[8:32\], overlaps `lhs`, 'a'\[0:24\]"):
        mimw.simulate(shifted, (1, ), x, 8, target=CHIP)


def test_nothing_of_it_on_a_gpu():
    """One source: on a GPU all of these are shared memory or registers."""
    x, y = run(UB, L1, "to_buffer", "sm_90a")
    assert (y == x.T).all()
    x, y = run(L1, L1, "add", "sm_90a")
    assert (y == x + x).all()
    run(UB, UB, "overlap", "sm_90a")


@mimw.jit
def two(x, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    first = tle.dsa.alloc([SIZE], tl.float32, tle.dsa.ascend.UB)
    second = tle.dsa.alloc([SIZE], tl.float32, tle.dsa.ascend.UB)
    tle.dsa.copy(x + at, first, [SIZE])
    tle.dsa.copy(x + at, second, [SIZE])
    tle.dsa.add(first, second, first)
    tle.dsa.copy(first, x + at, [SIZE])


def test_a_space_that_is_too_small_is_refused_with_its_map():
    with pytest.raises(OutOfLocalMemory) as caught:
        mimw.simulate(two, (1, ), np.zeros(32768, np.float32), SIZE=32768, target=CHIP)
    assert (caught.value.required, caught.value.limit) == (262144, target(CHIP).space("ub"))
    text = str(caught.value)
    assert ("262144 bytes of the unified buffer (UB) are needed together, but a vector core of ascend_910b has 196608: 65536 too"
            in text)
    assert re.search(r" 0 \.\. 131072  first +buffer  131072 bytes  \|\.*#+", text) and "131072 .. 262144  second" in text
    assert "blocks of a half of the size fit" in text and "first = tle.dsa.alloc" in text
    x = np.ones(16384, np.float32)
    mimw.simulate(two, (1, ), x, SIZE=16384, target=CHIP)
    assert (x == 2).all()
