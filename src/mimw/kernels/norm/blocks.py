"""Rows in the registers of a program, block by block: what the direct forms of norms, softmax, cross entropy and their gradients
have in common.

Input: matrices [ROWS, N], of which a program, or a cluster of them, takes a few rows. Output: blocks of rows in fp32. For example:

    FORM = DirectForm(4, 1024, 1, 1)                        a launch's constants, made outside of the kernel
    span = span_of(rank * (FORM.BLOCK * FORM.LOOPS), rows_inside, N, FORM)
    block = block_of(span, i)                   columns number i * BLOCK on of this program's part
    tile = Lines(x, rows * x_step).read(block)
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@tle.struct
class DirectForm:
    """The constants of a launch: ROWS_EACH rows for each CLUSTER of CTAs, of which each has LOOPS blocks of BLOCK columns."""
    ROWS_EACH: tl.constexpr
    BLOCK: tl.constexpr
    LOOPS: tl.constexpr
    CLUSTER: tl.constexpr


@tle.struct
class Span:
    """A program's part of its ROWS_EACH rows of N columns: LOOPS blocks of BLOCK columns, from column `first` on. `inside` says
    which rows there are, in a column."""
    first: Any
    inside: tl.tensor
    N: Any
    ROWS_EACH: tl.constexpr
    BLOCK: tl.constexpr
    LOOPS: tl.constexpr


@tle.struct
class Block:
    """Columns of a span, and where they are in a row that is there."""
    columns: tl.tensor
    inside: tl.tensor
    N: Any

    @mimw.jit
    def of_vector(self, pointer):
        """These columns of N numbers, in fp32; 0 outside."""
        return tl.load(pointer + self.columns, mask=self.columns < self.N, other=0).to(tl.float32)


@tle.struct
class Lines:
    """Rows of a matrix, at offsets from its pointer, which is None where there is no such matrix."""
    pointer: tl.tensor | None
    offsets: tl.tensor

    @mimw.jit
    def at(self, block):
        """Pointers to the elements of a block."""
        return self.pointer + self.offsets + block.columns

    @mimw.jit
    def read(self, block):
        """A block in fp32, 0 outside."""
        return tl.load(self.at(block), mask=block.inside, other=0).to(tl.float32)

    @mimw.jit
    def write(self, block, tile):
        """A block, rounded to the type of the matrix."""
        tl.store(self.at(block), tile.to(tlx.dtype_of(self.pointer)), mask=block.inside)


@mimw.jit
def span_of(first, inside, N, FORM: tl.constexpr):
    """The part of a CTA that begins at column `first`, of rows of N columns."""
    return Span(first, inside, N, FORM.ROWS_EACH, FORM.BLOCK, FORM.LOOPS)


@mimw.jit
def block_of(span, i):
    """Block number i of a span."""
    columns = (span.first + i * span.BLOCK + tl.arange(0, span.BLOCK))[None, :]
    return Block(columns, span.inside & (columns < span.N), span.N)


@mimw.jit
def zeros_of(span):
    """A block of zeros."""
    return tl.zeros((span.ROWS_EACH, span.BLOCK), tl.float32)
