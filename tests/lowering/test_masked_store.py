"""Masked stores of whole buffers: the assembly is run thread by thread, and every element must be where the buffer has it."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.compiler.triton_port.accesses import stored_layouts, tile_layouts
from mimw.compiler.triton_port.text import ModuleText
from mimw.ir.byte_maps import byte_offset
from mimw.ir.linear import linear_of, positions
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly, to_ttgir
from tests.kernels.swizzled import swizzled

ALIGNED = {(index, ): [["tt.divisibility", 16]] for index in range(3)}


@mimw.jit
def masked(x, y, n, M: tl.constexpr, N: tl.constexpr, MASK: tl.constexpr, MMA: tl.constexpr, TURNED: tl.constexpr):
    """y = the tile x in shared memory, where the mask is true; MASK names what it depends on."""
    buffer = tle.gpu.alloc([M, N], x.dtype.element_ty, swizzled([M, N], x.dtype.element_ty, MMA))
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    view = tle.gpu.local_ptr(buffer)
    tl.store(view, 0)
    tile = tl.load(x + columns * M + rows if TURNED else x + rows * N + columns)
    if MASK == "none":
        tl.store(view, tile)
    elif MASK == "rows":
        tl.store(view, tile, mask=rows < n + tl.zeros((M, N), tl.int32))
    elif MASK == "columns":
        tl.store(view, tile, mask=columns < n + tl.zeros((M, N), tl.int32))
    elif MASK == "data":
        tl.store(view, tile, mask=tile != 3)
    tl.store(y + rows * N + columns, tl.load(view))


def compiled(kind="fp16", m=64, n=64, mask="rows", mma=True, turned=False, warps=4, target="sm_90a", by=to_ttgir):
    return by(masked, {"x": f"*{kind}", "y": f"*{kind}", "n": "i32"},
                          dict(M=m, N=n, MASK=mask, MMA=mma, TURNED=turned), target, {"num_warps": warps}, ALIGNED)


def stores(text: str) -> int:
    return len(re.findall(r"@on st\.shared", text))


def test_a_masked_store_takes_what_a_plain_one_takes():
    plain, with_mask = (compiled(m=128, n=128, mask=mask, by=to_assembly) for mask in ("none", "rows"))
    assert plain.metadata.shared == with_mask.metadata.shared == 32768
    assert stores(with_mask.stage("ptx")) == 16
    assert "convert_layout" not in with_mask.stage("ttgir")


# What the mask says of neighbours decides the width: 16-bit elements go 8 at a time, if all 8 are surely masked alike.
@pytest.mark.parametrize("mask, kind, count", [("rows", "fp16", 4), ("rows", "fp32", 8), ("rows", "i8", 2), ("rows", "fp64", 16),
                                               ("columns", "fp16", 4), ("data", "fp16", 32)])
def test_how_many_stores(mask, kind, count):
    assert stores(compiled(kind, mask=mask, by=to_assembly).stage("ptx")) == count


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_amd_picks_elements(target):
    assert "local_atomic" in compiled("fp32", target=target).stage("ttgir")


# ---- the assembly, run ------------------------------------------------------------------------------------------------

class Thread:
    """Registers hold numbers, or lists of the bytes of an element: (its number, which byte), lowest first."""

    def __init__(self, named, memory):
        self.named, self.memory = named, memory

    def value(self, name):
        return self.named[name] if name in self.named else int(name, 0)

    def run(self, lines):
        for line in lines:
            guard, text = re.match(r"(@on )?(.*);", line).groups()
            name, *operands = re.split(r"[\s,]+", re.sub(r"[{}\[\]]", " ", text).strip())
            if name == ".reg" or guard and not self.named["on"]:
                continue
            if name.startswith("st.shared"):
                to, *words = map(self.value, operands)
                for byte in (byte for word in words for byte in word[:int(name[-2:].lstrip("b")) // 8]):
                    self.memory[to] = byte
                    to += 1
            else:
                self.named[operands[0]] = getattr(self, name.split(".")[0])(*map(self.value, operands[1:]))

    def mov(self, number):
        return number

    def setp(self, left, right):
        return left != right

    def prmt(self, low, high, selector):
        count = 2 if selector == 0x5410 else 1
        return low[:count] + high[:count] + [None] * (4 - 2 * count)

    def __getattr__(self, name):
        return {"and": int.__and__, "xor": int.__xor__, "add": int.__add__, "shl": int.__lshift__, "shr": int.__rshift__}[name]


def written(found, on, warps):
    """{offset: (element, byte)} after all threads have run, and the layout that value and mask were in."""
    assembly, types = re.search(r'ttg\.inline_asm "([^"]*@on st\.shared[^"]*)" .*? : \((.*)\) -> \(\)', found.ttgir).groups()
    lines = [line.strip() for line in assembly.replace("\\0A", "\n").splitlines() if line.strip() not in "{}"]
    layout = tile_layouts(ModuleText(found.ttgir), types)[-1]
    shape, size = on.shape, on.itemsize
    linear, memory = linear_of(layout, shape), {}
    held = 1 << len(linear.registers)
    bases = positions((*linear.registers, *linear.lanes, *linear.warps), shape)
    for thread in range(32 * warps):
        named = {"$0": thread, "$1": 0}
        for register in range(held):
            element = sum(place for bit, place in enumerate(bases) if (thread << len(linear.registers) | register) >> bit & 1)
            named[f"${2 + register}"] = [(element, byte) for byte in range(size)] + [None] * max(0, 4 - size)
            named[f"${2 + held + register}"] = int(on.flat[element] != 0)
        Thread(named, memory).run(lines)
    return memory, layout


ELEMENTS = [("fp16", np.float16, True), ("i8", np.int8, True), ("fp32", np.float32, True), ("fp16", np.float16, False),
            ("fp64", np.float64, False)]
SHAPES = [("rows", 64, 64, False, 4), ("columns", 32, 128, False, 4), ("data", 16, 32, False, 2), ("rows", 64, 16, True, 4),
          ("data", 8, 16, False, 4)]


@pytest.mark.long(everywhere=True, but=[
    "fp16-float16-False-rows-64-16-True-4", "fp32-float32-True-data-16-32-False-2", "fp32-float32-True-rows-64-64-False-4",
    "fp64-float64-False-data-8-16-False-4", "i8-int8-True-columns-32-128-False-4"])
@pytest.mark.parametrize("kind, dtype, mma, mask, m, n, turned, warps", [      # every other one of the grid
    (*element, *shape) for a, element in enumerate(ELEMENTS) for b, shape in enumerate(SHAPES) if (a + b) % 2 == 0])
def test_every_element_is_in_its_place(kind, dtype, mma, mask, m, n, turned, warps):
    found = compiled(kind, m, n, mask, mma, turned, warps)
    (layout, ) = found.layouts.shared.values()
    random = np.random.default_rng(3)
    rows, columns = np.ogrid[:m, :n]
    if mask == "data":
        on = random.integers(0, 2, (m, n))
    else:
        on = np.broadcast_to(rows < m // 2 + 1 if mask == "rows" else columns < n // 2, (m, n))
    on = on.astype(dtype)
    memory, _ = written(found, on, warps)
    size = on.itemsize
    expected = {byte_offset(layout, (m, n), size, element * size) + byte: (element, byte)
                for element in np.flatnonzero(on) for byte in range(size)}
    assert memory == expected


@mimw.jit
def product(x, y, n):
    """A product, rounded, into the rows below n of a buffer: the tile is the tensor core's accumulator."""
    a, out = tle.gpu.alloc([64, 64], tl.bfloat16), tle.gpu.alloc([64, 64], tl.bfloat16)
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(tle.gpu.local_ptr(a), tl.load(x + at))
    left = tl.load(tle.gpu.local_ptr(a))
    result = tl.dot(left, tl.load(tle.gpu.local_ptr(a))).to(tl.bfloat16)
    tl.store(tle.gpu.local_ptr(out), 0.0)
    tl.store(tle.gpu.local_ptr(out), result, mask=tl.arange(0, 64)[:, None] < n + tl.zeros((64, 64), tl.int32))
    tl.store(y + at, tl.load(tle.gpu.local_ptr(out)))


def test_an_accumulator_is_stored_as_it_lies():
    found = to_assembly(product, {"x": "*bf16", "y": "*bf16", "n": "i32"}, attrs=ALIGNED)
    on = np.ones((64, 64), np.float16)
    memory, layout = written(found, on, 4)
    assert str(layout).startswith("wgmma") and len(memory) == 2 * 64 * 64
    assert stores(found.stage("ptx")) == 16  # of 4 bytes: two neighbours a thread


@mimw.jit
def rows_of(x, y, n, M: tl.constexpr):
    """What is left of a product's rows, under a mask: a tile of rank 1 in a slice of the accumulator's layout."""
    a, out = tle.gpu.alloc([64, 64], tl.bfloat16), tle.gpu.alloc([M], tl.float32)
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(tle.gpu.local_ptr(a), tl.load(x + at))
    left = tl.load(tle.gpu.local_ptr(a))
    tl.store(tle.gpu.local_ptr(out), 0.0)
    total = tl.sum(tl.dot(left, tl.load(tle.gpu.local_ptr(a))), 1)
    tl.store(tle.gpu.local_ptr(out), total, mask=tl.arange(0, M) < n)
    tl.store(y + tl.arange(0, M), tl.load(tle.gpu.local_ptr(out)))


def test_a_slice_of_an_accumulator():
    found = to_ttgir(rows_of, {"x": "*bf16", "y": "*fp32", "n": "i32"}, dict(M=64), attrs=ALIGNED)
    memory, layout = written(found, np.arange(64, dtype=np.float32) % 3, 4)
    assert str(layout).startswith("slice(axis 1 of wgmma")
    assert memory == {4 * element + byte: (element, byte) for element in range(64) if element % 3 for byte in range(4)}


@mimw.jit
def of_type(x, y, n, TYPE: tl.constexpr):
    """Rank 3, in one place of an array, from inside a task."""
    tiles = tle.gpu.alloc([2, 4, 8, 16], TYPE)
    tle.gpu.warp_specialize([(idle, ()), (fill, (tiles, x, y, n))], [4], [64])


@mimw.jit
def idle():
    pass


@mimw.jit
def fill(tiles, x, y, n):
    at = tl.arange(0, 4)[:, None, None] * 128 + tl.arange(0, 8)[None, :, None] * 16 + tl.arange(0, 16)[None, None, :]
    view = tle.gpu.local_ptr(tiles.slot(n))
    tl.store(view, tl.zeros((4, 8, 16), tl.float32).to(tiles.dtype))
    tl.store(view, tl.load(x + at).to(tiles.dtype), mask=at % 5 < n + 1)
    tl.store(y + at, tl.load(view).to(tl.float32))


@pytest.mark.parametrize("kind", [tl.bfloat16, tl.float8e5, tl.int1, tl.int64, tl.uint16])
def test_types_ranks_and_places(machine, kind):
    x, y = np.arange(512, dtype=np.float32).reshape(4, 8, 16) % 2, np.full((4, 8, 16), 7, np.float32)
    compile_kernel(of_type, {"x": "*fp32", "y": "*fp32", "n": "i32"}, dict(TYPE=kind))
    machine.launch(of_type, (1, ), x, y, 1, kind)
    assert (y == np.where(np.arange(512).reshape(4, 8, 16) % 5 < 2, x, 0)).all()


def test_what_the_tensor_core_reads_after_a_masked_store_is_fenced():
    @mimw.jit
    def squared(x, y, n):
        a = tle.gpu.alloc([64, 64], tl.bfloat16)
        at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
        tl.store(tle.gpu.local_ptr(a), tl.load(x + at), mask=at < n)
        left = tl.load(tle.gpu.local_ptr(a))
        tl.store(y + at, tl.dot(left, tl.load(tle.gpu.local_ptr(a))))

    text = to_ttgir(squared, {"x": "*bf16", "y": "*fp32", "n": "i32"}).stage("ttgir")
    found = re.findall(r"ttg\.inline_asm|fence_async_shared|warp_group_dot ", text)
    assert found[-3:] == ["ttg.inline_asm", "fence_async_shared", "warp_group_dot "]


@pytest.mark.long(everywhere=["False-columns-float16", "False-data-float32", "True-rows-int8"])
@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32])
@pytest.mark.parametrize("mask", ["rows", "columns", "data"])
@pytest.mark.parametrize("turned", [False, True])
def test_values(machine, dtype, mask, turned):
    x = np.random.default_rng(4).integers(0, 6, (64, 64)).astype(dtype)
    y, n = np.full_like(x, 9), 40
    machine.launch(masked, (1, ), x, y, n, 64, 64, mask, True, turned)
    tile = x.T if turned else x
    rows, columns = np.ogrid[:64, :64]
    on = {"rows": rows < n, "columns": columns < n, "data": tile != 3}[mask]
    assert (y == np.where(on, tile, 0)).all()


def test_stores_are_told_by_number_and_layout():
    found = compiled(mask="none")
    numbers = [number for number, op in enumerate(found.program.walk()) if op.name == "local_store"]
    told = stored_layouts(found.stage("ttgir"))
    assert list(told) == numbers and all(str(layout).startswith("blocked") for layout in told.values())


@mimw.jit
def lanes_apart(y, RACE: tl.constexpr):
    """Two tasks write the even and the odd columns of one buffer; with RACE both write the even ones."""
    buffer = tle.gpu.alloc([16, 16], tl.int32)
    tle.gpu.warp_specialize([(write_columns, (buffer, 0)), (write_columns, (buffer, 0 if RACE else 1))], [4], [64])
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(y + at, tl.load(tle.gpu.local_ptr(buffer), mask=(at % 2 == 0) | (not RACE)))


@mimw.jit
def write_columns(buffer, odd: tl.constexpr):
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(tle.gpu.local_ptr(buffer), at + odd, mask=at % 2 == odd)


def test_masked_lanes_do_not_race():
    assert mimw.check(lanes_apart, (1, ), np.zeros((16, 16), np.int32), False, seeds=2).ok
    report = mimw.check(lanes_apart, (1, ), np.zeros((16, 16), np.int32), True, seeds=2)
    assert {finding.kind for finding in report.findings} == {"DataRace"}
