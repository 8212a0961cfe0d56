"""Products of groups of rows: sizes of all kinds, none of them a tile's; types; what is not a group's stays."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import grouped_gemm
from mimw.kernels.grouped_gemm import Configuration, configuration
from tests.lowering.assembly import assembled
from tests.lowering.launches import ptx_of

SCHEDULES = {
    "cooperative": Configuration(bm=128, bn=128, stages=3),
    "ping-pong": Configuration(bm=64, bn=128, stages=3, staging=1, ping_pong=True),
}
TYPES = {  # inputs, output, error against fp64 relative to the largest value
    "bf16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, 4e-3),
    "fp16": (np.float16, np.float16, 1e-3),
    "tf32": (np.float32, np.float32, 2e-3),
    "fp8": (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, 4e-3),
}


def problem(sizes, n, k, dtype="bf16", more=5, transposed=True):
    """(a, b, c, ends) for groups of so many rows, and `more` rows behind them."""
    inputs, output, _ = TYPES[dtype]
    random, ends = np.random.default_rng(0), np.cumsum(sizes).astype(np.int32)
    a = random.standard_normal((ends[-1] + more, k)).astype(inputs)
    b = random.standard_normal((len(sizes), n, k) if transposed else (len(sizes), k, n)).astype(inputs)
    return a, b.swapaxes(1, 2) if transposed else b, np.full((len(a), n), 7, output), ends


def holds(machine, arrays, allowed, chosen, programs=3):
    a, b, c, ends = arrays
    wanted = c.astype(np.float64)
    for group, (start, end) in enumerate(zip([0, *ends], ends)):
        wanted[start:end] = a[start:end].astype(np.float64) @ b[group].astype(np.float64)
    grid, args, meta = grouped_gemm.arguments(a, b, c, ends, programs, chosen)
    machine.launch(grouped_gemm.kernel, grid, *args, **meta)
    np.testing.assert_allclose(c.astype(np.float64), wanted, rtol=0, atol=allowed * np.abs(wanted).max())


@pytest.mark.parametrize("dtype, schedule", [("bf16", "cooperative"), ("bf16", "ping-pong"), ("fp16", "ping-pong"),
                                             ("tf32", "cooperative"), ("fp8", "ping-pong")])
def test_types_and_schedules(machine, dtype, schedule):
    holds(machine, problem((70, 0, 130, 1), 136, 80, dtype), TYPES[dtype][2], SCHEDULES[schedule])


@pytest.mark.long(everywhere=["112-False", "176-True"])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("chosen", [Configuration(bm=128, bn=176, stages=3, staging=1),
                                    Configuration(bm=64, bn=112, stages=3, staging=2, ping_pong=True)], ids=["176", "112"])
def test_tiles_of_any_columns(machine, chosen, transposed):
    holds(machine, problem((70, 0, 130, 1), 280, 80, transposed=transposed), 4e-3, chosen)


@pytest.mark.parametrize("sizes", [(0, 0), (1, ), (0, 64, 0), (128, 128), (3, 5, 7, 0, 2, 300)])
def test_sizes(machine, sizes):
    holds(machine, problem(sizes, 72, 72, transposed=False), 4e-3, SCHEDULES["ping-pong"])


@pytest.mark.parametrize("programs", [1, 2, 132])
def test_any_number_of_programs(machine, programs):
    holds(machine, problem((200, 1, 90), 264, 64), 4e-3, SCHEDULES["ping-pong"], programs)


def test_rows_of_a_wider_matrix(machine):
    """Strides of a and c that are not their extents, of b between the groups."""
    a, b, c, ends = problem((70, 30), 128, 64)
    wide = [np.full((len(x), 2 * x.shape[1]), 7, x.dtype) for x in (a, c)]
    wide[0][:, :64] = a
    holds(machine, (wide[0][:, :64], np.repeat(b, 2, 0)[::2], wide[1][:, :128], ends), 4e-3, SCHEDULES["cooperative"])
    assert (wide[1][:, 128:] == 7).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_interleaving_is_wrong(schedule):
    grid, args, meta = grouped_gemm.arguments(*problem((70, 0, 60), 136, 72), 2, SCHEDULES[schedule])
    assert mimw.check(grouped_gemm.kernel, grid, *args, seeds=5, **meta).ok


def test_a_map_that_ends_too_late_is_a_race():
    """Two programs write the first rows of a group where the store does not stop at the group's end."""
    a, b, c, ends = problem((70, 60), 128, 64, more=128)
    grid, args, meta = grouped_gemm.arguments(a, b, c, ends, 2, SCHEDULES["cooperative"])
    whole = mimw.TensorDescriptor(args[2].base, [2**30 + 1, 2**30 + 1, 2**30 + 256, 128], args[2].strides, args[2].block_shape)
    report = mimw.check(grouped_gemm.kernel, grid, *args[:2], whole, *args[3:], seeds=2, **meta)
    assert report.findings[0].kind == "DataRace"


def test_the_configuration_goes_by_the_average():
    assert [configuration(*sizes).bm for sizes in ((16384, 256), (128, 1), (129, 1), (2**29, 1))] == [64, 64, 128, 128]


@pytest.mark.parametrize("change, text", [
    (dict(b=np.zeros((2, 65, 64), np.float16)), "b is 2 x 65 x 64; for a 64 x 64 it must be 2 x 64 x N, .G, K, N."),
    (dict(ends=np.zeros(3, np.int32)), "ends is 3; for b 2 x 64 x 64 it must be 2, .G."),
    (dict(ends=np.zeros(2, np.int64)), "ends is int64; it may be int32"),
    (dict(b=np.zeros((64, 64), np.float16)), "b has 2 dimensions"),
    (dict(a=np.zeros((64, 128), np.float16)[:, ::2]), "strides are 256 and 4 bytes"),
])
def test_refusals(change, text):
    arrays = dict(a=np.zeros((64, 64), np.float16), b=np.zeros((2, 64, 64), np.float16), c=np.zeros((64, 64), np.float16),
                  ends=np.zeros(2, np.int32)) | change
    with pytest.raises(ValueError, match=text):
        grouped_gemm.arguments(**arrays, programs=1)


@pytest.mark.long(shown_by="test_gemm_any_columns.py::test_what_the_rule_may_choose_spills_nothing")
def test_nothing_spills(tmp_path):
    a, b = np.empty((512, 512), ml_dtypes.bfloat16), np.empty((8, 512, 512), ml_dtypes.bfloat16)
    _, args, meta = grouped_gemm.arguments(a, b, a, np.zeros(8, np.int32), 132)
    said = assembled(ptx_of(grouped_gemm.kernel, args, meta), tmp_path)
    assert "serialized" not in said and "0 bytes spill stores, 0 bytes spill loads" in said
