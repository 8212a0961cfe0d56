"""Layouts of buffers: defaults, demands, views, and the lines that disagree."""

import pytest

from mimw.compiler.constraints import solve_layouts
from mimw.errors import LayoutConflict
from mimw.ir import Tensor
from mimw.ir.layouts import NvmmaShared, SwizzledShared
from mimw.ir.types import I1, Buffer
from mimw.target import target

from .building import BF16, FP8, FP32, FP64, Kernel, named

PLAIN = SwizzledShared(1, 1, 1, (1, 0))
WIDE = NvmmaShared(128, 16, 2)
ACC = Tensor(FP32, (64, 64))


def at(k, buffer, index=0):
    return k("buffer_index", buffer, k.number(index))


def load(k, descriptor, buffer, line):
    k("tma_load", descriptor, (k.number(), k.number()), k("alloc_barriers", 1, 1), buffer, None, None, at=line)


def dot(k, a, b, line, acc=ACC):
    return k("async_dot_wait", 0, k("async_dot", a, b, None, 0, 0, at=line, type=acc))


def conflict_of(k) -> LayoutConflict:
    with pytest.raises(LayoutConflict) as caught:
        solve_layouts(k.finish())
    return caught.value


def test_tma_and_wgmma_agree_on_the_default():
    k = Kernel()
    a, b = k.alloc((64, 64), name="a"), k.alloc((64, 64), name="b")
    descriptor = k.descriptor("desc", (64, 64))
    load(k, descriptor, at(k, a), 5)
    dot(k, at(k, a), k("buffer_trans", at(k, b), (1, 0)), 6)
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.shared == {named(program, "a"): WIDE, named(program, "b"): WIDE}
    assert layouts.descriptors == {named(program, "desc"): WIDE}
    assert layouts.reasons[named(program, "a")] == (
        "k.py:5 tma_load wants nvmma(128-byte swizzle, 16-bit): its descriptor is desc<bf16[64, 64]>; "
        "k.py:6 async_dot wants an nvmma layout: operand A is read from shared memory")


def test_every_descriptor_value_gets_the_layout_of_its_block():
    k = Kernel()
    outer = k.descriptor("outer", (64, 32))
    with k.loop(outer) as (loop, (carried, )):
        carried.name = "carried"
        k("yield", (carried, ))
    loop.results[0].name = "after"
    program = k.finish()
    layouts = solve_layouts(program)
    expected = {named(program, name): NvmmaShared(64, 16, 2) for name in ("outer", "carried", "after")}
    assert layouts.descriptors == expected


def test_a_buffer_that_tma_fills_through_a_slice_takes_the_slices_swizzle():
    k = Kernel()
    buffer = k.alloc((64, 64), name="buffer")
    half = k("buffer_slice", at(k, buffer), (0, 32), (64, 32), at=4)
    load(k, k.descriptor("desc", (64, 32)), half, 5)
    program = k.finish()
    assert solve_layouts(program).shared == {named(program, "buffer"): NvmmaShared(64, 16, 2)}


def test_a_rank_1_buffer_is_plain_unless_tma_fills_it():
    k = Kernel()
    k.alloc((256, ), name="plain")
    filled = k.alloc((256, ), name="filled")
    load(k, k.descriptor("desc", (256, )), at(k, filled), 5)
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.shared == {named(program, "plain"): SwizzledShared(1, 1, 1, (0, )),
                              named(program, "filled"): NvmmaShared(0, 16, 1)}


def test_a_pinned_layout_is_kept():
    k = Kernel()
    k.alloc((64, 64), name="buffer", layout=PLAIN)
    program = k.finish()
    assert solve_layouts(program).shared == {named(program, "buffer"): PLAIN}


def test_without_tensor_cores_only_demands_make_an_nvmma_layout():
    k = Kernel()
    k.alloc((64, 64), name="free")
    filled = k.alloc((64, 64), name="filled")
    load(k, k.descriptor("desc", (64, 64)), at(k, filled), 5)
    program = k.finish()
    layouts = solve_layouts(program, target("sm_80"))
    assert layouts.shared == {named(program, "free"): PLAIN, named(program, "filled"): WIDE}


def test_a_pinned_plain_buffer_is_no_wgmma_operand():
    k = Kernel()
    a, b = k.alloc((64, 64), name="a", at=3, layout=PLAIN), k.alloc((64, 64))
    load(k, k.descriptor("other", (64, 64)), at(k, b), 5)
    dot(k, at(k, a), at(k, b), 7)
    error = conflict_of(k)
    assert error.message == (
        "no layout of buffer 'a' suits these uses:\n"
        "  k.py:3 local_alloc wants plain(order (1, 0)): its layout= argument pins it\n"
        "  k.py:7 async_dot wants an nvmma layout: operand A is read from shared memory")
    assert [site.line for site in error.sites] == [3, 7]


def test_descriptors_of_different_swizzle_disagree_and_agreeing_lines_are_left_out():
    k = Kernel()
    buffer = k.alloc((64, 64), name="tile")
    load(k, k.descriptor("wide", (64, 64)), at(k, buffer), 5)
    load(k, k.descriptor("again", (64, 64)), at(k, buffer, 1), 6)
    half = k("buffer_slice", at(k, buffer), (0, 0), (64, 32))
    k("tma_store", k.descriptor("narrow", (64, 32)), (k.number(), k.number()), half, None, "", at=8)
    dot(k, at(k, buffer), at(k, k.alloc((64, 64))), 9)
    error = conflict_of(k)
    assert error.message == (
        "no layout of buffer 'tile' suits these uses:\n"
        "  k.py:5 tma_load wants nvmma(128-byte swizzle, 16-bit): its descriptor is desc<bf16[64, 64]>\n"
        "  k.py:8 tma_store wants nvmma(64-byte swizzle, 16-bit): its descriptor is desc<bf16[64, 32]>")


def test_elements_without_an_nvmma_layout_disagree_with_one_line():
    k = Kernel()
    dot(k, at(k, k.alloc((64, 64), name="a")), at(k, k.alloc((64, 64), FP64, name="b")), 7)
    assert conflict_of(k).message == (
        "no layout of buffer 'b' suits this use:\n"
        "  k.py:7 async_dot wants an nvmma layout with dimension 0 contiguous: operand B has 64-bit elements, which "
        "are read along K")


def fp8_dot(k, trans_b: bool):
    a, b = k.alloc((64, 64), FP8, name="a"), k.alloc((64, 64), FP8, name="b")
    load(k, k.descriptor("desc", (64, 64), FP8), at(k, b), 5)
    view = k("buffer_trans", at(k, b), (1, 0)) if trans_b else at(k, b)
    dot(k, at(k, a), view, 7)


def test_8_bit_operands_are_read_along_k():
    k = Kernel()
    fp8_dot(k, trans_b=True)
    program = k.finish()
    assert solve_layouts(program).shared[named(program, "b")] == NvmmaShared(64, 8, 2)


def test_an_8_bit_operand_b_that_tma_fills_along_n_is_refused():
    k = Kernel()
    fp8_dot(k, trans_b=False)
    assert conflict_of(k).message == (
        "no layout of buffer 'b' suits these uses:\n"
        "  k.py:5 tma_load wants nvmma(64-byte swizzle, 8-bit): its descriptor is desc<fp8e4nv[64, 64]>\n"
        "  k.py:7 async_dot wants an nvmma layout with dimension 0 contiguous: operand B has 8-bit elements, which are "
        "read along K")


def test_an_8_bit_operand_b_without_tma_is_stored_transposed():
    k = Kernel()
    dot(k, at(k, k.alloc((64, 64), FP8)), at(k, k.alloc((64, 64), FP8, name="b")), 7)
    program = k.finish()
    assert solve_layouts(program).shared[named(program, "b")] == NvmmaShared(64, 8, 2, transposed=True)


def test_a_transposed_tma_destination_is_allocated_transposed():
    k = Kernel()
    buffer = k.alloc((64, 128), name="buffer")
    load(k, k.descriptor("desc", (128, 64)), k("buffer_trans", at(k, buffer), (1, 0)), 5)
    program = k.finish()
    assert solve_layouts(program).shared == {named(program, "buffer"): NvmmaShared(128, 16, 2, transposed=True)}


def test_tma_through_a_permutation_of_three_dimensions_is_refused():
    k = Kernel()
    buffer = k.alloc((8, 64, 64), name="cube")
    load(k, k.descriptor("desc", (64, 8, 64)), k("buffer_trans", at(k, buffer), (1, 0, 2)), 5)
    assert conflict_of(k).message == (
        "no layout of buffer 'cube' suits this use:\n"
        "  k.py:5 tma_load wants nvmma(128-byte swizzle, 16-bit) through a view that permutes 3 dimensions: its "
        "descriptor is desc<bf16[64, 8, 64]>")


def test_one_slice_of_a_single_buffer_drops_its_leading_dimension():
    k = Kernel()
    cube = k.alloc((4, 64, 64), name="cube")
    load(k, k.descriptor("desc", (64, 64)), at(k, at(k, cube), 2), 5)
    program = k.finish()
    assert solve_layouts(program).shared == {named(program, "cube"): NvmmaShared(128, 16, 2)}


def test_a_buffer_that_is_indexed_and_read_whole_is_plain():
    k = Kernel()
    cube = at(k, k.alloc((4, 64, 64), name="cube"))
    k("local_load", at(k, cube, 2), None)
    k("local_load", cube, None)
    program = k.finish()
    assert solve_layouts(program).shared == {named(program, "cube"): SwizzledShared(1, 1, 1, (2, 1, 0))}


def test_a_column_is_a_row_of_the_transpose():
    k = Kernel()
    tile = at(k, k.alloc((64, 32), name="tile"))
    k("local_load", at(k, k("buffer_trans", tile, (1, 0)), 2), None)
    program = k.finish()
    assert solve_layouts(program).shared == {named(program, "tile"): SwizzledShared(1, 1, 1, (0, 1))}


def test_rows_and_columns_of_one_buffer_disagree():
    k = Kernel()
    tile = at(k, k.alloc((64, 32), name="tile"))
    k("buffer_index", k("buffer_trans", tile, (1, 0)), k.number(), at=4)
    k("buffer_index", tile, k.number(), at=5)
    with pytest.raises(LayoutConflict, match="no layout of buffer 'tile' suits these uses:\n.*k.py:4.*\n.*k.py:5"):
        solve_layouts(k.finish())


@pytest.mark.parametrize("offsets, shape, problem", [
    ((0, 0), (64, 32), None),
    ((64, 0), (64, 64), None),
    ((4, 0), (8, 64), "dimension 0 of the slice is [4, 12) of 128, no multiple of 8."),
    ((0, 16), (64, 32), "dimension 1 of the slice is [16, 48) of 64, no multiple of 32."),
])
def test_a_tma_slice_keeps_whole_swizzle_atoms(offsets, shape, problem):
    k = Kernel()
    buffer = k.alloc((128, 64), name="buffer")
    part = k("buffer_slice", at(k, buffer), offsets, shape, at=4)
    load(k, k.descriptor("desc", shape), part, 5)
    if problem is None:
        program = k.finish()
        swizzle = shape[1] * 2
        assert solve_layouts(program).shared == {named(program, "buffer"): NvmmaShared(swizzle, 16, 2)}
        return
    error = conflict_of(k)
    assert error.message.endswith(problem)
    assert [site.line for site in error.sites] == [5, 4]


@pytest.mark.parametrize("shape, offsets, box, problem", [
    ((256, ), (64, ), (32, ), None),
    ((256, ), (32, ), (32, ), "offset 32 of buffer<bf16[256]>: 32 x 2 bytes = 64 bytes"),
    ((256, ), (8, ), (64, ), "offset 8 of buffer<bf16[256]>: 8 x 2 bytes = 16 bytes"),
    ((256, ), ("run time", ), (32, ), "a multiple of 32 of buffer<bf16[256]>: 32 x 2 bytes = 64 bytes"),
    ((256, ), ("run time", ), (64, ), None),
    ((16, 16), (0, 8), (16, 8), "offset 8 of buffer<bf16[16, 16]>: 8 x 2 bytes = 16 bytes"),
])
def test_a_tma_slice_without_a_swizzle_begins_at_128_bytes(shape, offsets, box, problem):
    k = Kernel()
    buffer = k.alloc(shape, name="buffer")
    part = k("buffer_slice", at(k, buffer), tuple(k.number() if offset == "run time" else offset for offset in offsets), box, at=4)
    load(k, k.descriptor("desc", box), part, 5)
    if problem is None:
        solve_layouts(k.finish())
        return
    error = conflict_of(k)
    assert f"tma_load on a slice at {problem}, and TMA begins at multiples of 128 bytes" in error.message
    assert [site.line for site in error.sites] == [5, 4]


def test_an_offset_known_at_run_time_is_the_authors_word():
    k = Kernel()
    buffer = k.alloc((128, 64), name="buffer")
    part = k("buffer_slice", at(k, buffer), (k.number(64), 0), (64, 64))
    load(k, k.descriptor("desc", (64, 64)), part, 5)
    program = k.finish()
    assert solve_layouts(program).shared == {named(program, "buffer"): WIDE}


def test_buffers_that_take_turns_in_a_loop_share_one_layout():
    k = Kernel()
    one, two = k.alloc((64, 32), name="one", count=0), k.alloc((64, 32), name="two", count=0, layout=PLAIN)
    with k.loop(one, two) as (_, (first, second)):
        k("yield", (second, first))
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.shared == {named(program, "one"): PLAIN, named(program, "two"): PLAIN}


def test_a_demand_inside_a_task_reaches_the_allocation_behind_an_if():
    k = Kernel()
    one, two = k.alloc((64, 64), name="one", at=3, layout=PLAIN), k.alloc((64, 64), name="two")
    tasks = k.tasks(4, 1)
    with k.inside(tasks):
        k("yield", ())
    with k.inside(tasks):
        branch = k.branches(k("constant", 1, I1), [Buffer(BF16, (64, 64))])
        with k.inside(branch):
            k("yield", (at(k, one), ))
        with k.inside(branch):
            k("yield", (at(k, two), ))
        load(k, k.descriptor("desc", (64, 64)), branch.results[0], 9)
    error = conflict_of(k)
    assert error.message == (
        "no layout of buffer 'one' suits these uses:\n"
        "  k.py:3 local_alloc wants plain(order (1, 0)): its layout= argument pins it\n"
        "  k.py:9 tma_load wants nvmma(128-byte swizzle, 16-bit): its descriptor is desc<bf16[64, 64]>")


def test_one_value_cannot_be_a_buffer_and_a_transposed_one():
    k = Kernel()
    one, two = k.alloc((64, 64), name="one", at=3), k.alloc((64, 64), name="two", at=4)
    branch = k.branches(k("constant", 1, I1), [Buffer(BF16, (64, 64))])
    with k.inside(branch):
        k("yield", (at(k, one), ))
    with k.inside(branch):
        k("yield", (k("buffer_trans", at(k, two), (1, 0)), ))
    error = conflict_of(k)
    assert error.message == (
        "one value is one (buffer<bf16[64, 64] x 2>) along dimensions (0, 1) on one path and two (buffer<bf16[64, 64] "
        "x 2>) along (1, 0) on another; a buffer has one layout.")
    assert [site.line for site in error.sites] == [3, 4]


def test_tensor_memory_is_not_solved_here():
    k = Kernel()
    k("local_alloc", Buffer(FP32, (128, 64), 1, "tmem"), name="acc")
    program = k.finish()
    assert solve_layouts(program).shared == {}
