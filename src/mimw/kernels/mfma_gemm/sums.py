"""Sums of a tile in registers: where they begin, and their way out.

Input: the form of a launch, sums. Output: zeros; C is written. For example:

    acc = sums_of(FORM, 128, 256)               zeros, in the layout of the chip's matrix instructions
    c.store(acc, 0, 0)                          act(alpha row_scale column_scale acc + bias), from row 0 and column 0 of the tile on
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..gemm.epilogue import Epilogue, activated, finished


@mimw.jit
def sums_of(FORM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Zeros."""
    if FORM.SUMS is None:
        return tl.zeros((ROWS, COLUMNS), tl.float32)
    return tlx.zeros((ROWS, COLUMNS), tl.float32, layout=FORM.SUMS)


@tle.struct
class Output:
    """C, rows `step` elements apart, from row m and column n on, and what is done to sums on their way there. A BLOCK of rows and
    columns is written at once, of which a lane has 16 sums; None for all, if the compiler has laid out sums."""
    c: Any
    m: Any
    n: Any
    step: Any
    problem: Any
    epilogue: Epilogue
    BLOCK: tl.constexpr

    @mimw.jit
    def store(self, sums, row: tl.constexpr, column: tl.constexpr):
        """Write a part of the tile from where it was summed up, which takes no LDS, one block after the other: what is done to all
        sums at once would not fit the registers beside them."""
        if self.BLOCK is None:
            self.store_block(sums, row, column)
        else:
            ROWS: tl.constexpr = min(self.BLOCK[0], sums.shape[0])
            COLUMNS: tl.constexpr = min(self.BLOCK[1], sums.shape[1])
            for down in tl.static_range(0, sums.shape[0], ROWS):
                for across in tl.static_range(0, sums.shape[1], COLUMNS):
                    part = tlx.extract_slice(sums, [ROWS, COLUMNS], [down, across])
                    self.store_block(part, row + down, column + across)
                    tlx.amd_sched_barrier(0)

    @mimw.jit
    def store_block(self, sums, row: tl.constexpr, column: tl.constexpr):
        y = activated(finished(sums, self.epilogue, self.m + row, self.n + column, self.problem), self.epilogue.ACTIVATION)
        rows, columns = row + tl.arange(0, sums.shape[0]), column + tl.arange(0, sums.shape[1])
        there = self.c + self.m.to(tl.int64) * self.step + self.n
        inside = (rows < self.problem.M - self.m)[:, None] & (columns < self.problem.N - self.n)[None, :]
        tlx.buffer_store(y.to(tlx.dtype_of(self.c)), there, rows[:, None] * self.step + columns[None, :], mask=inside)
