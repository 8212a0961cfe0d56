"""Products of few rows by whole columns: tiles of any extent, ragged sizes, scales, clusters that divide K."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import column_gemm
from mimw.kernels.column_gemm import Configuration, configuration
from tests.lowering.assembly import assembled
from tests.lowering.launches import ptx_of

BF16, FP8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
TYPES = {  # inputs, output, error against fp64 relative to the largest value
    "bf16": (BF16, BF16, 4e-3),
    "fp16": (np.float16, np.float16, 1e-3),
    "tf32": (np.float32, np.float32, 2e-3),
    "fp8": (FP8, BF16, 4e-3),
    "fp8 alone": (FP8, FP8, 5e-2),
}


def problem(shape, dtype="bf16", rows=False, columns=False, bias=False):
    """((x, w, c), what is added to a launch, the result in fp64); scales are of each row or column, or one of all."""
    (inputs, output, _), (m, n, k), random = TYPES[dtype], shape, np.random.default_rng(0)
    x, w = random.standard_normal((m, k)).astype(inputs), random.standard_normal((n, k)).astype(inputs)
    wanted, more = x.astype(np.float64) @ w.astype(np.float64).T, {}
    for name, each, length in (("row_scale", rows, m), ("column_scale", columns, n)):
        if each is not None:
            more[name] = (random.random(length if each else 1) + 0.5).astype(np.float32)
    if "row_scale" in more:
        wanted *= more["row_scale"][:, None]
    if "column_scale" in more:
        wanted *= more["column_scale"][None, :]
    if bias:
        more["bias"] = random.standard_normal(n).astype(BF16)
        wanted += more["bias"].astype(np.float64)
    return (x, w.T, np.full((m, n), np.nan, output)), more, wanted


def holds(machine, shape, chosen=None, programs=3, dtype="bf16", rows=None, columns=None, bias=False):
    arrays, more, wanted = problem(shape, dtype, rows, columns, bias)
    grid, args, meta = column_gemm.arguments(*arrays, programs, chosen, **more)
    machine.launch(column_gemm.kernel, grid, *args, **meta)
    np.testing.assert_allclose(arrays[2].astype(np.float64), wanted, rtol=0, atol=TYPES[dtype][2] * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", TYPES)
def test_types(machine, dtype):
    holds(machine, (5, 224, 400), dtype=dtype)


@pytest.mark.parametrize("shape", [(1, 8, 8), (16, 200, 320), (64, 72, 1000), (65, 1000, 200), (128, 136, 136)])
def test_shapes(machine, shape):
    holds(machine, shape)


@pytest.mark.parametrize("chosen", [
    Configuration(48, 4), Configuration(80, 2), Configuration(112, 2, lines=2), Configuration(32, 3, lines=4),
    Configuration(256, 2, streamed=False), Configuration(96, 3, rows=128), Configuration(64, 3, rows=128, ping_pong=True),
    Configuration(48, 2, ping_pong=True)], ids=str)
def test_tiles(machine, chosen):
    """Several tiles of a program, the last one of which sticks out."""
    holds(machine, (chosen.rows - 3, 600, 328), chosen, programs=2)


@pytest.mark.parametrize("rows, columns, bias", [(True, True, False), (False, True, True), (True, None, False), (None, None, True),
                                                 (False, False, False)])
def test_scales(machine, rows, columns, bias):
    """Of each row and column, one of all, none; a bias."""
    holds(machine, (20, 200, 320), Configuration(48, 3), dtype="fp8", rows=rows, columns=columns, bias=bias)


@pytest.mark.parametrize("chosen", [Configuration(64, 3, rows=128, split=4), Configuration(32, 3, split=2),
                                    Configuration(128, 2, split=8)], ids=str)
def test_clusters_divide_k(machine, chosen):
    holds(machine, (chosen.rows - 3, 200, 656), chosen, dtype="fp8", rows=True, columns=True, bias=True)


@pytest.mark.parametrize("chosen", [Configuration(48, 2), Configuration(32, 2, split=2)], ids=str)
def test_no_interleaving_is_wrong(chosen):
    arrays, more, _ = problem((3, 136, 200))
    grid, args, meta = column_gemm.arguments(*arrays, 2, chosen, **more)
    assert mimw.check(column_gemm.kernel, grid, *args, seeds=5, **meta).ok


@pytest.mark.parametrize("shape, out_bytes, tn, lines", [
    ((16, 6144, 512), 2, 48, 2), ((64, 57344, 512), 2, 224, 1), ((16, 51200, 512), 2, 208, 1), ((64, 10240, 512), 4, 80, 2),
    ((16, 5120, 512), 4, 40, 2), ((16, 5120, 512), 1, 64, 2), ((128, 24576, 512), 2, 192, 1), ((1, 8, 512), 2, 16, 2)])
def test_the_sum(shape, out_bytes, tn, lines):
    """All programs have as many tiles, whose columns can be staged, and a ring of four chunks or more."""
    chosen = configuration(*shape, 2, out_bytes, 132)
    assert (chosen.tn, chosen.lines) == (tn, lines) and chosen.rows >= shape[0]
    assert 4 <= chosen.stages == chosen.deepest(out_bytes)


def test_measured_configurations_fit():
    for (m, n, k, in_bytes), chosen in column_gemm.configs._measured().items():
        assert chosen.rows >= m and 2 <= chosen.stages <= chosen.deepest(2) and in_bytes in (1, 2)
        assert configuration(m, n, k, in_bytes, 2, 132) == chosen and column_gemm.suits(m, n, k, in_bytes, 2, 132)


@pytest.mark.parametrize("shape, suits, scaled", [
    ((64, 10240, 8192), True, True), ((128, 24576, 1536), True, True), ((33, 8192, 8192), True, True),
    ((32, 8192, 8192), False, True), ((16, 6144, 4096), False, True), ((1, 28672, 8192), False, True),
    ((64, 4096, 4096), False, False),
    ((128, 7168, 16384), False, False), ((129, 57344, 8192), False, False), ((64, 1024, 8192), False, False),
    ((64, 10240, 256), False, False), ((16, 4096, 4096), True, True), ((128, 2112, 7168), True, True)])
def test_shapes_that_it_suits(shape, suits, scaled):
    """Not those whose tiles have fewer weights than X has rows, nor of few tiles or weights; nor tiles that are mostly empty,
    unless there are scales; but those that were measured."""
    assert [column_gemm.suits(*shape, 2, 2, 132, given) for given in (False, True)] == [suits, scaled]


@pytest.mark.parametrize("change, text", [
    (dict(x=np.zeros((129, 64), np.float16), c=np.zeros((129, 64), np.float16)), "more rows are for `gemm`"),
    (dict(w=np.zeros((64, 64), np.float16)), "w must be contiguous along K"),
    (dict(chosen=Configuration(48, 2), x=np.zeros((65, 64), np.float16), c=np.zeros((65, 64), np.float16)), "x has 65 rows"),
    (dict(row_scale=np.zeros(3, np.float32)), "row_scale is 3"),
])
def test_refusals(change, text):
    square = np.zeros((64, 64), np.float16)
    with pytest.raises(ValueError, match=text):
        column_gemm.arguments(**dict(x=square, w=square.T, c=square, programs=1) | change)


def test_weights_leave_l2_first():
    arrays, _, _ = problem((16, 512, 512))
    for streamed in (True, False):
        chosen = replace(configuration(16, 512, 512, 2, 2, 132), streamed=streamed)
        _, args, meta = column_gemm.arguments(*arrays, 132, chosen)
        assert ("L2::evict_first" in ptx_of(column_gemm.kernel, args, meta)) == streamed


@pytest.mark.long(shown_by="test_gemm_any_columns.py::test_what_the_rule_may_choose_spills_nothing")
@pytest.mark.parametrize("shape, dtype", [((64, 10240, 512), "fp8"), ((16, 6144, 512), "bf16"), ((128, 24576, 512), "bf16"),
                                          ((128, 32768, 512), "fp8")])
def test_nothing_spills(tmp_path, shape, dtype):
    arrays, more, _ = problem(shape, dtype, *((True, True) if dtype == "fp8" else (None, None)))
    _, args, meta = column_gemm.arguments(*arrays, 132, **more)
    said = assembled(ptx_of(column_gemm.kernel, args, meta), tmp_path)
    assert "serialized" not in said and "0 bytes spill stores, 0 bytes spill loads" in said
