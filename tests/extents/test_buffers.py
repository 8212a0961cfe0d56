"""Buffers of any extents that TMA knows, and that threads read, write, cut and share: simulated, searched for races, compiled to
the accesses that the pieces need, and on a GPU."""

import re

import numpy as np
import pytest
import triton.language as tl
from triton import CompilationError

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import KernelError, MimwError, OutOfSharedMemory
from mimw.testing.machines import Gpu
from tests.compiling import stopping
from tests.kernels import odd_buffers, odd_buffers_refused

TILES = {"odd rows": (176, 64), "odd columns": (64, 176), "both": (24, 96), "wide elements": (40, 48, np.float32),
         "bytes": (200, 32, np.int8), "eight rows": (8, 96)}
CASES = {
    **{f"read and written, {name}": ("read and written", tile, dict(WARPS=4, TURNED=False)) for name, tile in TILES.items()},
    "read and written, one warp": ("read and written", (24, 96), dict(WARPS=1, TURNED=False)),
    "read and written, eight warps": ("read and written", (176, 64), dict(WARPS=8, TURNED=False)),
    "transposed": ("read and written", (176, 64), dict(WARPS=4, TURNED=True)),
    "transposed, odd columns": ("read and written", (64, 176), dict(WARPS=4, TURNED=True)),
    "boxes of a power of two": ("in boxes", (192, 64), dict(H=64, W=64)),
    "odd boxes": ("in boxes", (192, 128), dict(H=48, W=64)),
    "odd boxes of a power of two": ("in boxes", (256, 64), dict(H=8, W=64)),
    "boxes of stripes": ("in boxes", (64, 176), dict(H=64, W=16)),
    "boxes over two stripes": ("in boxes", (192, 128), dict(H=96, W=128)),
    "boxes of all": ("in boxes", (96, 96), dict(H=32, W=32)),
    **{f"shared storage, {name}": ("shared storage", TILES[name], {}) for name in ("odd rows", "odd columns", "both")},
    **{f"by pointers, {name}": ("by pointers", TILES[name], dict(N=20)) for name in ("odd rows", "odd columns", "both")},
    **{f"descriptors, {name}": ("descriptors", tile, dict(ADD=False)) for name, tile in TILES.items()},
    "descriptors, added": ("descriptors", (176, 64), dict(ADD=True)),
    "descriptors made here": ("made here", (176, 64), dict(N=349)),
    "descriptors made here, both": ("made here", (24, 96), dict(N=45)),
    "a stack": ("a stack", (176, 64), {}),
    "copies": ("copies", (176, 64), {}),
    "picked": ("picked", (12, 20, np.float32), {}),
    "bits": ("bits", (40, 48, np.int32), {}),
}


def launched(name):
    case, tile, meta = CASES[name]
    return odd_buffers.launch(case, *tile, **meta)


@pytest.mark.parametrize("name", CASES)
def test_the_simulator_gives_numpys_numbers_and_finds_no_race(name):
    kernel, args, meta, y, want = launched(name)
    assert mimw.check(kernel, (1, ), *args, seeds=1, target="sm_90a", **meta).ok
    mimw.simulate(kernel, (1, ), *args, target="sm_90a", **meta)
    np.testing.assert_array_equal(y, want)


@pytest.mark.long(everywhere=True, but=[
    "read and written, both", "transposed, odd columns", "shared storage, both", "by pointers, odd rows",
    "descriptors made here, both", "odd boxes", "picked", "copies", "bits", "descriptors, added"])
@pytest.mark.parametrize("name", CASES)
def test_there_is_a_binary_without_spills(name):
    kernel, args, meta, *_ = launched(name)
    compiled = mimw.compile(kernel, (1, ), *args, target="sm_90a", **meta)
    assert "cp.async.bulk" in compiled.ptx or "cp.reduce.async.bulk.tensor" in compiled.ptx
    pointers = name.startswith("by pointers") or meta.get("ADD")      # a thread's addresses of 88 elements, or of as many sums
    assert compiled.stack_bytes <= (128 if pointers else 0)


@pytest.mark.long(everywhere=True, but=[
    "boxes of a power of two-sm_100a", "by pointers, both-gfx950", "descriptors, odd rows-gfx950", "descriptors made here-gfx942",
    "copies-sm_100a"])
@pytest.mark.parametrize("chip", ["sm_100a", "gfx942", "gfx950"])
@pytest.mark.parametrize("name", ["read and written, both", "boxes of a power of two", "shared storage, both",
                                  "by pointers, both", "descriptors, odd rows", "descriptors made here", "copies"])
def test_other_chips_have_them_too(name, chip):
    kernel, args, meta, y, want = launched(name)
    mimw.simulate(kernel, (1, ), *args, target=chip, **meta)
    np.testing.assert_array_equal(y, want)
    compiled = mimw.compile(kernel, (1, ), *args, target=chip, **meta)
    assert ("ttng." in compiled.ttgir) == (chip == "sm_100a"), "a copy by TMA has a barrier, one by pointers has none of NVIDIA's"


def test_the_data_mover_of_gfx1250_has_no_such_blocks():
    kernel, args, meta, *_ = launched("descriptors, odd rows")
    with pytest.raises(KernelError, match="on a chip without TMA") as refused, stopping(("ttgir", )):
        mimw.compile(kernel, (1, ), *args, target="gfx1250", **meta)
    assert "odd_buffers.py" in str(refused.value) and "Mend:" in str(refused.value)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_the_gpu_agrees(name):
    kernel, args, meta, y, want = launched(name)
    Gpu().launch(kernel, (1, ), *args, **meta)
    np.testing.assert_array_equal(y, want)


def pieces_of(text: str, word: str) -> list[int]:
    """The numbers of the pieces that a word of TTGIR accesses, in order."""
    constants = {name: int(number) for name, number in re.findall(r"(%\S+) = arith\.constant (\d+) : i32", text)}
    views = {name: constants.get(index, -1) for name, index in re.findall(r"(%\S+) = ttg\.memdesc_index \S+\[(\S+)\]", text)}
    operand = {"local_load": r"(%\S+) ", "local_store": r"\S+, (%\S+) "}[word]
    return [views[name] for name in re.findall(rf"ttg\.{word} {operand}", text)]


def test_a_tile_is_read_piece_by_piece():
    """176 rows are 11 pieces of 16, and each thread reads 16 bytes of each; nothing is read behind them."""
    kernel, args, meta, *_ = odd_buffers.launch("descriptors", 176, 64, ADD=False)
    compiled = mimw.compile(kernel, (1, ), *args, target="sm_90a", **meta)
    assert pieces_of(compiled.ttgir, "local_load") == list(range(11)) == pieces_of(compiled.ttgir, "local_store")
    assert compiled.ptx.count("ld.shared.v4.b32") == compiled.ptx.count("st.shared.v4.b32") == 11
    assert not re.search(r"(ld|st)\.shared\.(v2|b)", compiled.ptx) and "ttg.memdesc<11x16x64xf16" in compiled.ttgir


def test_stripes_come_one_behind_the_other():
    """48 columns of 4 bytes are three stripes of 16, each of 40 rows, that is, of five pieces of 8."""
    kernel, args, meta, *_ = odd_buffers.launch("descriptors", 40, 96, np.float32, ADD=False)
    text = mimw.compile(kernel, (1, ), *args, target="sm_90a", **meta).ttgir
    assert sorted(pieces_of(text, "local_load")) == list(range(15)) and "memdesc<15x8x32xf32" in text
    assert pieces_of(text, "local_load")[:6] == [0, 1, 2, 3, 4, 5], "a stripe of five pieces, then the next one"


def test_storage_that_is_shared_takes_the_bytes_that_tiles_have():
    kernel, args, meta, *_ = odd_buffers.launch("shared storage", 176, 64)
    compiled = mimw.compile(kernel, (1, ), *args, target="sm_90a", **meta)
    together = 4 * 176 * 64 * 2
    assert together <= compiled.shared_bytes < together + 1024, "two slots of a and b; the third array lies over them"


def test_too_much_memory_is_counted_in_the_authors_buffers():
    kernel, args, meta, *_ = odd_buffers.launch("in boxes", 96, 96, H=32, W=32)
    with pytest.raises(OutOfSharedMemory) as refused:
        mimw.compile(kernel, (1, ), *args, target="gfx942", **meta)
    assert "stages instead of" not in str(refused.value), "there is one of each, of nine pieces"


@pytest.mark.parametrize("name", odd_buffers_refused.REFUSED)
def test_what_there_is_not_yet_says_so_with_its_line(name):
    kernel, args, meta, said = odd_buffers_refused.REFUSED[name]
    with pytest.raises((MimwError, CompilationError), match=said) as refused, stopping(("ttgir", )):
        mimw.compile(kernel, (1, ), *args, target="sm_90a", **meta)
    assert "Mend:" in str(refused.value) and "odd_buffers_refused.py" in str(refused.value)


@mimw.jit
def rows_of_tle(x, out):
    """Rows of 48 elements: written by pointers, read whole one by one."""
    rows = tle.gpu.alloc([5, 48], tl.float32)
    for i in range(15):
        column = i % 3 * 16 + tl.arange(0, 16)
        tl.store(tle.gpu.local_ptr(rows, (tl.full((16, ), i // 3, tl.int32), column)), tl.load(x + i // 3 * 48 + column))
    for i in range(5):
        tl.store(out + i * 48 + tl.arange(0, 48), tlx.local_load(rows.slot(i)) + 1)


def test_pointers_and_words_agree_on_rows_with_padding():
    x, out = np.arange(240, dtype=np.float32), np.zeros(240, np.float32)
    mimw.simulate(rows_of_tle, (1, ), x, out, target="sm_90a")
    np.testing.assert_array_equal(out, x + 1)
    assert mimw.compile(rows_of_tle, (1, ), x, out, target="sm_90a").shared_bytes == 8 * 64 * 4
