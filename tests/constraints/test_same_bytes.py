"""Buffers that are the same bytes, and layouts that agree on where these lie."""

import pytest

from mimw.compiler.constraints import solve_layouts, wanted_alignments
from mimw.compiler.passes import place_aliases
from mimw.errors import LayoutConflict
from mimw.ir import Buffer
from mimw.ir.byte_maps import agree, byte_map, element_order, reshaped
from mimw.ir.layouts import LinearShared, NvmmaShared, PaddedShared, SwizzledShared

from .building import BF16, FP32, Kernel, named

PLAIN2, PLAIN1 = SwizzledShared(1, 1, 1, (1, 0)), SwizzledShared(1, 1, 1, (0, ))


@pytest.mark.parametrize("layout, shape, expected", [
    (PLAIN2, (8, 8), [1, 2, 4, 8, 16, 32, 64]),
    (SwizzledShared(1, 1, 1, (0, 1)), (8, 8), [1, 16, 32, 64, 2, 4, 8]),
    (SwizzledShared(2, 2, 4, (1, 0)), (8, 8), [1, 2, 4, 8, 16, 32 + 4, 64 + 8]),
    # Phases beyond the end of a row wrap around, as in Triton.
    (SwizzledShared(8, 1, 8, (1, 0)), (8, 16), [1, 2, 4, 8, 16, 32 + 16, 64, 128]),
    # One column of 128 bytes; rows 1, 2, 4 XOR the 16-byte chunks. As Triton's own linear layout of it.
    (NvmmaShared(128, 16, 2), (16, 64), [1, 2, 4, 8, 16, 32, 64, 128 + 16, 256 + 32, 512 + 64, 1024]),
    (NvmmaShared(128, 16, 2), (16, 128), [1, 2, 4, 8, 16, 32, 64, 2048, 128 + 16, 256 + 32, 512 + 64, 1024]),
    (NvmmaShared(32, 16, 2), (16, 16), [1, 2, 4, 8, 16, 32, 64, 128 + 16, 256]),
    (NvmmaShared(0, 16, 2), (8, 8), [1, 2, 4, 8, 16, 32, 64]),
])
def test_where_bytes_lie(layout, shape, expected):
    assert byte_map(layout, Buffer(BF16, shape)) == tuple(expected)


def test_rows_of_as_many_bytes_agree_whatever_their_elements():
    one, other = Buffer(FP32, (64, 32)), Buffer(BF16, (64, 64))
    assert agree(NvmmaShared(128, 32, 2), one, NvmmaShared(128, 16, 2), other)
    assert not agree(NvmmaShared(128, 32, 2), one, PLAIN2, other)


PADDED = PaddedShared(((64, 8), ), (*((0, 1 << bit) for bit in range(6)), *((1 << bit, 0) for bit in range(6))), (64, 64))
TURNED = LinearShared((*((1 << bit, 0) for bit in range(6)), *((0, 1 << bit) for bit in range(6))))


@pytest.mark.parametrize("wanted", [(32, 128), (4096, ), (8, 8, 64)])
@pytest.mark.parametrize("layout", [PLAIN2, SwizzledShared(8, 1, 8, (1, 0)), SwizzledShared(1, 1, 1, (0, 1)), PADDED, TURNED,
                                    NvmmaShared(128, 16, 2), NvmmaShared(64, 16, 2, True)], ids=str)
def test_another_shape_of_the_same_elements(layout, wanted):
    """Element number n stays where it is, and the way back gives the same."""
    one, other = Buffer(BF16, (64, 64)), Buffer(BF16, wanted)
    found = reshaped(layout, one.shape, 2, wanted)
    assert type(found) is (PaddedShared if layout is PADDED else LinearShared) and found.rank == len(wanted)
    assert agree(layout, one, found, other) and not agree(layout, one, found, Buffer(FP32, wanted))
    assert element_order(reshaped(found, wanted, 2, (64, 64)), (64, 64), 2) == element_order(layout, (64, 64), 2)


def test_orders_that_differ_do_not_agree():
    tile = Buffer(BF16, (64, 64))
    assert not agree(PADDED, tile, PLAIN2, tile) and not agree(TURNED, tile, PLAIN2, tile) and agree(PADDED, tile, PADDED, tile)
    assert agree(TURNED, tile, SwizzledShared(1, 1, 1, (0, 1)), tile)
    assert reshaped(PLAIN2, (2, 64, 64), 2, (8192, )) is None and reshaped(PLAIN2, (64, 64), 2, (64, )) is None


def test_the_elements_at_the_offsets_of_a_swizzle():
    """Offset 8 of row 0 is element 8; row 1 begins with what its phase puts there."""
    assert element_order(SwizzledShared(8, 1, 2, (1, 0)), (4, 16), 2) == (1, 2, 4, 8, 16 + 8, 32)


def retyped(k, type_, demanded=None):
    tile = k("buffer_index", k.alloc((64, 64), FP32, name="tile"), k.number())
    other = k("buffer_reinterpret", tile, type_, layout=demanded, name="other", at=4)
    k("local_load", other, None)
    return k.finish()


def test_nobody_minds_so_both_are_plain():
    program = retyped(Kernel(), Buffer(BF16, (64 * 128, )))
    assert solve_layouts(program).shared == {named(program, "tile"): PLAIN2, named(program, "other"): PLAIN1}


def test_the_same_rows_keep_their_swizzle():
    program = retyped(Kernel(), Buffer(BF16, (64, 128)))
    assert set(solve_layouts(program).shared.values()) == {NvmmaShared(128, 32, 2), NvmmaShared(128, 16, 2)}


def test_a_demand_on_one_decides_for_the_other():
    program = retyped(Kernel(), Buffer(BF16, (64, 128)), NvmmaShared(128, 16, 2))
    assert solve_layouts(program).shared[named(program, "tile")] == NvmmaShared(128, 32, 2)
    assert wanted_alignments(program)[named(program, "tile")] == 1024


def test_plain_rows_that_tma_fills_start_where_tma_begins():
    """A slot of one row of numbers, seen as a block, after whatever else lies in shared memory."""
    program = retyped(Kernel(), Buffer(BF16, (64, 128)), NvmmaShared(0, 16, 2))
    tile = named(program, "tile")
    assert solve_layouts(program).shared[tile] == PLAIN2 and wanted_alignments(program)[tile] == 128


def test_a_demand_that_nobody_can_follow():
    with pytest.raises(LayoutConflict, match="'other' sees the bytes of 'tile'.*\\n.*k.py:4 buffer_reinterpret wants nvmma"):
        solve_layouts(retyped(Kernel(), Buffer(BF16, (128, 64)), NvmmaShared(128, 16, 2)))


def test_arrays_in_one_storage_may_disagree():
    k = Kernel()
    storage = k("alias_storage", "smem", None)
    one = k("local_alloc", Buffer(FP32, (64, 64), 1), storage, name="one", layout=None)
    k("local_alloc", Buffer(BF16, (64, 64), 1), storage, name="other", layout=NvmmaShared(128, 16, 2))
    k("local_load", k("buffer_index", one, k.number()), None)
    program = place_aliases(k.finish())
    assert solve_layouts(program).shared == {named(program, "one"): PLAIN2, named(program, "other"): NvmmaShared(128, 16, 2)}
