"""Readers of memory on chip: allocations, views, and accesses by threads, against numpy."""

import numpy as np
import pytest

from mimw.errors import BarrierNotReady, DataRace, OutOfBounds, UnwrittenRead
from tests.ttgir.modules import elementwise, kernel, ran

LINE = "tensor<128xi32, #line>"
MEMORY = "!ttg.memdesc<128xi32, #barrier, #smem, mutable>"
PAIR = "!ttg.memdesc<2x128xi32, #barrier, #smem, mutable>"
X = np.random.default_rng(3).integers(-99, 99, 128).astype(np.int32)


def lines(made: str, *inputs) -> np.ndarray:
    return elementwise(made, "i32", "i32", *inputs)


def test_what_is_stored_is_loaded():
    made = f"""%m = ttg.local_alloc : () -> {MEMORY}
        ttg.local_store %a, %m : {LINE} -> {MEMORY}
        %r = ttg.local_load %m : {MEMORY} -> {LINE}
        ttg.local_dealloc %m : {MEMORY}"""
    assert (lines(made, X) == X).all()


def test_memory_that_is_allocated_with_a_value():
    full = "!ttg.memdesc<128xi32, #barrier, #smem>"
    assert (lines(f"%m = ttg.local_alloc %a : ({LINE}) -> {full}\n%r = ttg.local_load %m : {full} -> {LINE}", X) == X).all()


def test_single_numbers_of_64_bits_that_are_no_mbarriers():
    """By their type alone they could be: threads load from and store into one of the two here, in a partition, too."""
    one, two = "!ttg.memdesc<1xi64, #barrier, #smem, mutable>", "!ttg.memdesc<2x1xi64, #barrier, #smem, mutable>"
    body = f"""%c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %true = arith.constant true
        %slots = ttg.local_alloc : () -> {two}
        %done = ttg.local_alloc : () -> {one}
        ttng.init_barrier %done, 1 : {one}
        %seven = arith.constant dense<7> : tensor<1xi64, #line>
        ttg.warp_specialize(%slots, %done)
        default {{
          %slot = ttg.memdesc_index %slots[%c1] : {two} -> {one}
          ttg.local_store %seven, %slot : tensor<1xi64, #line> -> {one}
          ttng.arrive_barrier %done, 1, %true : {one}
          ttg.warp_yield
        }}
        partition0(%p: {two}, %q: {one}) num_warps(4) {{
          %d0 = arith.constant 0 : i32
          %d1 = arith.constant 1 : i32
          %yes = arith.constant true
          ttng.wait_barrier %q, %d0, %yes : {one}
          %slot = ttg.memdesc_index %p[%d1] : {two} -> {one}
          %r = ttg.local_load %slot : {one} -> tensor<1xi64, #line>
          ttg.warp_return
        }} : ({two}, {one}) -> ()
        %slot = ttg.memdesc_index %slots[%c1] : {two} -> {one}
        %r = ttg.local_load %slot : {one} -> tensor<1xi64, #line>
        %at = tt.splat %o : !tt.ptr<i64> -> tensor<1x!tt.ptr<i64>, #line>
        tt.store %at, %r : tensor<1x!tt.ptr<i64>, #line>"""
    out = np.zeros(1, np.int64)
    ran(kernel("%o: !tt.ptr<i64>", body), out)
    assert out == 7
    with pytest.raises((DataRace, UnwrittenRead)):
        ran(kernel("%o: !tt.ptr<i64>", body.replace(f"ttng.wait_barrier %q, %d0, %yes : {one}", "")), out)


def test_memory_that_nobody_has_written():
    with pytest.raises(UnwrittenRead):
        lines(f"%m = ttg.local_alloc : () -> {MEMORY}\n%r = ttg.local_load %m : {MEMORY} -> {LINE}", X)


def test_memory_after_its_end():
    """Another allocation may have it: what it holds is nothing that may be used."""
    with pytest.raises(UnwrittenRead):
        lines(f"""%m = ttg.local_alloc : () -> {MEMORY}
            ttg.local_store %a, %m : {LINE} -> {MEMORY}
            ttg.local_dealloc %m : {MEMORY}
            %r = ttg.local_load %m : {MEMORY} -> {LINE}""", X)


def test_slots_of_a_buffer():
    made = f"""%c1 = arith.constant 1 : i32
        %c0 = arith.constant 0 : i32
        %m = ttg.local_alloc : () -> {PAIR}
        %p = ttg.memdesc_index %m[%c0] : {PAIR} -> {MEMORY}
        %q = ttg.memdesc_index %m[%c1] : {PAIR} -> {MEMORY}
        ttg.local_store %a, %p : {LINE} -> {MEMORY}
        ttg.local_store %b, %q : {LINE} -> {MEMORY}
        %s = ttg.local_load %p : {MEMORY} -> {LINE}
        %t = ttg.local_load %q : {MEMORY} -> {LINE}
        %r = arith.subi %s, %t : {LINE}"""
    assert (lines(made, X, X[::-1].copy()) == X - X[::-1]).all()


def in_tile(ops: str, out_shape: str = "64x64") -> np.ndarray:
    """What ops make of `%m`, 64 x 64 numbers 0, 1, .. in shared memory: the tile `%t`, stored in rows of its last extent."""
    height, width = map(int, out_shape.split("x"))
    body = f"""%i = tt.make_range {{start = 0 : i32, end = 64 : i32}} : tensor<64xi32, #rows>
        %j = tt.make_range {{start = 0 : i32, end = 64 : i32}} : tensor<64xi32, #columns>
        %ie = tt.expand_dims %i {{axis = 1 : i32}} : tensor<64xi32, #rows> -> tensor<64x1xi32, #tile>
        %je = tt.expand_dims %j {{axis = 0 : i32}} : tensor<64xi32, #columns> -> tensor<1x64xi32, #tile>
        %k = arith.constant dense<64> : tensor<64x1xi32, #tile>
        %is = arith.muli %ie, %k : tensor<64x1xi32, #tile>
        %ib = tt.broadcast %is : tensor<64x1xi32, #tile> -> tensor<64x64xi32, #tile>
        %jb = tt.broadcast %je : tensor<1x64xi32, #tile> -> tensor<64x64xi32, #tile>
        %n = arith.addi %ib, %jb : tensor<64x64xi32, #tile>
        %m = ttg.local_alloc : () -> !ttg.memdesc<64x64xi32, #plain, #smem, mutable>
        ttg.local_store %n, %m : tensor<64x64xi32, #tile> -> !ttg.memdesc<64x64xi32, #plain, #smem, mutable>
        {ops}
        %oi = tt.make_range {{start = 0 : i32, end = {height} : i32}} : tensor<{height}xi32, #rows>
        %oj = tt.make_range {{start = 0 : i32, end = {width} : i32}} : tensor<{width}xi32, #columns>
        %oie = tt.expand_dims %oi {{axis = 1 : i32}} : tensor<{height}xi32, #rows> -> tensor<{height}x1xi32, #tile>
        %oje = tt.expand_dims %oj {{axis = 0 : i32}} : tensor<{width}xi32, #columns> -> tensor<1x{width}xi32, #tile>
        %ok = arith.constant dense<{width}> : tensor<{height}x1xi32, #tile>
        %ois = arith.muli %oie, %ok : tensor<{height}x1xi32, #tile>
        %oib = tt.broadcast %ois : tensor<{height}x1xi32, #tile> -> tensor<{out_shape}xi32, #tile>
        %ojb = tt.broadcast %oje : tensor<1x{width}xi32, #tile> -> tensor<{out_shape}xi32, #tile>
        %on = arith.addi %oib, %ojb : tensor<{out_shape}xi32, #tile>
        %op = tt.splat %o : !tt.ptr<i32> -> tensor<{out_shape}x!tt.ptr<i32>, #tile>
        %oq = tt.addptr %op, %on : tensor<{out_shape}x!tt.ptr<i32>, #tile>, tensor<{out_shape}xi32, #tile>
        tt.store %oq, %t : tensor<{out_shape}x!tt.ptr<i32>, #tile>"""
    out = np.zeros((height, width), np.int32)
    ran(kernel("%o: !tt.ptr<i32>", body, layouts=TURNED), out)
    return out


NUMBERS = np.arange(64 * 64, dtype=np.int32).reshape(64, 64)
WHOLE = "!ttg.memdesc<64x64xi32, #plain, #smem, mutable>"
TURNED = "#across = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>\n"


def test_a_part_of_a_tile():
    part = "!ttg.memdesc<32x16xi32, #plain, #smem, mutable, 64x64>"
    found = in_tile(f"%v = ttg.memdesc_subslice %m[32, 48] : {WHOLE} -> {part}\n"
                    f"%t = ttg.local_load %v : {part} -> tensor<32x16xi32, #tile>", "32x16")
    assert (found == NUMBERS[32:, 48:]).all()


def test_a_tile_turned():
    turned = "!ttg.memdesc<64x64xi32, #across, #smem, mutable>"
    found = in_tile(f"%v = ttg.memdesc_trans %m {{order = array<i32: 1, 0>}} : {WHOLE} -> {turned}\n"
                    f"%t = ttg.local_load %v : {turned} -> tensor<64x64xi32, #tile>")
    assert (found == NUMBERS.T).all()


def test_a_tile_in_another_shape():
    other = "!ttg.memdesc<32x128xi32, #plain, #smem, mutable>"
    for op in ("ttg.memdesc_reinterpret", "ttg.memdesc_reshape"):
        found = in_tile(f"%v = {op} %m : {WHOLE} -> {other}\n%t = ttg.local_load %v : {other} -> tensor<32x128xi32, #tile>",
                        "32x128")
        assert (found == NUMBERS.reshape(32, 128)).all(), op


def test_rows_by_number():
    """`local_gather` takes from each column the row of the index, `local_scatter` puts there."""
    tile = "tensor<64x64xi32, #tile>"
    found = in_tile(f"%t = ttg.local_gather %m[%jb] {{axis = 0 : i32}} : {WHOLE}, {tile} -> {tile}")
    assert (found == np.take_along_axis(NUMBERS, np.tile(np.arange(64), (64, 1)), 0)).all()
    found = in_tile(f"""%last = arith.constant dense<63> : tensor<64x64xi32, #tile>
        %back = arith.subi %last, %jb : tensor<64x64xi32, #tile>
        ttg.local_scatter %m[%back], %n {{axis = 1 : i32}} : {WHOLE}, tensor<64x64xi32, #tile>, tensor<64x64xi32, #tile>
        %t = ttg.local_load %m : {WHOLE} -> tensor<64x64xi32, #tile>""")
    assert (found == NUMBERS[:, ::-1]).all()


@pytest.mark.parametrize("axis, masked", [(0, False), (1, True)])
def test_atomics_along_a_dimension(axis, masked):
    """Numbers of a tile go to the row, or the column, that an index of each names, those of a mask alone."""
    tile = "tensor<64x64xi32, #tile>"
    on, type_ = (", %lit", ", tensor<64x64xi1, #tile>") if masked else ("", "")
    found = in_tile(f"""%half = arith.constant dense<2> : {tile}
        %limit = arith.constant dense<16> : {tile}
        %row = arith.divsi %jb, %half : {tile}
        %lit = arith.cmpi slt, %row, %limit : {tile}
        %old = ttg.local_atomic_scatter_rmw add, %m[%row], %n{on} {{axis = {axis} : i32}} : (
          {WHOLE}, {tile}, {tile}{type_}) -> {tile}
        %t = ttg.local_load %m : {WHOLE} -> {tile}""")
    wanted, rows = NUMBERS.copy(), np.tile(np.arange(64) // 2, (64, 1))
    at = (rows, np.tile(np.arange(64), (64, 1))) if axis == 0 else (np.tile(np.arange(64)[:, None], (1, 64)), rows)
    np.add.at(wanted, at, np.where(rows < 16, NUMBERS, 0) if masked else NUMBERS)
    assert (found == wanted).all()


def test_an_index_outside_of_its_dimension():
    tile = "tensor<64x64xi32, #tile>"
    with pytest.raises(OutOfBounds):
        in_tile(f"""%far = arith.constant dense<64> : {tile}
            %old = ttg.local_atomic_scatter_rmw add, %m[%far], %n {{axis = 1 : i32}} : ({WHOLE}, {tile}, {tile}) -> {tile}
            %t = ttg.local_load %m : {WHOLE} -> {tile}""")


def test_a_part_of_several_barriers():
    """The last two of four, of which the second is waited for; one that lies outside of the part is another one's."""
    part = "!ttg.memdesc<2x1xi64, #barrier, #smem, mutable, 4x1>"
    body = f"""%c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %b = ttg.local_alloc : () -> !ttg.memdesc<4x1xi64, #barrier, #smem, mutable>
        %p = ttg.memdesc_subslice %b[2, 0] : !ttg.memdesc<4x1xi64, #barrier, #smem, mutable> -> {part}
        %q = ttg.memdesc_index %p[%c1] : {part} -> BARRIER
        ttng.init_barrier %q, 1 : BARRIER
        ttng.arrive_barrier %q, 1 : BARRIER
        %i = arith.constant 3 : i32
        %r = ttg.memdesc_index %b[%i] : !ttg.memdesc<4x1xi64, #barrier, #smem, mutable> -> BARRIER
        ttng.wait_barrier %r, %c0 : BARRIER"""
    ran(kernel("%o: !tt.ptr<i32>", body), np.zeros(1, np.int32))
    with pytest.raises(BarrierNotReady):
        ran(kernel("%o: !tt.ptr<i32>", body.replace("constant 3", "constant 2")), np.zeros(1, np.int32))


def test_atomics_on_shared_memory():
    """Each number is added at its place, two to a place."""
    made = f"""%m = ttg.local_alloc : () -> {MEMORY}
        ttg.local_store %a, %m : {LINE} -> {MEMORY}
        %two = arith.constant dense<2> : {LINE}
        %half = arith.divsi %at, %two : {LINE}
        %old = ttg.local_atomic_scatter_rmw add, %m[%half], %b {{axis = 0 : i32}} : ({MEMORY}, {LINE}, {LINE}) -> {LINE}
        %r = ttg.local_load %m : {MEMORY} -> {LINE}"""
    wanted = X.copy()
    np.add.at(wanted, np.arange(128) // 2, X[::-1])
    assert (lines(made, X, X[::-1].copy()) == wanted).all()
