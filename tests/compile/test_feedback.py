"""What an optimised module shows goes back to the ops that it is about, also where several stand on one source line."""

import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.compiler.pipeline.feedback import LESSONS, Feedback
from mimw.ir.layouts import Blocked
from mimw.runtime.compile_kernel import compile_kernel

DIVISIBLE = {(0, ): [["tt.divisibility", 16]], (1, ): [["tt.divisibility", 16]]}


@mimw.jit
def transposed(tile, x):
    m = tl.arange(0, 64)
    tlx.local_store(tile, tl.load(x + m[:, None] * 64 + m[None, :]))
    return tlx.local_load(tlx.local_trans(tile))


@mimw.jit
def on_one_line(x, y):
    one, other = tlx.local_alloc((64, 64), tl.float32, 1), tlx.local_alloc((64, 64), tl.float32, 1)
    m = tl.arange(0, 64)
    tl.store(y + m[:, None] * 64 + m[None, :], transposed(one[0], x) + transposed(other[0], x + 4096))


@mimw.jit
def masked(x, y, n):
    one, other = tle.gpu.local_ptr(tle.gpu.alloc([64, 64], tl.float32)), tle.gpu.local_ptr(tle.gpu.alloc([64, 64], tl.float32))
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tile = tl.load(x + at)
    tl.store(one, tile, mask=tile < n), tl.store(other, tl.load(x + at.T), mask=tile > n)
    tl.store(y + at, tl.load(one) + tl.load(other))


@mimw.jit
def swapped(x, y):
    one, other = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    m = tl.arange(0, 64)
    across, down = m[:, None] * 64 + m[None, :], m[:, None] + m[None, :] * 64
    tokens = tlx.async_load(x + across, one[0]), tlx.async_load(x + down, other[0])
    tlx.async_load_commit_group([tokens[0], tokens[1]])
    tlx.async_load_wait_group(0)
    tl.store(y + across, tlx.local_load(one[0]) + tlx.local_load(other[0]))


def compiled(kernel, num_warps=4, **more):
    signature = {"x": "*fp16" if kernel is swapped else "*fp32", "y": "*fp16" if kernel is swapped else "*fp32", **more}
    return compile_kernel(kernel, signature, options={"num_warps": num_warps}, attrs=DIVISIBLE)


def numbers(program, name):
    return [number for number, op in enumerate(program.walk()) if op.name == name]


def test_two_free_buffers_of_one_line_both_get_a_better_layout():
    """Keyed by the source line, what was learnt of the one would be taken for the other, or be lost."""
    found = compiled(on_one_line)
    better = found.layouts.wavefronts
    assert len(better) == 2 and all(after < before for after, before in better.values())
    assert len({op.site.line for op in found.program.walk() if op.name == "local_alloc"}) == 1
    assert not any("default of its shape" == found.layouts.reasons[value] for value in better)


def test_layouts_of_a_kernel_from_the_cache_are_those_it_was_compiled_with():
    for kernel, more in ((on_one_line, {}), (masked, {"n": "i32"})):
        first, again = compiled(kernel, num_warps=2, **more), compiled(kernel, num_warps=2, **more)  # a miss, a hit
        assert [str(layout) for layout in again.layouts.registers.values()] == list(map(str, first.layouts.registers.values()))
        assert [str(layout) for layout in again.layouts.shared.values()] == list(map(str, first.layouts.shared.values()))


@pytest.mark.parametrize("kernel, more, asks", [
    (on_one_line, {}, ["copies_by_registers", "free_buffers"]),
    (masked, {"n": "i32"}, ["masked_stores", "copies_by_registers", "free_buffers"]),
])
def test_a_program_asks_for_what_it_may_learn(kernel, more, asks):
    found = compiled(kernel, **more)
    assert [lesson.fills for lesson in LESSONS if lesson.asked_by(found.program, found.target)] == asks


def test_facts_are_those_of_their_ops():
    program = compiled(on_one_line).program
    one, other = numbers(program, "local_alloc")
    ops = list(program.walk())
    assert Feedback(free_buffers={other: "swizzled"}).of_ops(program, "free_buffers") == {ops[other]: "swizzled"}
    assert Feedback(free_buffers={one: "plain", other: "swizzled"}).of_ops(program, "free_buffers") == {
        ops[one]: "plain", ops[other]: "swizzled"}
    assert Feedback().of_ops(program, "free_buffers") == {}


def test_of_two_copies_of_one_line_the_one_that_the_chip_cannot_do_goes_through_registers():
    """Pieces of 2 bytes are below the 4 that cp.async copies; rows come in pieces of 16."""
    ttgir = compiled(swapped).stages["ttgir"]
    assert ttgir.count("ttg.async_copy_global_to_local") == 1


@mimw.jit
def by_offsets(x, y, n):
    tile, at = tlx.local_alloc((2048, ), tl.float16, 2), tl.arange(0, 2048)
    tlx.buffer_load_to_local(tile[0], x, at)
    tlx.buffer_load_to_local(tile[1], x, at, mask=at < n)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tlx.buffer_store(tlx.local_load(tile[0]) + tlx.local_load(tile[1]), y, at)


def test_words_with_a_base_and_offsets_lie_as_the_same_through_pointers_would():
    """Of two copies the one whose mask may cut a piece goes through registers, and the other one past them."""
    first, again = (compile_kernel(by_offsets, {"x": "*fp16", "y": "*fp16", "n": "i32"}, target="gfx950", attrs=DIVISIBLE)
                    for _ in range(2))     # a miss, a hit
    asked = [lesson.fills for lesson in LESSONS if lesson.asked_by(first.program, first.target)]
    assert asked == ["accesses", "copies_by_registers"]
    for found in (first, again):
        (store, ) = found.program.named("buffer_store")
        whole, masked = found.program.named("buffer_load_to_local")
        wide = found.layouts.wanted(store, store.index_of("value"))
        assert wide == found.layouts.wanted(whole, whole.index_of("at")) == Blocked((8, ), (64, ), (4, ), (0, ))
    ttgir = first.stages["ttgir"]
    assert [ttgir.count(op) for op in ("amdg.buffer_load_to_local", "ttg.local_store", "amdg.buffer_load ")] == [1, 1, 1]
