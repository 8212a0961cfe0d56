"""Hints of scheduling end to end: they change no value, and the code shows them."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import SimulatorMisuse
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly, to_ttgir

CHIPS = ["gfx942", "gfx950", "gfx1250"]
MASKS = {0: "none", 8: "mfma_wmma", 0x20: "vmem_read", 0x200: "ds_write", 0x400: "transcendental",
         0x108: "mfma_wmma|ds_read", 0xFFF: ".*"}


@mimw.jit
def fenced(x_ptr, y_ptr, MASK: tl.constexpr):
    at = tl.arange(0, 256)
    x = tl.load(x_ptr + at)
    tlx.amd_sched_barrier(MASK)
    tl.store(y_ptr + at, x + 1)
    tlx.amd_sched_barrier()


@pytest.mark.long(everywhere=True, but=[
    "0-gfx950", "1024-gfx942", "264-gfx942", "32-gfx950", "4095-gfx942", "512-gfx1250", "8-gfx942"])
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("mask", MASKS)
def test_a_scheduling_barrier(chip, mask):
    text = to_ttgir(fenced, {"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"MASK": mask}, chip).stage("ttgir")
    first, last = re.findall(r"rocdl\.sched\.barrier (\S+)", text)
    assert re.fullmatch(MASKS[mask].replace("|", r"\|"), first) and last == "none"
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    mimw.simulate(fenced, (1, ), x, y, mask, target=chip)
    assert (y == x + 1).all()


@pytest.mark.parametrize("chip", CHIPS)
def test_it_reaches_the_compiler(chip):
    code = compile_kernel(fenced, {"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"MASK": 0x20}, chip)
    assert code.stage("hsaco") and "sched_barrier mask(0x00000020)" in code.stage("amdgcn")


@mimw.jit
def by_an_argument(x_ptr, factor):
    at = tl.arange(0, 64)
    tl.store(x_ptr + at, at * tlx.assume_uniform(factor) + tlx.assume_uniform(0.5))


@pytest.mark.parametrize("chip", ["sm_90a", "gfx950"])
def test_a_number_that_is_known_at_compile_time(chip):
    """Triton makes a constant of an argument that is 1."""
    for factor in (1, 3):
        x = np.zeros(64, np.float32)
        mimw.simulate(by_an_argument, (1, ), x, factor, target=chip)
        assert (x == np.arange(64) * factor + 0.5).all()


@mimw.jit
def uniform(x_ptr, y_ptr, which_ptr, n, PART: tl.constexpr):
    """The number of a row comes from memory, so the compiler does not know that all lanes have it."""
    at = tl.arange(0, 256)
    row = tl.load(which_ptr)
    if PART == "number":
        base = x_ptr + tlx.assume_uniform(row) * 256
    else:
        base = tlx.assume_uniform(x_ptr + row.to(tl.int64) * 256)
    tl.store(y_ptr + at, tl.load(base + at))


READS = {("i16", "number"): 1, ("i32", "number"): 1, ("i64", "number"): 2, ("i32", "pointer"): 2}


@pytest.mark.long(but=["i16-number-gfx1250", "i32-pointer-gfx942", "i64-number-gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("type_, part", READS)
def test_a_uniform_value(chip, type_, part):
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "which_ptr": f"*{type_}", "n": "i32"}
    code = compile_kernel(uniform, signature, {"PART": part}, chip)
    assert len(re.findall(r"v_readfirstlane_b32 s", code.stage("amdgcn"))) >= READS[type_, part] and code.stage("hsaco")
    x, y, which = np.arange(1024, dtype=np.float32), np.zeros(256, np.float32), np.array([2], type_.replace("i", "int"))
    mimw.simulate(uniform, (1, ), x, y, which, 4, part, target=chip)
    assert (y == x[512:768]).all()


@mimw.jit
def scaled(x_ptr, y_ptr, factor_ptr):
    at = tl.arange(0, 256)
    tl.store(y_ptr + at, tl.load(x_ptr + at) * tlx.assume_uniform(tl.load(factor_ptr)))


@pytest.mark.long(but=["bf16-gfx942", "fp16-gfx950", "fp32-gfx942", "fp64-gfx1250"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("type_", ["fp16", "bf16", "fp32", "fp64"])
def test_a_uniform_float(chip, type_):
    signature = {"x_ptr": f"*{type_}", "y_ptr": f"*{type_}", "factor_ptr": f"*{type_}"}
    text = to_assembly(scaled, signature, {}, chip).stage("amdgcn")
    assert len(re.findall(r"v_readfirstlane_b32 s", text)) >= (2 if type_ == "fp64" else 1)


@mimw.jit
def straight(x_ptr, y_ptr, row, stride):
    """Copies to LDS that are as wide as a base allows of which only the first lane's is known."""
    tile = tlx.local_alloc((64, 64), tl.float16, 1)
    at = tl.arange(0, 64)[:, None] * stride + tl.arange(0, 64)[None, :]
    tlx.buffer_load_to_local(tile[0], tlx.assume_uniform(x_ptr + row * 64 * stride), at)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tl.store(y_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], tlx.local_load(tile[0]))


def test_a_uniform_address_stays_aligned():
    aligned = {(place, ): [["tt.divisibility", 16]] for place in (0, 1, 3)}
    code = to_assembly(straight, {"x_ptr": "*fp16", "y_ptr": "*fp16", "row": "i32", "stride": "i32"}, {}, "gfx950", attrs=aligned)
    assert re.search(r"buffer_load_dwordx4 .* lds", code.stage("amdgcn")) and "v_readfirstlane" in code.stage("amdgcn")


@mimw.jit
def of_a_lane(y_ptr):
    lane = tlx.thread_id(0)
    tl.store(y_ptr + tlx.assume_uniform(lane), 1)


def test_a_value_of_a_lane_is_refused():
    """The chip would give all lanes the first one's."""
    with pytest.raises(SimulatorMisuse, match="differs between the threads"):
        mimw.simulate(of_a_lane, (1, ), np.zeros(64, np.int32), target="gfx950", num_warps=1)


@mimw.jit
def ranges(x_ptr, y_ptr, ONE: tl.constexpr, OTHER: tl.constexpr, WHERE: tl.constexpr):
    first, second = tlx.rematerialized_range(0, 1024, ONE), tlx.rematerialized_range(0, 1024, OTHER, placement=WHERE)
    tl.store(y_ptr + second, tl.load(x_ptr + first))


@pytest.mark.long(everywhere=True, but=[
    "\"; s_endpgm-\\n-None-2-gfx950", "1-1-loop-2-sm_90a", "load-load-None-1-gfx942", "load-store-None-2-gfx1250"])
@pytest.mark.parametrize("chip", [*CHIPS, "sm_90a"])
@pytest.mark.parametrize("one, other, where, count", [("load", "store", None, 2), ("load", "load", None, 1), (1, 1, None, 1),
                                                      (1, 1, "loop", 2), ('"; s_endpgm', "\n", None, 2)])
def test_ranges_of_two_identities_stay_two(chip, one, other, where, count):
    signature, constants = {"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"ONE": one, "OTHER": other, "WHERE": where}
    code = to_assembly(ranges, signature, constants, chip, attrs={(i, ): [["tt.divisibility", 16]] for i in range(2)})
    assert code.stage("ttgir").count("tt.make_range") == count
    assert re.search(r"ld\.global\.v4|global_load_dwordx4|global_load_b128", code.stage("ptx" if chip[0] == "s" else "amdgcn"))
    x, y = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    mimw.simulate(ranges, (1, ), x, y, one, other, where, target=chip)
    assert (y == x).all()


@pytest.mark.parametrize("chip", CHIPS)
def test_ranges_become_a_binary(chip):
    code = compile_kernel(ranges, {"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"ONE": "load", "OTHER": "store", "WHERE": None}, chip)
    assert code.stage("hsaco") and "; store" in code.stage("amdgcn")
