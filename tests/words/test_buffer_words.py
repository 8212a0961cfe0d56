"""AMD's buffer words end to end: against numpy on the simulator, what it reports, and the instructions in the code of each chip."""

import re

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import BufferMisuse, OutOfBounds, TargetError
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly
from tests.kernels.lines import line_of

AMD, CDNA = ("gfx942", "gfx950", "gfx1250"), ("gfx942", "gfx950")


@mimw.jit
def doubled(x, y, n, SIZE: tl.constexpr, OTHER: tl.constexpr = None, LOAD: tl.constexpr = None, STORE: tl.constexpr = None):
    at = tl.arange(0, SIZE)
    value = tlx.buffer_load(x, at, mask=at < n, other=OTHER, cache=LOAD)
    tlx.buffer_store(value + value, y, at, mask=at < n + 16, cache=STORE)


@mimw.jit
def picked(x, where, y, SIZE: tl.constexpr, RUN: tl.constexpr):
    at = tl.arange(0, SIZE)
    tlx.buffer_store(tlx.buffer_load(x, tl.load(where + at), contiguity=RUN), y, at)


@mimw.jit
def added(x, y, old, n, SIZE: tl.constexpr, RUN: tl.constexpr = 1, SEM: tl.constexpr = None, SCOPE: tl.constexpr = None):
    at = tl.arange(0, SIZE)
    before = tlx.buffer_atomic_add(y, at, tl.load(x + at), mask=at < n, sem=SEM, scope=SCOPE, contiguity=RUN)
    tlx.buffer_store(before, old, at)


@mimw.jit
def added_for_all(y, old, n, SCOPE: tl.constexpr, MASK: tl.constexpr):
    at = tl.arange(0, 128)
    mask = None if MASK is None else (at < n if MASK == "some" else False)
    before = tlx.buffer_atomic_add(y, at, 2, mask=mask, scope=SCOPE, contiguity=2)
    tlx.buffer_store(before, old, at)


@mimw.jit
def picked_pairs(x, where, y, n, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    place = tl.load(where + at)
    tlx.buffer_atomic_add(y, place, tl.load(x + at), mask=place < n, sem="relaxed", contiguity=2)


@mimw.jit
def paged(x, pages, y, stride, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows, cols = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    found = tlx.buffer_load(x, tl.load(pages + tl.arange(0, ROWS))[:, None] * stride + cols)
    tlx.buffer_store(found, y, rows * COLS + cols)


@mimw.jit
def rebased(x, y, start, FAR: tl.constexpr):
    at = tl.arange(0, 64)
    if FAR:
        tlx.buffer_store(tlx.buffer_load(x, at + start), y, at)
    else:
        tlx.buffer_store(tlx.buffer_load(x + start.to(tl.int64), at), y, at)


# ---- values ----------------------------------------------------------------------------------------------------------

@pytest.mark.long(but=["3-float16-gfx950", "None-float32-gfx942", "None-int8-gfx1250"], everywhere=True)
@pytest.mark.parametrize("target", AMD)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("other", [None, 3])
def test_masks_and_others(target, dtype, other):
    x, y = np.arange(128).astype(dtype) % 50, np.full(128, 9, dtype)
    mimw.simulate(doubled, (1, ), x, y, 77, 128, other, target=target)
    at = np.arange(128)
    assert (y == np.where(at < 77, 2 * x, np.where(at < 93, 2 * (other or 0), 9)).astype(dtype)).all()


def test_booleans():
    x, y = np.arange(64) % 3 == 0, np.zeros(64, bool)
    mimw.simulate(picked, (1, ), x, np.arange(64, dtype=np.int32)[::-1].copy(), y, 64, 1, target="gfx950")
    assert (y == x[::-1]).all()


def test_unsigned_offsets():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    mimw.simulate(picked, (1, ), x, np.arange(64, dtype=np.uint32)[::-1].copy(), y, 64, 1, target="gfx942")
    assert (y == x[::-1]).all()


@pytest.mark.parametrize("target", CDNA)
@pytest.mark.parametrize("dtype, run", [(np.float32, 1), (np.float64, 1), (np.int32, 1), (np.int64, 1), (np.float16, 2)])
def test_atomics_give_what_was_there(target, dtype, run):
    x, y, old = np.arange(128).astype(dtype), np.full(128, 5, dtype), np.full(128, 9, dtype)
    mimw.simulate(added, (1, ), x, y, old, 100, 128, run, target=target)
    on = np.arange(128) < 100
    assert (y == np.where(on, 5 + x, 5)).all() and (old == np.where(on, 5, 0)).all()


@pytest.mark.parametrize("element", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2fnuz, np.float16])
def test_a_whole_number_as_other(element):
    """Triton converts no integer to fp8."""
    x, y = np.ones(128, element), np.zeros(128, element)
    mimw.simulate(doubled_8, (1, ), x, y, 77, target="gfx950")
    assert (y.astype(np.float32) == np.where(np.arange(128) < 77, 1, 3)).all()


@mimw.jit
def doubled_8(x, y, n):
    at = tl.arange(0, 128)
    tlx.buffer_store(tlx.buffer_load(x, at, mask=at < n, other=3), y, at)


def test_atomics_on_one_place_take_turns():
    x, y = np.ones(64, np.int32), np.zeros(4, np.int32)

    @mimw.jit
    def counted(x, y):
        at = tl.arange(0, 64)
        tlx.buffer_atomic_add(y, at % 4, tl.load(x + at), sem="relaxed")

    mimw.simulate(counted, (8, ), x, y, target="gfx942")
    assert (y == 128).all()
    assert mimw.check(counted, (8, ), x, np.zeros_like(y), target="gfx942").ok


# ---- what is reported ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("start", [2**29 - 32, -1, 2**30])
def test_offsets_out_of_range(start):
    """The instruction would read zeros there without a word; no array of 2 GiB is needed to say so."""
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    with pytest.raises(OutOfBounds, match="reaches from 0 to 2.31 - 2") as caught:
        mimw.simulate(rebased, (1, ), x, y, start, True, target="gfx950")
    assert line_of(rebased, "at + start") in {site.line for site in caught.value.sites}
    assert "ptr + start.to(tl.int64)" in caught.value.hint
    (finding, ) = mimw.check(rebased, (1, ), x, y, start, True, target="gfx950").findings
    assert finding.kind == "OutOfBounds"


def test_the_last_offset_in_range_is_a_matter_of_the_array():
    x, y = np.zeros(64, np.int8), np.zeros(64, np.int8)
    for start, text in ((2**31 - 2 - 64, "which has 64 elements"), (2**31 - 2 - 63, "reaches from 0 to 2.31 - 2")):
        with pytest.raises(OutOfBounds, match=text):
            mimw.simulate(rebased, (1, ), x, y, start, True, target="gfx950")


def test_what_a_mask_leaves_out_may_lie_anywhere():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)

    @mimw.jit
    def masked(x, y, n):
        at = tl.arange(0, 64)
        tlx.buffer_store(tlx.buffer_load(x, tl.where(at < n, at, -5), mask=at < n), y, at)

    mimw.simulate(masked, (1, ), x, y, 40, target="gfx1250")
    assert (y == np.where(x < 40, x, 0)).all()


def test_neighbours_that_were_promised():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    blocks = np.arange(64, dtype=np.int32).reshape(16, 4)[::-1].reshape(-1).copy()
    mimw.simulate(picked, (1, ), x, blocks, y, 64, 4, target="gfx950")
    assert (y == blocks).all()
    with pytest.raises(BufferMisuse, match="has contiguity=8, and neighbours at the offsets 60, 61, 62, 63, 56,"):
        mimw.simulate(picked, (1, ), x, blocks, y, 64, 8, target="gfx950")


def test_pairs_that_are_not_masked_alike_or_lie_odd():
    x, y, old = np.ones(64, np.float16), np.zeros(64, np.float16), np.zeros(64, np.float16)
    with pytest.raises(BufferMisuse, match="the mask of elements 32 and 33 takes one of them"):
        mimw.simulate(added, (1, ), x, y, old, 33, 64, 2, target="gfx950")
    assert "BufferMisuse" in {one.kind for one in mimw.check(added, (1, ), x, y, old, 33, 64, 2, target="gfx950").findings}
    odd = np.arange(1, 65, dtype=np.int32)
    with pytest.raises(BufferMisuse, match=r"a pair begins at 'y'\[1\], which is no multiple of 4 bytes"):
        mimw.simulate(picked_pairs, (1, ), x, odd, np.zeros(66, np.float16), 66, 64, target="gfx950")


def test_races_are_found_as_of_any_access():
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)

    @mimw.jit
    def everyone(x, y):
        tlx.buffer_store(tlx.buffer_load(x, tl.arange(0, 64)) + tl.program_id(0), y, tl.arange(0, 64))

    assert "DataRace" in {one.kind for one in mimw.check(everyone, (2, ), x, y, target="gfx950").findings}


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_other_chips_are_told_what_to_write(target):
    with pytest.raises(TargetError, match=rf"{target} cannot do 'buffer_load': (.|\n)*write tl.load\(ptr \+ offsets"):
        mimw.simulate(doubled, (1, ), np.zeros(64, np.float32), np.zeros(64, np.float32), 64, 64, target=target)


def test_atomics_that_a_chip_does_not_have():
    x = np.zeros(64, np.float32)
    with pytest.raises(TargetError, match=r"gfx1250 cannot do 'buffer_atomic_add': it has no buffer atomics"):
        mimw.simulate(added, (1, ), x, x, x, 64, 64, target="gfx1250")
    with pytest.raises(TargetError, match="gfx942 cannot do 'buffer_atomic_add' of bf16(.|\n)*such as gfx950"):
        compile_kernel(added, {"x": "*bf16", "y": "*bf16", "old": "*bf16", "n": "i32"}, {"SIZE": 64, "RUN": 2}, "gfx942")


@pytest.mark.parametrize("target", CDNA)
def test_predictions(target):
    """Also of a kernel without shared memory, of which AMD's chips keep nothing for themselves."""
    x, y, old = (np.zeros(2048, np.float32) for _ in range(3))
    assert mimw.predict(doubled, (1, ), x, y, 2048, 2048, target=target).microseconds > 0.5
    assert mimw.predict(added, (1, ), x, y, old, 2048, 2048, target=target).microseconds > 0.5


# ---- code ------------------------------------------------------------------------------------------------------------

def code(kernel, target, signature, constants, divisible=True, by=to_assembly) -> str:
    attrs = {(at, ): [["tt.divisibility", 16]] for at in range(len(signature))} if divisible else None
    return by(kernel, signature, constants, target, {"num_warps": 4}, attrs=attrs).stage("amdgcn")


def count(pattern: str, text: str) -> int:
    return len(re.findall(rf"^\s+{pattern}", text, re.MULTILINE))


@pytest.mark.long(but=["fp16-gfx942-dwordx4", "fp32-gfx1250-b128", "i8-gfx950-dwordx4"], everywhere=True)
@pytest.mark.parametrize("target, wide", [("gfx942", "dwordx4"), ("gfx950", "dwordx4"), ("gfx1250", "b128")])
@pytest.mark.parametrize("element", ["fp16", "fp32", "i8"])
def test_sixteen_bytes_a_lane(target, wide, element):
    size = 4096 if element == "i8" else 2048
    text = code(doubled, target, {"x": f"*{element}", "y": f"*{element}", "n": "i32"}, {"SIZE": size})
    assert count(f"buffer_load_{wide} ", text) and count(f"buffer_store_{wide} ", text)
    assert not count("global_(load|store)", text) and not count("buffer_load_(dword |ushort|u16)", text)


def test_cache_modifiers():
    signature, size = {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"SIZE": 1024}
    for load, flags in (("", ""), (".ca", ""), (".cg", " sc0 nt"), (".cs", " sc0 nt"), (".cv", " sc0 sc1")):
        assert count(f"buffer_load_dwordx4 .* offen{flags}$", code(doubled, "gfx950", signature, size | {"LOAD": load})), load
    for store, flags in ((".wb", ""), (".cg", ""), (".cs", " sc0 nt"), (".wt", " sc0 sc1")):
        assert count(f"buffer_store_dwordx4 .* offen{flags}$", code(doubled, "gfx950", signature, size | {"STORE": store})), store


@pytest.mark.long(but=["256-4-gfx1250-b128", "4096-8-gfx942-dwordx4", "64-16-gfx950-dwordx4"], everywhere=True)
@pytest.mark.parametrize("target, wide", [("gfx942", "dwordx4"), ("gfx950", "dwordx4"), ("gfx1250", "b128")])
@pytest.mark.parametrize("size, run", [(4096, 4), (4096, 8), (256, 4), (64, 16)])
def test_promised_neighbours_are_loaded_at_once(target, wide, size, run):
    """Also of offsets that come from memory, more than an instruction takes, and tiles with less than that for each thread."""
    text = code(picked, target, {"x": "*fp32", "where": "*i32", "y": "*fp32"}, {"SIZE": size, "RUN": run})
    assert count(f"buffer_load_{wide} ", text) and not count("buffer_load_(dword |b32)", text)


def test_offsets_of_pages_are_seen_through():
    text = code(paged, "gfx950", {"x": "*fp16", "pages": "*i32", "y": "*fp16", "stride": "i32"}, {"ROWS": 64, "COLS": 64})
    assert count("buffer_load_dwordx4 ", text) == 2


@pytest.mark.long(everywhere=True, but=[
    "gfx942-fp32-buffer_atomic_add_f32", "gfx942-fp64-buffer_atomic_add_f64", "gfx942-i32-buffer_atomic_add ",
    "gfx942-i64-buffer_atomic_add_x2", "gfx950-bf16-buffer_atomic_pk_add_bf16", "gfx950-fp16-buffer_atomic_pk_add_f16"])
@pytest.mark.parametrize("target, element, instruction", [
    (target, element, instruction) for target in CDNA for element, instruction in (
        ("fp32", "buffer_atomic_add_f32"), ("fp64", "buffer_atomic_add_f64"), ("i32", "buffer_atomic_add "),
        ("i64", "buffer_atomic_add_x2"), ("fp16", "buffer_atomic_pk_add_f16"))] + [("gfx950", "bf16", "buffer_atomic_pk_add_bf16")])
def test_atomics(target, element, instruction):
    """`acq_rel` writes back before and invalidates behind; what was there comes back, which is sc0."""
    signature = {"x": f"*{element}", "y": f"*{element}", "old": f"*{element}", "n": "i32"}
    ordered = code(added, target, signature, {"SIZE": 512, "RUN": 2})
    assert count(f"{instruction}.* sc0$", ordered) and count("buffer_wbl2 sc1", ordered) and count("buffer_inv sc1", ordered)
    relaxed = code(added, target, signature, {"SIZE": 512, "RUN": 2, "SEM": "relaxed"})
    assert count(instruction, relaxed) and not count("buffer_(wbl2|inv)", relaxed)


@pytest.mark.long(but=["None-fp32-gfx942", "some-i64-gfx950"], everywhere=True)
@pytest.mark.parametrize("target", CDNA)
@pytest.mark.parametrize("element", ["fp32", "i64"])
@pytest.mark.parametrize("mask", [None, "some"])
def test_atomics_that_all_devices_see(target, element, mask):
    """Triton has them through pointers only; what a mask leaves out was 0 before, as of the other scopes."""
    constants = {"SCOPE": "sys", "MASK": mask}
    text = code(added_for_all, target, {"y": f"*{element}", "old": f"*{element}", "n": "i32"}, constants, by=compile_kernel)
    assert count("global_atomic_(add|cmpswap)", text) and count("buffer_wbl2 sc0 sc1", text) and count("buffer_inv sc0 sc1", text)
    assert bool(count("v_cndmask", text)) >= (mask is not None)


@pytest.mark.parametrize("target", CDNA)
@pytest.mark.parametrize("element", ["fp16", "fp32"])
def test_a_mask_that_is_false_throughout(target, element):
    text = code(added_for_all, target, {"y": f"*{element}", "old": f"*{element}", "n": "i32"}, {"SCOPE": None, "MASK": "none"},
                by=compile_kernel)
    assert count("buffer_atomic_", text)


@pytest.mark.long(but=["fp16-cmpswap-gfx942", "fp32-cmpswap-gfx950", "i32-add-gfx942", "i64-add_x2-gfx950"], everywhere=True)
@pytest.mark.parametrize("target", CDNA)
@pytest.mark.parametrize("element, instruction", [("i32", "add"), ("i64", "add_x2"), ("fp32", "cmpswap"), ("fp16", "cmpswap")])
def test_atomics_that_other_gpus_see(target, element, instruction):
    """They go past this GPU's caches (sc1), by pointers; a masked element has no address, and 0 for what was there."""
    signature = {"x": f"*{element}", "y": f"*{element}", "old": f"*{element}", "n": "i32"}
    text = code(added, target, signature, {"SIZE": 512, "RUN": 2, "SCOPE": "sys"})
    assert count(f"global_atomic_{instruction} .* sc0 sc1$", text) and count("buffer_wbl2 sc0 sc1", text)
    assert "buffer_inv sc0 sc1" in text and not count("buffer_atomic", text)


@pytest.mark.parametrize("divisible", [True, False])
def test_no_pair_is_lost(divisible):
    """Triton takes apart what it does not see to be a pair, by its place, its base or its mask, and adds nothing then."""
    for kernel, more, constants in ((added, {"old": "*fp16"}, {"SIZE": 2048, "RUN": 2}), (picked_pairs, {}, {"SIZE": 2048})):
        signature = {"x": "*fp16", "y": "*fp16", "n": "i32", **more} | ({"where": "*i32"} if kernel is picked_pairs else {})
        assert count("buffer_atomic_pk_add_f16", code(kernel, "gfx950", signature, constants, divisible)) == 4
