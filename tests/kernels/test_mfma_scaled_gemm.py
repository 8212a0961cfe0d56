"""Products in microscaling formats for gfx950: simulated by its rules, without races, equal to numpy, and compiled to a binary.

Nothing here has run on a chip of AMD.
"""

import re

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import mfma_scaled_gemm
from mimw.kernels.mfma_gemm.layouts import in_lds
from mimw.kernels.mfma_scaled_gemm import Configuration, arguments, shuffled
from mimw.kernels.mfma_scaled_gemm.layouts import of_rows
from tests.kernels.microscaling import operand, small_operand

CHIP, BF16 = "gfx950", ml_dtypes.bfloat16
PING_PONG, INTERLEAVE = Configuration("ping-pong", 128, 128), Configuration("interleave", 128, 128)
FORMS = {"ping-pong": PING_PONG, "interleave": INTERLEAVE}


def problem(a_format, b_format, m, n, k, drawn=operand):
    """(a, b, scale_a, scale_b), and c in fp64."""
    draw = np.random.default_rng(0)
    (a, scale_a, left), (b, scale_b, right) = drawn(draw, a_format, m, k), drawn(draw, b_format, n, k)
    return (a, b, scale_a, scale_b), left.astype(np.float64) @ right.astype(np.float64).T


def launch(given, c, chosen, in_order=False):
    a, b, *scales = given
    return arguments(a, b, c, *(map(shuffled, scales) if in_order else scales), chosen, are_shuffled=in_order)


def simulated(given, wanted, chosen, dtype=np.float32, allowed=1e-6, in_order=False):
    """The sums of fp32 differ from those of fp64 by their rounding, and by that of C's type."""
    m, n = wanted.shape
    c = np.full((m + 1, n + 3), 7, dtype)       # what is around C stays
    grid, args, meta = launch(given, c[:m, :n], chosen, in_order)
    mimw.simulate(mfma_scaled_gemm.kernel, grid, *args, target=CHIP, races=True, **meta)
    np.testing.assert_allclose(c[:m, :n].astype(np.float64), wanted, rtol=0, atol=allowed * np.abs(wanted).max())
    assert (c[m:] == 7).all() and (c[:, n:] == 7).all()


@pytest.mark.long(but=["e2m1-e2m1-ping-pong", "e4m3-e4m3-interleave", "e5m2-e5m2-ping-pong"], everywhere=True)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("a_format, b_format", [
    ("e2m1", "e2m1"), ("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e5m2"), ("e4m3", "e2m1"), ("e2m1", "e5m2")])
def test_formats(form, a_format, b_format):
    """Every finite code, three steps along K."""
    k = 768 if a_format == b_format == "e2m1" else 384
    simulated(*problem(a_format, b_format, 128, 128, k), FORMS[form])


@pytest.mark.long(everywhere=True, but=[
    "1-1-128-ping-pong", "200-150-384-interleave", "129-260-640-ping-pong", "129-260-640-interleave"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("m, n, k", [(1, 1, 128), (200, 150, 384), (129, 260, 640)])
def test_tiles_that_stick_out(form, m, n, k):
    """Of fp4 a step is 256 numbers, and the last one a half of it. Many tiles are shared out among dies."""
    simulated(*problem("e2m1", "e2m1", m, n, k), FORMS[form])


@pytest.mark.long(but=["chosen0", "chosen2"], everywhere=True)
@pytest.mark.parametrize("chosen", [PING_PONG, INTERLEAVE, Configuration("ping-pong", 128, 256, side=32),
                                    Configuration("interleave", 64, 128)])
def test_other_tiles_and_instructions(chosen):
    simulated(*problem("e5m2", "e4m3", 130, 40, 256), chosen)
    simulated(*problem("e2m1", "e4m3", 130, 40, 256), chosen, BF16, 4e-3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("m, n, k", [(128, 128, 512), (70, 150, 384)])
def test_shuffled_scales(form, m, n, k):
    simulated(*problem("e2m1", "e2m1", m, n, k), FORMS[form], np.float16, 1e-3, in_order=True)


def test_the_order_of_shuffled_scales():
    """As the contract says it; what is added is 1."""
    scales = np.arange(40 * 12, dtype=np.uint32).astype(np.uint8).reshape(40, 12)
    found = shuffled(scales)
    assert found.shape == (2, 512) and found[1, 256:].tolist().count(127) == 256 - 8 * 4
    for row, group in ((0, 0), (17, 5), (39, 11), (33, 8)):
        byte = 4 * (16 * (group % 4) + row % 16) + 2 * (group // 4 % 2) + row // 16 % 2
        assert found[row // 32, group // 8 * 256 + byte] == scales[row, group]


@pytest.mark.parametrize("form", FORMS)
def test_scales_at_the_ends(form):
    """2^-123 and 2^123, one by the other."""
    (a, b, *_), _ = problem("e2m1", "e2m1", 128, 128, 256, small_operand)
    given = a, b, np.full((128, 8), 4, np.uint8), np.full((128, 8), 250, np.uint8)
    ones = a, b, np.full((128, 8), 127, np.uint8), np.full((128, 8), 127, np.uint8)
    found = [np.zeros((128, 128), np.float32) for _ in range(2)]
    for scaled, c in zip((given, ones), found):
        grid, args, meta = launch(scaled, c, FORMS[form])
        mimw.simulate(mfma_scaled_gemm.kernel, grid, *args, target=CHIP, **meta)
    assert (found[0] == found[1]).all() and found[0].any()


@pytest.mark.long(but=["ping-pong"], everywhere=True)
@pytest.mark.parametrize("form", FORMS)
def test_halves_and_slots_are_ordered(form):
    """No schedule of the waves races, and none gives another result."""
    given, _ = problem("e2m1", "e2m1", 128, 128, 1024, small_operand)
    grid, args, meta = launch(given, np.zeros((128, 128), np.float32), FORMS[form])
    assert mimw.check(mfma_scaled_gemm.kernel, grid, *args, target=CHIP, jobs=1, **meta).ok


# ---- memory -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows, line", [(128, 128), (256, 128), (256, 64)])
@pytest.mark.parametrize("side", [16, 32])
@pytest.mark.parametrize("size", [1, 2])
def test_reads_of_operands_have_no_bank_conflicts(side, size, rows, line):
    """The lanes of each phase of ds_read_b128 are at banks of their own, each four of 64; of fp16 (`mfma_gemm`), too."""
    layout = of_rows(rows, line, side) if size == 1 else in_lds(CHIP, rows, line // size, size, 2, side)
    (block, gap), = layout.interval_padding_pairs

    def place(row, byte):
        column = byte // size
        whole = sum(1 << bit for bit, (down, along) in enumerate(layout.offset_bases) if row & down or column & along)
        return (whole + whole // block * gap) * size

    for phase in (0, 1, 2, 3, 12, 13, 14, 15, *range(20, 28)), (*range(4, 12), *range(16, 20), *range(28, 32)):
        for first, upper in ((0, 0), (rows - side, 32)):
            lanes = [(first + (lane + upper) % side, (lane + upper) // side * 16) for lane in phase]
            assert len({place(*lane) // 16 % 16 for lane in lanes}) == 16


# ---- code ---------------------------------------------------------------------------------------------------------------


def runs(code):
    """How many scaled products stand between two barriers, for each pair of these with any."""
    parts = re.split(r"^\ts_barrier$", code, flags=re.MULTILINE)
    return [part.count("\tv_mfma_scale_f32") for part in parts if "\tv_mfma_scale_f32" in part]


def compiled(a_format, b_format, chosen, in_order=False, k=1024, m=256):
    given, _ = problem(a_format, b_format, m, m, k, small_operand)
    grid, args, meta = launch(given, np.zeros((m, m), BF16), chosen, in_order)
    found = mimw.compile(mfma_scaled_gemm.kernel, grid, *args, target=CHIP, **meta)
    assert found.hsaco[:4] == b"\x7fELF" and found.spilled_registers == 0 and found.stack_bytes == 0
    assert ".vgpr_spill_count: 0" in found.amdgcn and "scratch_" not in found.amdgcn
    return found.amdgcn


@pytest.mark.long(but=["e4m3-*"], everywhere=True)
@pytest.mark.parametrize("a_format, b_format, in_order, each, multiplies", [
    ("e2m1", "e2m1", False, 32, "16x16x128"), ("e4m3", "e2m1", False, 16, "16x16x128")])
def test_the_code_of_waves_that_take_turns(a_format, b_format, in_order, each, multiplies):
    """A stage multiplies 64 x 64 a wave: 32 instructions of 16 cycles of fp4, or 16 of 32 cycles where one operand is fp8."""
    code = compiled(a_format, b_format, Configuration(), in_order)
    assert runs(code) == [each, each] and f"v_mfma_scale_f32_{multiplies}_f8f6f4" in code
    stages = re.findall(r"s_setprio 1(?:(?!s_setprio).)*s_setprio 0", code, re.DOTALL)
    assert sum(one.count("v_mfma_scale") for one in stages) == 2 * each
    straight_to_lds(code, in_order)


@pytest.mark.long(shown_by="test_the_code_of_waves_that_take_turns")
@pytest.mark.parametrize("a_format, b_format, side, each", [("e2m1", "e2m1", 16, 128), ("e4m3", "e4m3", 32, 32)])
def test_the_code_of_waves_that_interleave(a_format, b_format, side, each):
    """128 x 128 a wave in each step; waves meet twice a step."""
    code = compiled(a_format, b_format, Configuration("interleave", side=side), a_format == "e2m1")
    assert sum(runs(code)) == each and len(runs(code)) <= 3
    straight_to_lds(code, a_format == "e2m1")


def straight_to_lds(code, in_order):
    for width in ("dwordx4", "dword"):
        assert re.search(rf"buffer_load_{width} .* lds$", code, re.MULTILINE)
    assert "ds_read_b128" in code and "ds_write" not in code
    assert ("ds_read_b32" in code or "ds_read2" in code) == in_order and ("ds_read_u8" in code) != in_order


# ---- what is refused ----------------------------------------------------------------------------------------------------


def zeros(m=128, n=128, k=256):
    return ([np.zeros((rows, k // 2), np.uint8) for rows in (m, n)], [np.zeros((rows, k // 32), np.uint8) for rows in (m, n)])


@pytest.mark.parametrize("change, text", [
    (lambda a, b, c, s, t: (a, b[:, :64], c, s, t), "b is 128 x 64"),
    (lambda a, b, c, s, t: (a[:, :96], b[:, :96], c, s[:, :6], t[:, :6]), "pad the rows with zeros to a multiple of 128"),
    (lambda a, b, c, s, t: (a, b, c, s[:, :4], t), "scale_a is 128 x 4"),
    (lambda a, b, c, s, t: (a, b, c.T, s, t), "c must be contiguous along its last dimension"),
    (lambda a, b, c, s, t: (a, b, c, np.zeros((128, 9), np.uint8)[:, :8], t), "scale_a must .* multiples of 4 bytes"),
    (lambda a, b, c, s, t: (np.zeros((128, 136), np.uint8)[:, :128], b, c, s, t), "a must .* multiples of 16 bytes"),
    (lambda a, b, c, s, t: (np.zeros(128 * 144 + 8, np.uint8)[8:].reshape(128, 144)[:, :128], b, c, s, t),
     "a must begin at a multiple of 16 bytes"),
    (lambda a, b, c, s, t: (a.view(np.int8), b, c, s, t), "a is int8"),
    (lambda a, b, c, s, t: (a, b, c.astype(np.float64), s, t), "c is float64")])
def test_what_does_not_fit_is_refused(change, text):
    operands, scales = zeros()
    with pytest.raises(ValueError, match=text):
        arguments(*change(*operands, np.zeros((128, 128), np.float32), *scales))


def test_shuffled_scales_of_fp8_are_refused():
    given, _ = problem("e4m3", "e4m3", 32, 32, 256)
    with pytest.raises(ValueError, match="scales of fp8 lie by rows"):
        launch(given, np.zeros((32, 32), np.float32), None, in_order=True)


def test_rows_out_of_reach_are_refused():
    a = np.lib.stride_tricks.as_strided(np.zeros(64, np.uint8), (2, 64), (1 << 24, 1))
    with pytest.raises(ValueError, match="reach is 2147483648; the rows of a tile"):
        arguments(a, a, np.zeros((2, 2), np.float32), *[np.zeros((2, 4), np.uint8)] * 2)


@pytest.mark.parametrize("chosen, in_order", [(Configuration("interleave", 64, 128, side=32), False),
                                              (Configuration(bn=64), True)])
def test_a_tile_that_leaves_waves_without_work_is_refused(chosen, in_order):
    with pytest.raises(ValueError, match="least is 128; a tile has so many rows and columns at least"):
        launch(problem("e2m1", "e2m1", 32, 32, 256)[0], np.zeros((32, 32), np.float32), chosen, in_order)


def test_the_choice():
    """Large tiles where there is one for each compute unit."""
    assert mfma_scaled_gemm.configuration(4096, 4096) == Configuration()
    assert mfma_scaled_gemm.configuration(4096, 2048) == INTERLEAVE
