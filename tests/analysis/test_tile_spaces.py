"""Where tiles lie on a chip without registers for them: what is loaded, multiplied, rounded, carried and only points."""

import functools

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.compiler.analysis.tile_spaces import TileSpaces
from mimw.runtime.simulate import prepare


@mimw.jit
def kernel(x, y, z, n):
    rows = tl.arange(0, 16)
    at = rows[:, None] * 16 + rows[None, :]
    left = tle.dsa.alloc([16, 16], tl.float16, tle.dsa.ascend.L1)
    tle.dsa.copy(x + at, left, [16, 16])
    total = tl.zeros([16, 16], tl.float32)
    loaded = tl.load(y + at)
    for k in range(n):
        total = tl.dot(tle.dsa.to_tensor(left), loaded, total)
        loaded = tl.load(y + k + at)
    rounded = total.to(tl.float16)
    scaled = rounded.T * 2.0
    both = tl.where(rows[:, None] < 8, scaled, loaded)
    tl.store(z + at, rounded)
    tl.store(z + at, both)


@functools.cache
def found():
    x = np.zeros(256, np.float16)
    program = prepare(kernel, (1, ), (x, x, x, 3), {}, "ascend_910b").program
    return {value.name: value for op in program.walk() for value in op.results if value.name}, TileSpaces(program)


def test_spaces():
    """A sum of products stays in L0C over the loop, and when it is rounded; a vector lies in UB, and so does what joins both."""
    values, spaces = found()
    assert {name: spaces.of(values[name]) for name in ("loaded", "total", "rounded", "scaled", "both")} == {
        "loaded": "global", "total": "l0c", "rounded": "l0c", "scaled": "ub", "both": "ub"}


def test_what_only_points_lies_nowhere():
    values, spaces = found()
    assert spaces.of(values["at"]) is None and not spaces.is_data(values["at"])
    assert spaces.is_data(values["rows"]) and spaces.is_data(values["loaded"])      # rows are compared for `both`
