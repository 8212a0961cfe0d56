"""How often loops go round, by number and by what decides it."""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.analysis import Uses, loops_of, rounds
from mimw.runtime.simulate import prepare


@mimw.jit
def kernel(x_ptr, n_ptr, K, M, BK: tl.constexpr):
    """A loop over blocks, one over tiles with a loop inside, one without anything of ours, one that memory bounds, a `while`."""
    bar = tlx.alloc_barriers(2)
    other = tlx.alloc_barriers(1)
    for k in range(tl.cdiv(K, BK)):
        tlx.barrier_arrive(bar[k % 2])
    for tile in range(tl.program_id(0), M, tl.num_programs(0)):
        for k in range(BK, K, BK):
            tlx.barrier_arrive(other[0])
    for k in range(K):
        tl.store(x_ptr + k, 1.0)
    for k in range(tl.load(n_ptr)):
        tlx.barrier_arrive(other[0])
    count = 0
    while count < K:
        tlx.barrier_arrive(other[0])
        count += 1


def ready(K=200, M=10, BK=64):
    launch = prepare(kernel, 4, (np.zeros(256, np.float32), np.zeros(1, np.int32), K, M, BK), {})
    return launch.program, {param.name: param.value for param in launch.program.params}


def test_what_decides():
    program, named = ready()
    blocks, tiles, inner, by_memory, loop = loops_of(program)
    assert [one.known for one in (blocks, tiles, inner, by_memory, loop)] == [True, True, True, False, False]
    assert blocks.parameters == {named["K"]} and not blocks.by_program and {root.name for root in blocks.arrays} == {"bar"}
    assert tiles.parameters == {named["M"]} and tiles.by_program and tiles.by_grid and not tiles.arrays
    assert inner.around == (tiles.op, ) and {root.name for root in inner.arrays} == {"other"}


def test_numbers():
    program, named = ready()
    blocks, tiles, inner, by_memory, loop = loops_of(program)

    def count(one, index=0, grid=(4, ), **sizes):
        values = {named["K"]: 200, named["M"]: 10, **{named[name]: size for name, size in sizes.items()}}
        return rounds(program, one, values, grid, (index, ), Uses(program))

    assert [count(blocks, K=size) for size in (0, 1, 64, 65, 200)] == [0, 1, 1, 2, 4]
    assert [count(tiles, index) for index in range(4)] == [3, 3, 2, 2] and count(tiles, grid=(2, )) == 5
    assert [count(inner, K=size) for size in (0, 64, 65, 200)] == [-1, 0, 1, 3]
    assert count(by_memory) is None and count(loop) is None
