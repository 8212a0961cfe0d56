"""Matrix instructions of AMD's chips: those that Triton picks, their cycles against the published peaks, and LDS by width."""

import re
from collections import Counter

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import TargetError
from mimw.simulator.costs import model
from tests.compiling import to_assembly


@mimw.jit
def dot(x, y, z, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    tile = tlx.local_alloc((M, K), tlx.dtype_of(x), 1)
    tlx.local_store(tile[0], tl.load(x + m[:, None] * K + k[None, :]))
    b = tl.load(y + k[:, None] * N + n[None, :])
    tl.store(z + m[:, None] * N + n[None, :], tl.dot(tlx.local_load(tile[0]), b, input_precision=PRECISION))


@mimw.jit
def scaled(x, sx, y, sy, z, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FX: tl.constexpr, FY: tl.constexpr):
    DX: tl.constexpr = K // 2 if FX == "e2m1" else K
    DY: tl.constexpr = K // 2 if FY == "e2m1" else K
    m, n, groups = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32)
    tile = tlx.local_alloc((M, DX), tlx.dtype_of(x), 1)
    tlx.local_store(tile[0], tl.load(x + m[:, None] * DX + tl.arange(0, DX)[None, :]))
    b = tl.load(y + tl.arange(0, DY)[:, None] * N + n[None, :])
    a_scale = tl.load(sx + m[:, None] * (K // 32) + groups[None, :])
    b_scale = tl.load(sy + n[:, None] * (K // 32) + groups[None, :])
    acc = tlx.dot_scaled(tlx.local_load(tile[0]), a_scale, FX, b, b_scale, FY)
    tl.store(z + m[:, None] * N + n[None, :], acc)


def instructions(compiled):
    return Counter(re.findall(r"^\s*(v_mfma\w+)", compiled.stages["amdgcn"], re.MULTILINE))


SHAPES = {"large": (64, 64, 128), "shallow": (64, 64, 32), "low": (16, 64, 128), "both": (16, 64, 64)}
CASES = [("gfx942", "fp16", None, "large"), ("gfx942", "bf16", None, "low"), ("gfx942", "fp8e4b8", None, "large"),
         ("gfx942", "fp8e4nv", None, "low"), ("gfx942", "fp32", "ieee", "low"), ("gfx942", "fp32", "tf32", "large"),
         ("gfx942", "fp32", "bf16x3", "low"), ("gfx942", "i8", None, "low"), ("gfx942", "fp64", None, "both"),
         ("gfx950", "fp16", None, "large"), ("gfx950", "bf16", None, "both"), ("gfx950", "fp8e4nv", None, "large"),
         ("gfx950", "fp8e5", None, "shallow"), ("gfx950", "fp8e4nv", None, "low"), ("gfx950", "fp8e4nv", None, "both"),
         ("gfx950", "fp8e4b8", None, "low"), ("gfx950", "fp32", "ieee", "both"), ("gfx950", "fp32", "bf16x3", "both"),
         ("gfx950", "i8", None, "large"), ("gfx950", "i8", None, "shallow"), ("gfx950", "fp64", None, "both")]


@pytest.mark.long(everywhere=True, but=[
    "gfx942-fp8e4nv-*", "gfx942-bf16-*", "gfx942-fp32-ieee-*", "gfx950-fp8e5-*", "gfx942-i8-*", "gfx950-fp8e4nv-*",
    "gfx950-fp32-*", "gfx942-fp64-*", "gfx950-i8-*"])
@pytest.mark.parametrize("chip, element, precision, shape", CASES)
def test_a_product_takes_the_instructions_that_triton_picks(chip, element, precision, shape):
    """The waves of a work-group do alike, so the text of the kernel has what each of them does; four have a matrix core each."""
    result = {"i8": "i32", "fp64": "fp64"}.get(element, "fp32")
    constants = dict(zip(("M", "N", "K"), SHAPES[shape])) | {"PRECISION": precision}
    compiled = to_assembly(dot, {"x": f"*{element}", "y": f"*{element}", "z": f"*{result}"}, constants, target=chip)
    (op, ) = compiled.program.named("dot")
    costs, ((name, count), ) = model(chip), instructions(compiled).items()
    family, depth = costs.family(op)
    used = costs.instruction(family, *SHAPES[shape][:2], depth)
    assert f"_{used.m}x{used.n}x{used.k}_" in name
    assert costs.product(op, 4).cycles == count * used.cycles and costs.product(op, 4).share == 1


@pytest.mark.long(but=["formats2-*"], everywhere=True)
@pytest.mark.parametrize("formats, shape, name", [
    (("e2m1", "e2m1"), (64, 64, 128), "scaled4"), (("e4m3", "e2m1"), (64, 64, 128), "scaled8"),
    (("e4m3", "e5m2"), (16, 64, 128), "scaled8")])
def test_a_scaled_product_on_gfx950_has_instructions_of_its_own(formats, shape, name):
    stored = {"e2m1": "*u8", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5"}
    signature = {"x": stored[formats[0]], "sx": "*u8", "y": stored[formats[1]], "sy": "*u8", "z": "*fp32"}
    compiled = to_assembly(scaled, signature, dict(zip(("M", "N", "K", "FX", "FY"), (*shape, *formats))), target="gfx950")
    (op, ) = compiled.program.named("dot_scaled")
    costs, ((found, count), ) = model("gfx950"), instructions(compiled).items()
    assert costs.family(op) == (name, shape[2])
    used = costs.instruction(name, *shape)
    assert found.startswith(f"v_mfma_scale_f32_{used.m}x{used.n}x{used.k}_f8f6f4")
    assert costs.product(op, 4).cycles == count * used.cycles
    old = to_assembly(scaled, signature, dict(zip(("M", "N", "K", "FX", "FY"), (*shape, *formats))), target="gfx942")
    assert model("gfx942").family(old.program.named("dot_scaled")[0])[0] == "f16"


# TFLOP/s of whole chips at their boost clock, from the data sheets.
PEAKS = {("gfx942", "f16"): 1307.4, ("gfx942", "fnuz8"): 2614.9, ("gfx942", "i8"): 2614.9, ("gfx942", "xf32"): 653.7,
         ("gfx942", "f32"): 163.4, ("gfx942", "f64"): 163.4,
         ("gfx950", "f16"): 2516.6, ("gfx950", "ocp8"): 5033.2, ("gfx950", "scaled8"): 5033.2, ("gfx950", "scaled4"): 10066.3,
         ("gfx950", "i8"): 5033.2, ("gfx950", "f32"): 157.3, ("gfx950", "f64"): 78.6}
# Of another chip with the same compute units: how many, their clock, what is published.
OTHERS = {("gfx942", 304, 2100, "f16"): 1307.4, ("gfx950", 256, 2200, "f16"): 2306.9, ("gfx950", 256, 2200, "ocp8"): 4613.7,
          ("gfx950", 256, 2200, "scaled4"): 9227.5, ("gfx950", 256, 2200, "f32"): 144.2}
HALF = {"ocp8_32x32x16", "ocp8_16x16x32"}       # the instructions of CDNA 3, at its cycles


def entries(chip, family):
    return {name.removeprefix("mfma."): figure.value for name, figure in model(chip).figures.items()
            if name.startswith(f"mfma.{family}_")}


def teraflops(name, cycles, units, megahertz):
    """2 M N K x matrix cores x clock / cycles."""
    m, n, k = map(int, name.split("_")[1].split("x"))
    return 2 * m * n * k * 4 * units * megahertz / cycles / 1e6


@pytest.mark.parametrize("chip, family", PEAKS)
def test_cycles_give_the_published_peaks(chip, family):
    costs, found = model(chip), entries(chip, family)
    assert found
    for name, cycles in found.items():
        share = 0.5 if name in HALF else 1
        peak = teraflops(name, cycles, costs["chip.sms"], costs["chip.boost_mhz"])
        assert peak == pytest.approx(share * PEAKS[chip, family], rel=0.002), name


@pytest.mark.parametrize("chip, units, megahertz, family", OTHERS)
def test_cycles_give_the_peaks_of_their_sisters(chip, units, megahertz, family):
    """MI325X and MI350X."""
    for name, cycles in entries(chip, family).items():
        share = 0.5 if name in HALF else 1
        assert teraflops(name, cycles, units, megahertz) == pytest.approx(share * OTHERS[chip, units, megahertz, family], rel=0.002)


@pytest.mark.parametrize("chip, bits, family", [("gfx942", "8", "fnuz8"), ("gfx942", "16", "f16"), ("gfx942", "tf32", "xf32"),
                                                ("gfx942", "32", "f32"), ("gfx942", "64", "f64"), ("gfx950", "4", "scaled4"),
                                                ("gfx950", "8", "ocp8"), ("gfx950", "16", "f16"), ("gfx950", "32", "f32"),
                                                ("gfx950", "64", "f64")])
def test_rates_of_the_data_sheet_are_those_of_the_instructions(chip, bits, family):
    costs, rates = model(chip), set()
    for name, cycles in entries(chip, family).items():
        m, n, k = map(int, name.split("_")[1].split("x"))
        rates.add(4 * m * n * k / cycles * (2 if name in HALF else 1))
    assert rates == {costs[f"tensor.macs_{bits}"]}


def test_what_a_chip_has_not():
    assert not entries("gfx950", "xf32") and not entries("gfx942", "scaled8")
    with pytest.raises(TargetError, match="has no figure 'mfma.scaled4'"):
        model("gfx942").instruction("scaled4", 64, 64, 128)


def test_few_waves_have_a_part_of_the_matrix_cores():
    """64 x 64 x 128 halves are 4 tiles: one wave does all of them on one core; of eight four repeat what others do."""
    compiled = to_assembly(dot, {"x": "*fp16", "y": "*fp16", "z": "*fp32"}, {"M": 64, "N": 64, "K": 128, "PRECISION": None},
                           target="gfx950")
    (op, ) = compiled.program.named("dot")
    found = {warps: model("gfx950").product(op, warps) for warps in (1, 2, 4, 8)}
    assert {warps: (one.cycles, one.share) for warps, one in found.items()} == {
        1: (4 * 8 * 32, 0.25), 2: (2 * 8 * 32, 0.5), 4: (8 * 32, 1.0), 8: (2 * 8 * 32, 1.0)}
    assert model("gfx950").operand_reads(op, 4) == (2 * 64 * 128 * 2, 2 * 64 * 128 * 2)
    assert model("gfx950").operand_reads(op, 1) == (64 * 128 * 2, 64 * 128 * 2)


@pytest.mark.parametrize("chip, lane_bytes, reads, cycles", [
    ("gfx942", 16, True, 128), ("gfx942", 4, True, 128), ("gfx942", 16, False, 128), ("gfx950", 16, True, 64),
    ("gfx950", 8, True, 64), ("gfx950", 4, True, 128), ("gfx950", 16, False, 128)])
def test_wide_reads_of_lds_are_fast_on_gfx950(chip, lane_bytes, reads, cycles):
    assert model(chip).shared(16384, lane_bytes, reads) == cycles


@pytest.mark.parametrize("shared, warps, registers, expected", [
    (65536, 4, 168, (2, "LDS")), (0, 4, 168, (3, "registers")), (0, 4, 129, (3, "registers")), (0, 8, 256, (1, "registers")),
    (0, 8, 264, (1, "registers")), (0, 4, 32, (8, "registers")), (0, 2, 512, (2, "registers")), (1024, 16, 64, (2, "registers"))])
def test_residency(shared, warps, registers, expected):
    assert model("gfx950").residency(shared, warps, registers) == expected


def test_nothing_is_invented_for_gfx1250():
    with pytest.raises(TargetError, match="there is no cost model of gfx1250: AMD has published no clock, no cycles of its matrix"):
        model("gfx1250")
