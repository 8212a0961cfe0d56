"""What decides the course of a kernel, and what is only data."""

import numpy as np
import triton.language as tl

import mimw
from mimw.compiler.analysis.needed import needed
from mimw.runtime.simulate import prepare
from tests.kernels.drawn_tiles import drawn
from tests.kernels.product import product_case
from tests.kernels.rounds_by_data import branches, told_in_tiles, until_small


def found_in(kernel, args, meta):
    program = prepare(kernel, (1, ), args, meta).program
    return program, needed(program)


def names(program, found):
    """Names of ops that are needed, and of those that are not."""
    ops = [op for op in program.walk() if op.results]
    yes = [op for op in ops if found.values & set(op.results)]
    return {op.name for op in yes}, {op.name for op in ops if op not in yes}


def test_indices_and_phases_are_needed_and_tiles_are_not():
    kernel, _, args, meta = product_case()
    program, found = found_in(kernel, args, meta)
    yes, no = names(program, found)
    assert {"srem", "sdiv", "buffer_index", "barrier_index"} <= yes
    assert {"async_dot", "async_dot_wait"} <= no and not {"async_dot", "addptr"} & yes
    assert not found.unknown and not found.bounds


def test_a_number_that_goes_through_shared_memory_is_needed():
    program, found = found_in(drawn, (np.zeros(1, np.int32), np.zeros(8, np.int32), 8), dict(LIMIT=8))
    yes, _ = names(program, found)
    assert {"atomic_rmw", "local_load", "reduce"} <= yes and not found.bounds
    stored = next(op for op in program.walk() if op.name == "local_store")
    assert stored.args[1] in found.values


def test_branches_on_data_are_unknown_and_others_not():
    program, found = found_in(branches, (np.zeros(128, np.float32), np.zeros(128, np.float32), 5), dict(SIZE=128))
    ifs = [op for op in program.walk() if op.name == "if"]
    assert [op in found.unknown for op in ifs] == [False, True]
    assert ifs[0].args[0] in found.values and ifs[1].args[0] not in found.values


def test_bounds_on_data_name_their_line():
    arrays = np.zeros(128, np.float32), np.zeros(128, np.float32)
    _, copied = found_in(until_small, arrays, dict(SIZE=128, COPIED=True))
    _, loaded = found_in(until_small, arrays, dict(SIZE=128, COPIED=False))
    assert len(copied.bounds) == 1 and copied.bounds[0].file.endswith("rounds_by_data.py") and not loaded.bounds


def test_a_product_that_atomics_add_is_not_needed():
    """Nobody computes it, so what is made of it cannot be made either."""
    @mimw.jit
    def added(x, y):
        at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
        tl.atomic_add(y + at, tl.dot(tl.load(x + at), tl.load(x + at)).to(tl.float16))

    x, y = np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float16)
    yes, no = names(*found_in(added, (x, y), {}))
    assert not yes & {"dot", "fp_trunc", "addptr"} and {"dot", "fp_trunc", "addptr"} <= no
    assert mimw.predict(added, (1, ), x, y, target="gfx950").microseconds > 0


def test_a_box_whose_place_follows_from_a_product_is_timed_all_the_same():
    """Nobody computes the sum, so nobody knows the offset; the other one, and which trips there are, are known."""
    @mimw.jit
    def placed(a_desc, b_desc, c_desc, K):
        acc = tl.zeros((64, 64), tl.float32)
        for k in range(0, K, 64):
            at = tl.where(tl.max(tl.max(acc, 1), 0) > 1e9, 1, 0)
            acc = tl.dot(a_desc.load([0, k]), b_desc.load([k + at, 0]), acc)
        c_desc.store([0, tl.max(tl.max(acc, 1), 0).to(tl.int32)], acc.to(tl.float16))

    a, b, c = np.zeros((64, 256), np.float16), np.zeros((256, 64), np.float16), np.zeros((64, 64), np.float16)
    args = [*(mimw.TensorDescriptor.from_tensor(one, [64, 64]) for one in (a, b, c)), 256]
    program, found = found_in(placed, args, dict(num_warps=4))
    yes, no = names(program, found)
    assert not found.unknown and not found.bounds and "reduce" in no and not yes & {"reduce", "dot", "select"}
    times = [mimw.predict(placed, (1, ), *args[:3], length, num_warps=4).microseconds for length in (64, 256)]
    assert 0 < times[0] < times[1]


def test_a_tile_that_goes_through_an_argument_is_needed():
    arrays = [np.zeros(128, np.int32) for _ in range(3)]
    program, found = found_in(told_in_tiles, arrays, dict(SIZE=128))
    stores = [op for op in program.walk() if op.name in ("store", "masked_store") and op in found.stores]
    assert [op.name for op in stores] == ["store"] and stores[0].value in found.values and not found.unknown
    assert {op.name for op in program.walk() if op.results and op.results[0] in found.values} >= {"load", "addptr", "reduce"}
