"""Rotary position embedding of one tensor or of two in one launch: plain Triton, each number read once and written once.

Input: x [BATCH, HEADS, LENGTH, DIM], cos and sin [BATCH or 1, TABLE, HALF]. Output: y of x's shape, which may be x. For example:

    kernel, grid, args, meta = arguments((q, k), (q_out, k_out), cos, sin)
    kernel[grid](*args, **meta)

A program takes POSITIONS x HEADS_EACH rows, whose angles it reads once for all its heads. A pair of numbers (a, b) turns by its
angle: (a cos - b sin, a sin + b cos). The thread that writes a number has read its pair before, so y may lie where x does.
"""

from collections import namedtuple
from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

# Positions and columns of q and k, of which the first 2 half turn; rows of the tables; heads of q and of k.
Shape = namedtuple("Shape", "length dim half table heads k_heads")
# The distances of a tensor's batches, heads and positions; of a table's batches and rows; of all of a launch.
TensorSteps = namedtuple("TensorSteps", "batch head position")
TableSteps = namedtuple("TableSteps", "batch row")
Steps = namedtuple("Steps", "q k q_out k_out cos sin positions")


@tle.struct
class RopeForm:
    """The constants of a launch: the positions and heads of a program; HALF and REST hold the columns that turn, and those that do
    not; BACK: by the negative angles."""
    POSITIONS: tl.constexpr
    HEADS_EACH: tl.constexpr
    HALF: tl.constexpr
    REST: tl.constexpr
    INTERLEAVED: tl.constexpr
    BACK: tl.constexpr


@tle.struct
class Tensor:
    """A tensor [BATCH, HEADS, LENGTH, DIM] and the distances of its batches, heads and positions."""
    pointer: tl.tensor
    batch: Any
    head: Any
    position: Any

    @mimw.jit
    def rows(self, batch, heads, positions):
        """Pointers to the first columns of some heads and positions of a batch."""
        return self.pointer + (batch * self.batch + heads.to(tl.int64) * self.head + positions * self.position)


@mimw.jit
def tensor_at(pointer, steps):
    """The tensor of these distances."""
    return Tensor(pointer, steps.batch, steps.head, steps.position)


@tle.struct
class Table:
    """A table [BATCH, TABLE, HALF] of cosines or sines, and the distances of its batches and rows."""
    pointer: tl.tensor
    batch: Any
    row: Any


@tle.struct
class Rotation:
    """The angles of some positions, and which columns turn by them: the first 2 half of DIM, which fit into 2 HALF; the others, if
    any, into REST."""
    cos: tl.tensor
    sin: tl.tensor
    half: Any
    DIM: Any
    HALF: tl.constexpr
    REST: tl.constexpr
    INTERLEAVED: tl.constexpr


@tle.struct
class Places:
    """Positions of a batch, of which LENGTH are there."""
    batch: tl.tensor
    positions: tl.tensor
    LENGTH: Any


@mimw.jit
def angles(table, batch, rows, columns, inside):
    """cos or sin [1, POSITIONS, HALF]: of rows outside of the table NaN, as nobody can raise an error here."""
    first = table.pointer + (batch * table.batch + rows * table.row)
    return tl.load(first + columns, mask=inside, other=float("nan")).to(tl.float32)[None]


@mimw.jit
def turn(x, y, heads_in_all, first, places, rotation, HEADS_EACH: tl.constexpr):
    """The rows of HEADS_EACH heads from number `first` on; with REST the columns that do not turn are copied."""
    heads = (first + tl.arange(0, HEADS_EACH))[:, None, None]
    positions = places.positions[None, :, None]
    there = (heads < heads_in_all) & (positions < places.LENGTH)
    x_ptr, y_ptr = x.rows(places.batch, heads, positions), y.rows(places.batch, heads, positions)
    cos, sin = rotation.cos, rotation.sin
    HALF: tl.constexpr = rotation.HALF
    if rotation.INTERLEAVED:
        columns = tl.arange(0, 2 * HALF)[None, None, :]
        inside = there & (columns < 2 * rotation.half)
        both = tl.load(x_ptr + columns, mask=inside).to(tl.float32)
        a, b = tl.split(tl.reshape(both, (HEADS_EACH, places.positions.shape[0], HALF, 2)))
        turned = tl.reshape(tl.join(a * cos - b * sin, a * sin + b * cos), (HEADS_EACH, places.positions.shape[0], 2 * HALF))
        tl.store(y_ptr + columns, turned.to(tlx.dtype_of(y.pointer)), mask=inside)
    else:
        columns = tl.arange(0, HALF)[None, None, :]
        inside = there & (columns < rotation.half)
        a = tl.load(x_ptr + columns, mask=inside).to(tl.float32)
        b = tl.load(x_ptr + rotation.half + columns, mask=inside).to(tl.float32)
        tl.store(y_ptr + columns, (a * cos - b * sin).to(tlx.dtype_of(y.pointer)), mask=inside)
        tl.store(y_ptr + rotation.half + columns, (a * sin + b * cos).to(tlx.dtype_of(y.pointer)), mask=inside)
    if rotation.REST > 0:
        columns = 2 * rotation.half + tl.arange(0, rotation.REST)[None, None, :]
        inside = there & (columns < rotation.DIM)
        tl.store(y_ptr + columns, tl.load(x_ptr + columns, mask=inside), mask=inside)


@mimw.jit
def rope(q_ptr, k_ptr, q_out_ptr, k_out_ptr, cos_ptr, sin_ptr, positions_ptr, shape, steps, FORM: tl.constexpr):
    """Program (batch and block of positions, block of heads of q and then of k); k may be None. The last three arguments are a
    `Shape`, `Steps` and a `RopeForm`."""
    blocks = tl.cdiv(shape.length, FORM.POSITIONS)
    batch = (tl.program_id(0) // blocks).to(tl.int64)
    positions = tl.program_id(0) % blocks * FORM.POSITIONS + tl.arange(0, FORM.POSITIONS)
    rows = positions
    if positions_ptr is not None:
        rows = tl.load(positions_ptr + batch * steps.positions + positions, mask=positions < shape.length, other=0)
    rows = rows.to(tl.int64)[:, None]
    columns = tl.arange(0, FORM.HALF)[None, :]
    inside = (rows >= 0) & (rows < shape.table) & (columns < shape.half)
    cos = angles(Table(cos_ptr, steps.cos.batch, steps.cos.row), batch, rows, columns, inside)
    sin = angles(Table(sin_ptr, steps.sin.batch, steps.sin.row), batch, rows, columns, inside)
    if FORM.BACK:
        sin = -sin
    places = Places(batch, positions.to(tl.int64), shape.length)
    rotation = Rotation(cos, sin, shape.half, shape.dim, FORM.HALF, FORM.REST, FORM.INTERLEAVED)
    block = tl.program_id(1)
    of_q = tl.cdiv(shape.heads, FORM.HEADS_EACH)
    if block < of_q:
        q, q_out = tensor_at(q_ptr, steps.q), tensor_at(q_out_ptr, steps.q_out)
        turn(q, q_out, shape.heads, block * FORM.HEADS_EACH, places, rotation, FORM.HEADS_EACH)
    if k_ptr is not None:
        if block >= of_q:
            k, k_out = tensor_at(k_ptr, steps.k), tensor_at(k_out_ptr, steps.k_out)
            turn(k, k_out, shape.k_heads, (block - of_q) * FORM.HEADS_EACH, places, rotation, FORM.HEADS_EACH)
