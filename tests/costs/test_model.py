"""Cost models: every figure has a source, and the formulas give what can be worked out by hand."""

from pathlib import Path

import pytest

import mimw.simulator.costs as costs
from mimw.errors import TargetError
from mimw.ir import Op, Scalar, Tensor, Value
from mimw.simulator.costs import model
from mimw.target import TARGETS

CHIPS = sorted(path.stem for path in Path(costs.__file__).parent.glob("*.toml"))
FP32, I32 = Scalar("fp32"), Scalar("i32")


def op(name, element=FP32, shape=(64, 128), operands=1):
    values = tuple(Value(Tensor(element, shape)) for _ in range(operands))
    return Op(name, values, (Value(Tensor(element, shape)), ))


def test_there_is_one_for_these_targets():
    assert CHIPS == ["ascend_910b", "gfx942", "gfx950", "sm_100a", "sm_90a"] and set(CHIPS) <= set(TARGETS)


@pytest.mark.parametrize("chip", CHIPS)
def test_every_figure_has_a_unit_and_a_source(chip):
    figures = model(chip).figures
    assert len(figures) > 35
    assert all(figure.unit and len(figure.source) > 10 and figure.value >= 0 for figure in figures.values())


@pytest.mark.parametrize("chip", CHIPS)
def test_peak_rates_are_the_datasheets(chip):
    """Dense 16-bit multiply-adds of the whole chip at its boost clock, in TFLOP/s."""
    found = model(chip)
    peak = 2 * found["tensor.macs_16"] * found["chip.sms"] * found["chip.boost_mhz"] / 1e6
    published = {"ascend_910b": 354, "gfx942": 1307, "gfx950": 2517, "sm_100a": 2250, "sm_90a": 1070}
    assert peak == pytest.approx(published[chip], rel=0.07)


@pytest.mark.parametrize("m, n, k, bits, cycles", [(64, 256, 64, 16, 512), (128, 256, 64, 16, 1024), (128, 256, 128, 8, 1024),
                                                   (128, 128, 32, 32, 512)])
def test_dots_take_what_was_measured(m, n, k, bits, cycles):
    """benchmarks/results/microbench.jsonl, within one per cent."""
    assert model("sm_90a").dot(m, n, k, bits, 0) == pytest.approx(cycles, rel=0.01)


def test_operands_bound_narrow_dots():
    """Two warpgroups, 64 x 32 x 64 each: 8 KiB of A and 4 KiB of B from shared memory for 128 cycles of arithmetic."""
    found = model("sm_90a")
    assert found.dot(128, 32, 64, 16, 0) == pytest.approx(128, rel=0.01)
    assert found.dot(128, 32, 64, 16, 2 * (64 * 64 + 32 * 64) * 2) == 192


def test_arithmetic_goes_to_its_unit():
    found = model("sm_90a")
    assert found.tile(op("fadd")) == {"issue": pytest.approx(8192 / 105)}
    assert found.tile(op("exp2")) == {"special": pytest.approx(8192 / 15.7), "issue": pytest.approx(8192 / 105)}
    assert found.tile(op("maximumf")) == {"issue": pytest.approx(8192 / 60)}
    assert found.tile(op("add", I32)) == {"issue": pytest.approx(8192 / 60)}
    assert found.tile(op("broadcast")) == {} == found.tile(op("fmul"), fused=True)


def test_few_warps_reach_a_part_of_the_sm():
    found = model("sm_90a")
    assert [found.slowdown(warps) for warps in (1, 2, 4, 8)] == [4, 2, 1, 1]


def test_scalars():
    found = model("sm_90a")
    number = Value(I32)
    assert found.scalar(Op("add", (number, number), (Value(I32), ))) == 3
    assert found.scalar(Op("sdiv", (number, number), (Value(I32), ))) == 100
    assert found.scalar(Op("constant", (1, I32), (Value(I32), ))) == 0


@pytest.mark.parametrize("shared, warps, registers, expected", [
    (229608, 12, 168, (1, "shared memory")), (100 << 10, 8, 64, (2, "shared memory")), (1024, 8, 128, (2, "registers")),
    (0, 4, 32, (16, "warps")), (0, 1, 16, (32, "the most CTAs of an SM"))])
def test_residency(shared, warps, registers, expected):
    assert model("sm_90a").residency(shared, warps, registers) == expected


def test_a_kernel_without_shared_memory_is_not_limited_by_it():
    assert model("gfx950").residency(0, 8, 64, 64)[1] != "shared memory"


def test_what_there_is_not():
    with pytest.raises(TargetError, match="there is no cost model of sm_120a.*gfx942, gfx950, sm_100a, sm_90a"):
        model("sm_120a")
    with pytest.raises(TargetError, match=r"cost model of gfx942 \(AMD MI300X.* has no figure 'tma.issue'"):
        model("gfx942")["tma.issue"]


# Cycles of one instruction after another, as SemiAnalysis has published them of a B200: bits, A in shared memory, CTAs, M, N, K.
PUBLISHED = [(16, True, 1, 128, 256, 16, 128.6), (16, True, 1, 128, 128, 16, 64.6), (16, True, 1, 128, 96, 16, 56.5),
             (16, True, 1, 128, 64, 16, 48.5), (16, False, 1, 128, 64, 16, 32.5), (16, True, 1, 64, 256, 16, 128.5),
             (16, True, 1, 64, 64, 16, 32.5), (16, True, 2, 256, 256, 16, 128.7), (16, True, 2, 128, 256, 16, 64.7),
             (8, True, 1, 64, 128, 32, 64.3), (8, True, 1, 128, 256, 32, 128.3), (4, True, 1, 128, 256, 64, 128.2),
             (4, True, 1, 128, 64, 64, 48.2)]


@pytest.mark.parametrize("bits, a_shared, ctas, m, n, k, cycles", PUBLISHED)
def test_products_in_tensor_memory_take_what_was_published(bits, a_shared, ctas, m, n, k, cycles):
    """Each CTA of a pair reads its rows of A and its columns of B."""
    found = model("sm_100a")
    operands = found.shared_operands(m // ctas, n // ctas, k, bits, bits, a_shared)
    assert found.dot(m, n, k, bits, operands, ctas) == pytest.approx(cycles, rel=0.02)


def test_one_product_in_tensor_memory_takes_what_was_published():
    """128 x 256 x 16, its commit and the wait: 264 cycles; of N = 128 200."""
    found = model("sm_100a")
    around = found["tcgen05.latency"] + found["barrier.wake"]
    assert [found.dot(128, n, 16, 16, 0) + around for n in (256, 128, 64)] == [264, 200, 168]


def test_instructions():
    found = model("sm_100a")
    assert found.instructions(128, 256, 64, 16) == found.instructions(64, 64, 128, 8) == 4
    assert found.instructions(128, 256, 16, 32) == 2 and found.instructions(256, 512, 16, 16) == 4


def test_a_warp_reaches_a_quarter_of_tensor_memory():
    """A tile of 128 x 128 in fp32."""
    found = model("sm_100a")
    assert [found.tensor_memory(65536, warps, "load") for warps in (4, 8)] == [pytest.approx(65536 / (4 * 57))] * 2
    assert found.tensor_memory(4096, 1, "store") == pytest.approx(4096 / 28)


def test_rows_are_copied_one_by_one_or_four_by_four():
    """On the H200 128 rows of 128 bytes take 0.38 us if nothing else holds them up (benchmarks/results/gather.jsonl)."""
    hopper, blackwell = model("sm_90a"), model("sm_100a")
    assert hopper.row_copies(128, 128) * hopper["tma.rows_cycles"] / 1980 == pytest.approx(0.38, rel=0.02)
    assert hopper.row_copies(3, 512) == 12 and blackwell.row_copies(9, 256) == 6


def test_what_was_not_measured_says_so():
    found = model("sm_100a")
    assert "unmeasured" in found.chip
    assert not any("microbench.jsonl" in figure.source for figure in found.figures.values())
