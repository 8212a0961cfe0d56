"""Tile sources of a GEMM: how many output tiles there are, and where each of them lies.

Input: a problem and its tiles. Output: a struct with a few methods, which `roles.py` calls. For example:

    source = Batch(problem, tiles, length)
    source.count()              of all output tiles
    source.at(number).m         the first row of one of them; a place also has `moved(rows)`, so many rows further down, and
                                `box(columns)`, where TMA writes what lies so many columns to the right
    source.steps()              chunks of a tile, those of K
    source.load(inputs, chunk, operands, place)     starts the copies of them; the number of the next chunk
    source.first(turn), source.stride(turns)        the first tile of this program's consumer, and how many further on the next is
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from .operands import load_along
from .tiles import Problem, output_tiles, tile_origin


@tle.struct
class Place:
    """An output tile of a matrix."""
    m: Any
    n: Any

    @mimw.jit
    def moved(self, rows):
        return Place(self.m + rows, self.n)

    @mimw.jit
    def box(self, right):
        return [self.m, self.n + right]


@tle.struct
class PlaceInBatch:
    """An output tile of one of several matrices."""
    matrix: Any
    m: Any
    n: Any

    @mimw.jit
    def moved(self, rows):
        return PlaceInBatch(self.matrix, self.m + rows, self.n)

    @mimw.jit
    def box(self, right):
        return [self.matrix, self.m, self.n + right]


@tle.struct
class OneMatrix:
    """The output tiles of one matrix."""
    problem: Problem
    tiles: Any

    @mimw.jit
    def count(self):
        return output_tiles(self.problem.M, self.problem.N, self.tiles)

    @mimw.jit
    def at(self, number):
        m, n = tile_origin(number, self.problem.M, self.problem.N, self.tiles)
        return Place(m, n)

    @mimw.jit
    def first(self, turn):
        return tl.program_id(0) + turn * tl.num_programs(0)

    @mimw.jit
    def stride(self, turns):
        return turns * tl.num_programs(0)

    @mimw.jit
    def steps(self):
        return tl.cdiv(self.problem.K, self.tiles.BK)

    @mimw.jit
    def load(self, inputs, chunk, operands, at):
        return load_along(inputs, chunk, operands, at, self.problem.K, self.tiles.BK)


@tle.struct
class Batch(OneMatrix):
    """The output tiles of `length` matrices, matrix by matrix."""
    length: Any

    @mimw.jit
    def count(self):
        return self.length * output_tiles(self.problem.M, self.problem.N, self.tiles)

    @mimw.jit
    def at(self, number):
        each = output_tiles(self.problem.M, self.problem.N, self.tiles)
        m, n = tile_origin(number % each, self.problem.M, self.problem.N, self.tiles)
        return PlaceInBatch(number // each, m, n)
