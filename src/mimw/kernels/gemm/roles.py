"""The roles of a GEMM, whatever its tile source, its operands and its output are: one warp loads, warpgroups multiply and store.

Input: three nouns (sources.py, operands.py, output.py) and `Tiles`. Output: C is written. For example, all of a kernel:

    operands = Operands(a_desc, b_desc, B_IS_NK)
    inputs = input_pipe(operands, tiles, STAGES)
    run_roles(inputs, OneMatrix(problem, tiles), operands, output(c_desc, tiles))

Program p computes the tiles p, p + programs, ... of the source; `load_stolen` (stolen.py) and `compute_stolen` those that it steals
from a counter. A kernel with another order has loops of its own (the last round's tiles cut along K in kernel.py, groups whose
sizes only the device knows), and takes from here what is the same.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers, one_of_consumers, open_turns
from ..stolen import draws, first_tile, next_tile
from .product import multiply
from .tiles import part_of


@mimw.jit
def input_pipe(operands, tiles, STAGES: tl.constexpr):
    """The pipe whose chunk holds a BM x BK tile of A and the BK x BN tile of B that goes with it."""
    A_SHAPE: tl.constexpr = (STAGES, tiles.BK, tiles.BM) if tiles.A_IS_KM else (STAGES, tiles.BM, tiles.BK)
    B_SHAPE: tl.constexpr = (STAGES, tiles.BN, tiles.BK) if tiles.B_IS_NK else (STAGES, tiles.BK, tiles.columns_of_b())
    readers: tl.constexpr = one_of_consumers(tiles.CONSUMERS) if tiles.PING_PONG else consumers(tiles.CONSUMERS)
    return tle.pipe(capacity=STAGES, readers=readers, name="inputs",
                    a=tle.gpu.alloc(A_SHAPE, tlx.dtype_of(operands.a_desc)),
                    b=tle.gpu.alloc(B_SHAPE, tlx.dtype_of(operands.b_desc)))


@mimw.jit
def load_tiles(inputs, source, operands):
    """Tiles of A and B along K, for one output tile of this program after the other."""
    chunk = 0
    for number in range(tl.program_id(0), source.count(), tl.num_programs(0)):
        chunk = source.load(inputs, chunk, operands, source.at(number))


@mimw.jit
def compute_tiles(inputs, source, out, part):
    """The output tiles of a consumer: all of its rows in ping-pong, its share of the rows of each tile otherwise."""
    steps = source.steps()
    chunk = part.TURN * steps
    if part.PING_PONG:
        open_turns(part.me, part.CONSUMERS)
    for number in range(source.first(part.TURN), source.count(), source.stride(part.TURNS)):
        acc = multiply(inputs, chunk, steps, part)
        out.store(acc, source.at(number).moved(part.ROW), part)
        chunk += part.TURNS * steps
    tlx.async_descriptor_store_wait(0)


@tle.struct
class Loader:
    """The producer: tiles of A and B along K, for one output tile after the other."""
    inputs: tle.pipe_writer
    source: Any
    operands: Any

    @mimw.jit
    def load(self, chunk, at):
        return self.source.load(self.inputs, chunk, self.operands, at)


@mimw.jit
def compute_stolen(inputs, source, out, part, order):
    """The output tiles of a consumer among those that its program steals."""
    steps, turn, draw = source.steps(), 0, first_tile(order)
    if part.PING_PONG:
        open_turns(part.me, part.CONSUMERS)
    while draw < draws(source, part.TURNS):
        number = draw * part.TURNS + part.TURN
        if number < source.count():
            acc = multiply(inputs, (turn * part.TURNS + part.TURN) * steps, steps, part)
            out.store(acc, source.at(number).moved(part.ROW), part)
        turn += 1
        draw = next_tile(draw, order, turn)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def run_roles(inputs, source, operands, out):
    """The producer and the consumers of a kernel, side by side."""
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=source.tiles.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute_tiles(inputs.reader(consumer(me)), source, out, part_of(source.tiles, me))
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load_tiles(inputs.writer(), source, operands)
