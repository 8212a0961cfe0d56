"""What the GEMM for AMD's matrix cores compiles to: runs of products, copies past the registers, wide reads, no spills.

Nothing here has run on a chip of AMD.
"""

from __future__ import annotations

import re
from collections import Counter

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import mfma_gemm
from mimw.kernels.mfma_gemm import CONFIGURATIONS, INTERLEAVED
from mimw.target import target

BF16, E4, E5 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
Z4, Z5 = ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz
PRODUCT = re.compile(r"v_(?:mfma|wmma)\w*")


def instructions(chip, chosen, dtype, nk=True, k=4, **more):
    """The instructions of the full tile with their operands, a line each; nothing spills, and it fits."""
    depth = int(k * chosen.bk)
    a, b = np.zeros((chosen.bm, depth), dtype), np.zeros((chosen.bn, depth), dtype)
    c = np.zeros((chosen.bm, chosen.bn), np.float16)
    grid, args, meta = mfma_gemm.arguments(a, b.T if nk else np.zeros((depth, chosen.bn), dtype), c, chip, chosen, **more)
    found = mimw.compile(mfma_gemm.kernel, grid, *args, target=chip, **meta)
    assert found.hsaco[:4] == b"\x7fELF" and found.spilled_registers == 0 and found.stack_bytes == 0
    assert found.shared_bytes <= target(chip).shared_bytes
    assert set(re.findall(r"\.vgpr_spill_count: +(\d+)", found.amdgcn)) == {"0"}
    return [line.split(";")[0].strip() for line in found.amdgcn.split("\n") if re.match(r"\t[a-z]|\.LBB", line)]


def loop(code):
    """The instructions of the loop with the most products."""
    labels = {line.rstrip(":"): at for at, line in enumerate(code) if line.startswith(".LBB")}
    back = [(labels[name], at) for at, line in enumerate(code) if line.startswith("s_cbranch")
            and (name := line.split()[-1]) in labels and labels[name] < at]
    return max((code[start:end] for start, end in back), key=lambda lines: sum(map(bool, map(PRODUCT.match, lines))))


def names(lines):
    return Counter(line.split()[0] for line in lines if not line.startswith("."))


def stages(lines):
    """The instructions between barriers."""
    found = [[]]
    for line in lines:
        if line.startswith(("s_barrier_wait", "s_barrier_signal", "s_barrier")):
            found.append([])
        else:
            found[-1].append(line)
    return found


def moves(lines):
    """Copies from register to register."""
    return sum(count for name, count in names(lines).items() if name.startswith(("v_accvgpr", "v_mov")))


# ---- ping-pong ----------------------------------------------------------------------------------------------------------

PING_PONG = [   # chip, type, the product, how many in a run, how a copy reads and how LDS is read
    ("gfx950", np.float16, "v_mfma_f32_16x16x32_f16", 32, "buffer_load_dwordx4", "ds_read_b128"),
    ("gfx950", BF16, "v_mfma_f32_16x16x32_bf16", 32, "buffer_load_dwordx4", "ds_read_b128"),
    ("gfx950", E4, "v_mfma_f32_16x16x128_f8f6f4", 16, "buffer_load_dwordx4", "ds_read_b128"),
    ("gfx950", E5, "v_mfma_f32_16x16x128_f8f6f4", 16, "buffer_load_dwordx4", "ds_read_b128"),
    ("gfx942", Z5, "v_mfma_f32_16x16x32_bf8_bf8", 32, "buffer_load_dword", "ds_read_b128")]


@pytest.mark.long(shown_by="test_mfma_scaled_gemm.py::test_the_code_of_waves_that_take_turns")
@pytest.mark.parametrize("chip, dtype, product, run, copy, read", PING_PONG)
def test_ping_pong(chip, dtype, product, run, copy, read):
    """Four stages, of which two are nothing but products, at a higher priority: 512 cycles of the matrix core each (16 products of
    32 cycles, or 32 of 16). The wait before them leaves copies under way."""
    lines = loop(instructions(chip, CONFIGURATIONS[chip][np.dtype(dtype).itemsize][0], dtype))
    parts = stages(lines)
    products = [part for part in parts if names(part)[product]]
    assert len(parts) == 5 and [names(part)[product] for part in products] == [run, run]      # the loop goes round
    for part in products:
        found = [at for at, line in enumerate(part) if PRODUCT.match(line)]
        assert names(part).keys() <= {product, "s_nop", "s_setprio"} | {line.split()[0] for line in part if line.startswith("s_")}
        assert found[-1] - found[0] == run - 1, "a run without anything between"
    assert names(lines)["s_setprio"] == 4 and "s_setprio 1" in lines and "s_setprio 0" in lines
    assert sum(line.startswith(copy + " ") and line.endswith("lds") for line in lines) == (8 if chip == "gfx950" else 16)
    assert names(lines)[read] == (24 if chip == "gfx950" else 12) and moves(lines) <= 16
    assert not any(name.startswith(("ds_write", "scratch", "ds_bpermute")) for name in names(lines))
    waits = [int(count) for line in lines for count in re.findall(r"vmcnt\((\d+)\)", line)]
    assert waits == ([8, 8] if chip == "gfx950" else [16, 16])


# ---- interleave ---------------------------------------------------------------------------------------------------------

INTERLEAVE = [
    ("gfx950", np.float16, "v_mfma_f32_32x32x16_f16", 16), ("gfx942", Z4, "v_mfma_f32_32x32x16_fp8_fp8", 16)]


@pytest.mark.long(shown_by="test_mfma_scaled_gemm.py::test_the_code_of_waves_that_take_turns")
@pytest.mark.parametrize("chip, dtype, product, run", INTERLEAVE)
def test_interleave(chip, dtype, product, run):
    """Eight phases of two trips; in each a quarter's products, the reads of one operand and the copies of another."""
    size = np.dtype(dtype).itemsize
    lines = loop(instructions(chip, INTERLEAVED[chip][size], dtype))
    parts = stages(lines)
    each = {"gfx950": (4, 8), "gfx942": (8, 4)}[chip]
    assert len(parts) == 9 and [names(part)[product] for part in parts[1:-1]] == [run] * 7
    for part in parts[1:-1]:
        copies = sum(line.startswith("buffer_load") and line.endswith("lds") for line in part)
        assert (copies, names(part)["ds_read_b128"]) == each
    assert moves(lines) <= 40 and not any(name.startswith(("ds_write", "scratch")) for name in names(lines))
    waits = {int(count) for line in lines for count in re.findall(r"vmcnt\((\d+)\)", line)}
    assert waits == {5 * each[0]}


# ---- what else ----------------------------------------------------------------------------------------------------------


def test_b_by_rows_is_read_transposed():
    lines = loop(instructions("gfx950", CONFIGURATIONS["gfx950"][2][1], np.float16, nk=False))
    assert names(lines)["ds_read_b64_tr_b16"] == 8 and names(lines)["ds_read_b128"] == 8
    assert sum(line.startswith("buffer_load_dwordx4") and line.endswith("lds") for line in lines) == 4


@pytest.mark.long(shown_by="tests/lowering/test_direct_copies.py::test_what_masked_elements_become")
def test_an_end_of_k_within_a_chunk_is_copied_as_wide():
    """By a mask over pieces of 16 bytes; and an epilogue leaves the registers that it needs."""
    scales = {name: np.zeros(256, np.float32) for name in ("bias", "row_scale", "column_scale")}
    lines = loop(instructions("gfx950", CONFIGURATIONS["gfx950"][1][0], E4, k=2.125, activation="silu", **scales))
    assert sum(line.startswith("buffer_load_dwordx4") and line.endswith("lds") for line in lines) == 8 and len(stages(lines)) == 5


def test_gfx1250():
    """Two halves of four waves each."""
    lines = loop(instructions("gfx1250", CONFIGURATIONS["gfx1250"][2][1], np.float16))
    assert names(lines)["v_wmma_f32_16x16x32_f16"] == 16 and names(lines)["s_setprio"] >= 4
    assert any(name.startswith("global_load_async_to_lds_b128") for name in names(lines))
