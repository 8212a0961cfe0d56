"""The product of picked rows: types, row numbers of all kinds, shapes that no tile divides."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import gather_matmul_scatter as fused
from mimw.kernels.gather_matmul_scatter import Configuration
from mimw.runtime.compile_kernel import compile_kernel

TYPES = {  # inputs, output, error against fp32 relative to the largest value
    "bf16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, 5e-3),
    "fp16": (np.float16, np.float16, 1e-3),
    "fp16 to fp32": (np.float16, np.float32, 1e-4),
    "tf32": (np.float32, np.float32, 2e-3),
    "fp8": (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, 5e-3),
}


class Blackwell:
    """The simulator of a chip with tensor memory; there is no such chip here."""

    def launch(self, kernel, grid, *args, **meta):
        return mimw.simulate(kernel, grid, *args, target="sm_100a", races=True, **meta)


def run(machine, dtype, rows, sizes, chosen=None, programs=3, transposed=False, seed=0):
    """(what the kernel leaves in c, what it should leave, the allowed error)."""
    blackwell = isinstance(machine, Blackwell)
    inputs, output, allowed = TYPES[dtype]
    (m, n, k, m_out), random = sizes, np.random.default_rng(seed)
    a = random.standard_normal((m, k)).astype(inputs)
    b = random.standard_normal((n, k) if transposed else (k, n)).astype(inputs)
    b = b.T if transposed else b
    c = np.full((m_out, n), 7, output)
    source = random.integers(-m // 8 - 1, m + m // 8 + 1, rows).astype(np.int32)
    target = (random.permutation(m_out + rows)[:rows] - rows // 8).astype(np.int32)
    expected = c.astype(np.float32)
    inside, kept = (source >= 0) & (source < m), (target >= 0) & (target < m_out)
    picked = np.where(inside[:, None], a.astype(np.float32)[np.where(inside, source, 0)], 0)
    expected[target[kept]] = (picked @ b.astype(np.float32))[kept]
    grid, args, meta = fused.arguments(a, b, c, source, target, programs, chosen, blackwell)
    machine.launch(fused.blackwell_kernel if blackwell else fused.kernel, grid, *args, **meta)
    return c.astype(np.float32), expected, allowed * np.abs(expected).max()


@pytest.mark.long(but=["fp16 to fp32", "tf32", "fp8"], everywhere=True)
@pytest.mark.parametrize("dtype", TYPES)
def test_types(machine, dtype):
    actual, expected, allowed = run(machine, dtype, 264, (200, 272, 208, 300), transposed=dtype in ("tf32", "fp8"))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed)


@pytest.mark.long(but=["8-*", "130-*"], everywhere=True)
@pytest.mark.parametrize("rows, sizes", [(8, (8, 8, 8, 8)), (128, (64, 256, 64, 128)), (257, (33, 24, 72, 1000)),
                                         (130, (1000, 520, 136, 100))])
def test_shapes(machine, rows, sizes):
    actual, expected, allowed = run(machine, "fp16", rows, sizes)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed)


@pytest.mark.long(but=["chosen2", "chosen3"], everywhere=True)
@pytest.mark.parametrize("chosen", [Configuration(load_warps=1), Configuration(load_warps=2, bn=128, stages=6),
                                    Configuration(bm=64, consumers=1, bn=128), Configuration(staging=1, group_m=2),
                                    Configuration(bm=256, bn=128, staging=1)])
def test_configurations(machine, chosen):
    actual, expected, allowed = run(machine, "bf16", 300, (200, 264, 192, 400), chosen)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("programs", [1, 2, 132])
def test_any_number_of_programs(machine, programs):
    actual, expected, allowed = run(machine, "bf16", 400, (300, 520, 64, 500), programs=programs)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("dtype", TYPES)
def test_types_on_blackwell(dtype):
    actual, expected, allowed = run(Blackwell(), dtype, 264, (200, 272, 208, 300), transposed=dtype in ("tf32", "fp8"))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("rows, sizes, programs", [(8, (8, 8, 8, 8), 1), (130, (1000, 520, 136, 100), 1),
                                                   (600, (100, 520, 64, 500), 2)])
def test_shapes_on_blackwell(rows, sizes, programs):
    """One program has more than two output tiles, so that both accumulators come round."""
    actual, expected, allowed = run(Blackwell(), "bf16", rows, sizes, programs=programs)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed)


@pytest.mark.gpu
@pytest.mark.long(but=["1", "3"])
@pytest.mark.parametrize("seed", range(5))
def test_as_large_as_it_is_measured(seed):
    """4096 rows of 4096, on the GPU only."""
    from mimw.testing.machines import Gpu
    actual, expected, allowed = run(Gpu(), "bf16", 4096, (4096, 4096, 4096, 4096), programs=132, seed=seed)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed)


def test_no_row_twice_is_a_race_and_equal_ones_are_none():
    a, b, c = np.ones((16, 64), np.float16), np.ones((64, 64), np.float16), np.zeros((32, 64), np.float16)
    target = np.full(8, 3, np.int32)
    grid, args, meta = fused.arguments(a, b, c, np.arange(8, dtype=np.int32), target, 1)
    mimw.simulate(fused.kernel, grid, *args, **meta)
    assert (c[3] == 64).all() and not c[:3].any()
    a[:] = np.arange(16)[:, None]
    with pytest.raises(mimw.errors.DataRace, match="to row 3 of the tensor"):
        mimw.simulate(fused.kernel, grid, *args, **meta)


def test_checked():
    """A small launch by several seeds."""
    from benchmarks.mutation_kernels import CASES
    kernel, grid, args, meta = next(case for case in CASES if case.name == "Gather, GEMM, scatter").make()
    assert mimw.check(kernel, grid, *args, seeds=6, **meta).ok


def test_checked_on_blackwell():
    """Few seeds of it; 200 are in benchmarks/results/blackwell.jsonl."""
    random, n = np.random.default_rng(0), 192
    a, b, c = (random.standard_normal((n, n)).astype(np.float16) for _ in range(3))
    source, target = random.integers(-9, 209, 300).astype(np.int32), random.permutation(320)[:300].astype(np.int32)
    chosen = Configuration(bm=64, bn=64, stages=2, staging=1, load_warps=1)
    grid, args, meta = fused.arguments(a, b, c, source, target, 3, chosen, blackwell=True)
    assert mimw.check(fused.blackwell_kernel, grid, *args, target="sm_100a", seeds=3, rounds=False, **meta).ok


SIGNATURE = {"a_desc": "tensordesc<bf16[1,64]>", "b_desc": "tensordesc<bf16[64,256]>", "c_desc": "tensordesc<bf16[1,64]>",
             "source_ptr": "*i32", "target_ptr": "*i32", "R": "i32", "N": "i32", "K": "i32", "C_ROWS": "i32"}


@pytest.mark.long(shown_by="tests/lowering/test_row_copies.py::test_every_form_compiles")
def test_compiled_for_blackwell(sass_has):
    """Four warps gather 32 rows each, four scatter 128 in four pieces; two accumulators fill tensor memory; nothing is spilt."""
    result = compile_kernel(fused.blackwell_kernel, SIGNATURE, Configuration().meta(2, 2, False, True), "sm_100a")
    sass_has(result, (r"UTMALDG\.2D\.GATHER4", 8), (r"UTMASTG\.2D\.SCATTER4", 32), ("STL", 0), "UTCHMMA", "LDTM")
    assert result.metadata.shared <= 232448 and result.metadata.tmem_size == 512


def test_compiled_without_spills(sass_has):
    result = compile_kernel(fused.kernel, SIGNATURE, Configuration().meta(2, 2, False), "sm_90a")
    sass_has(result, r"UTMALDG\.2D", r"UTMASTG\.2D", ("STL", 0), ("LDL", 0))
    assert result.metadata.shared <= 232448


@pytest.mark.parametrize("change, text", [
    (dict(b=np.zeros((65, 64), np.float16)), "b is 65 x 64; for a 64 x 64 it must be 64 x N, .K, N."),
    (dict(c=np.zeros((64, 65), np.float16)), "c is 64 x 65; for b 64 x 64 it must be 64 x 64, .rows, N."),
    (dict(b=np.zeros((64, 64), np.float32)), "a is float16 and b float32; both must be of one type, or both fp8"),
    (dict(source=np.zeros(9, np.int32)), "target is 8; for source 9 it must be 9, .R."),
    (dict(source=np.zeros(8, np.int64)), "source is int64; it may be int32"),
    (dict(a=np.zeros((64, 128), np.float16)[:, ::2]), "strides are 256 and 4 bytes"),
])
def test_refusals(change, text):
    arrays = {name: np.zeros((64, 64), np.float16) for name in "abc"} | {
        name: np.zeros(8, np.int32) for name in ("source", "target")} | change
    with pytest.raises(ValueError, match=text):
        fused.arguments(**arrays, programs=1)
