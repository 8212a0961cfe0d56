"""Products of few rows: shares that cut tiles anywhere, sums in a settled order, flags that are clear again."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import skinny_gemm
from mimw.kernels.skinny_gemm import configuration, room_for
from tests.lowering.assembly import assembled
from tests.lowering.launches import ptx_of

TYPES = {  # inputs, output, error against fp64 relative to the largest value
    "bf16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, 4e-3),
    "fp16": (np.float16, np.float16, 1e-3),
    "tf32": (np.float32, np.float32, 2e-3),
    "fp8": (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, 4e-3),
}


def problem(shape, programs, dtype="bf16", transposed=True, chosen=None):
    """(x, w, c, room, flags), the room full of what must not be used."""
    inputs, output, _ = TYPES[dtype]
    (m, n, k), random = shape, np.random.default_rng(0)
    x = random.standard_normal((m, k)).astype(inputs)
    w = random.standard_normal((n, k) if transposed else (k, n)).astype(inputs)
    room, flags = room_for(m, n, programs, chosen)
    return (x, w.T if transposed else w, np.full((m, n), np.nan, output), np.full(room, np.nan, np.float32),
            np.zeros(flags, np.int32))


def holds(machine, arrays, allowed, programs, chosen=None):
    x, w, c, room, flags = arrays
    grid, args, meta = skinny_gemm.arguments(x, w, c, room, flags, programs, chosen)
    machine.launch(skinny_gemm.kernel, grid, *args, **meta)
    wanted = x.astype(np.float64) @ w.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), wanted, rtol=0, atol=allowed * np.abs(wanted).max())
    assert not flags.any()


@pytest.mark.parametrize("dtype, transposed", [("bf16", True), ("bf16", False), ("fp16", False), ("tf32", True), ("fp8", True)])
def test_types(machine, dtype, transposed):
    holds(machine, problem((5, 200, 400), 3, dtype, transposed), TYPES[dtype][2], 3)


@pytest.mark.long(but=["shape0", "shape2", "shape4"], everywhere=True)
@pytest.mark.parametrize("shape", [(1, 8, 8), (16, 128, 64), (17, 136, 200), (150, 72, 72), (300, 136, 136)])
def test_shapes(machine, shape):
    holds(machine, problem(shape, 4), 4e-3, 4)


@pytest.mark.parametrize("programs", [1, 2, 5, 7, 30, 132])
def test_any_number_of_programs(machine, programs):
    """Two tiles of ten chunks: whole tiles, tiles of two programs and of many, programs of one chunk."""
    holds(machine, problem((3, 256, 640), programs), 4e-3, programs)


def test_the_order_of_sums_is_settled():
    """To the bit the same for any order in which programs run, in fp32."""
    results = []
    for seed in (None, 1, 2):
        arrays = problem((3, 128, 640), 5, "tf32")
        grid, args, meta = skinny_gemm.arguments(*arrays, 5)
        mimw.simulate(skinny_gemm.kernel, grid, *args, **({} if seed is None else {"seed": seed}), **meta)
        results.append(arrays[2].tobytes())
    assert len(set(results)) == 1


@pytest.mark.long(but=["5"], everywhere=True)
@pytest.mark.parametrize("programs", [2, 5])
def test_no_interleaving_is_wrong(programs):
    grid, args, meta = skinny_gemm.arguments(*problem((3, 136, 200), programs), programs)
    assert mimw.check(skinny_gemm.kernel, grid, *args, seeds=5, **meta).ok


def test_a_configuration_holds_all_rows():
    chosen = [configuration(m, 28672, 132) for m in (1, 16, 17, 64, 200, 256, 1000)]
    assert [one.tm for one in chosen] == [16, 16, 32, 64, 256, 256, 256] and all(one.stages >= 4 for one in chosen)


def test_tiles_are_whole_where_that_keeps_all_busy():
    """128 tiles and 132 programs: one each, of 64 weights, or of half of 256 rows."""
    chosen = [configuration(m, 8192, 132) for m in (1, 128, 256)]
    assert [(one.tm, one.consumers) for one in chosen] == [(16, 1), (64, 2), (128, 2)]
    x, w, c, room, flags = problem((16, 8192, 64), 132)
    assert skinny_gemm.arguments(x, w, c, room, flags, 132)[0] == (128, )


@pytest.mark.parametrize("change, text", [
    (dict(w=np.zeros((65, 64), np.float16)), "w is 65 x 64; for x 64 x 64 it must be 64 x N, .K, N."),
    (dict(room=np.zeros(9, np.float32)), "room has 9 elements; the launch needs 4096"),
    (dict(flags=np.zeros((1, 1), np.int32)), "flags has 2 dimensions"),
    (dict(flags=np.zeros(2, np.int64)), "flags is int64"),
    (dict(c=np.zeros((64, 128), np.float16)[:, ::2]), "c must be contiguous along its last dimension; its strides are"),
])
def test_refusals(change, text):
    square = np.zeros((64, 64), np.float16)
    arrays = dict(x=square, w=square, c=square, room=np.zeros(8192, np.float32), flags=np.zeros(2, np.int32)) | change
    with pytest.raises(ValueError, match=text):
        skinny_gemm.arguments(**arrays, programs=1)


@pytest.mark.long(shown_by="test_skinny_scaled_gemm.py::test_nothing_spills")
def test_nothing_spills(tmp_path):
    arrays = problem((128, 512, 512), 132)
    _, args, meta = skinny_gemm.arguments(*arrays, 132)
    said = assembled(ptx_of(skinny_gemm.kernel, args, meta), tmp_path)
    assert "serialized" not in said and "0 bytes spill stores, 0 bytes spill loads" in said
