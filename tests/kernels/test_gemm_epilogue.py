"""What the GEMM does to its sums on their way out: bias, scales, residual, activation; in every schedule, for every type."""

import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import gemm
from mimw.kernels.gemm import ACTIVATIONS, Configuration
from tests.lowering.assembly import assembled
from tests.lowering.launches import ptx_of

SCHEDULES = {
    "cooperative": Configuration(bm=128, bn=128, stages=3),
    "one consumer": Configuration(bm=64, bn=64, stages=2, consumers=1, staging=1),
    "ping-pong": Configuration(bm=64, bn=128, stages=3, staging=1, ping_pong=True),
}
TALL = dict(bm=256, bn=128, stages=2, staging=1)     # 128 rows for each consumer
TYPES = {  # inputs, output, error against fp64 relative to the largest value
    "bf16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, 4e-3),
    "fp16": (np.float16, np.float16, 1e-3),
    "tf32": (np.float32, np.float32, 2e-3),
    "fp8": (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, 4e-3),
}
_erf = np.vectorize(math.erf)
REFERENCE = {None: lambda x: x, "relu": lambda x: np.maximum(x, 0), "silu": lambda x: x / (1 + np.exp(-x)),
             "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
             "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))}


def problem(dtype="bf16", shape=(150, 136, 80)):
    """(a, b, c, bias, residual, row scales, column scales)."""
    inputs, output, _ = TYPES[dtype]
    (m, n, k), random = shape, np.random.default_rng(0)
    a, b = random.standard_normal((m, k)).astype(inputs), random.standard_normal((n, k)).astype(inputs).T
    bias, residual = random.standard_normal(n).astype(output), random.standard_normal((m, n)).astype(output)
    return a, b, np.full((m, n), np.nan, output), bias, residual, *(random.random(size).astype(np.float32) for size in (m, n))


def expected(a, b, bias=0.0, residual=0.0, row_scale=1.0, column_scale=1.0, alpha=1.0, beta=1.0, activation=None):
    """In fp64."""
    sums = a.astype(np.float64) @ b.astype(np.float64)
    return REFERENCE[activation](alpha * np.reshape(row_scale, (-1, 1)) * column_scale * sums + np.asarray(bias, np.float64)
                                 + beta * np.asarray(residual, np.float64))


def holds(machine, a, b, c, allowed, chosen, programs=2, **epilogue):
    grid, args, meta = gemm.arguments(a, b, c, programs, chosen, **epilogue)
    machine.launch(gemm.kernel, grid, *args, **meta)
    wanted = expected(a, b, **{name: value for name, value in epilogue.items() if name != "promoted"})
    np.testing.assert_allclose(c.astype(np.float64), wanted, rtol=0, atol=allowed * np.abs(wanted).max())


@pytest.mark.long(but=["bf16-one consumer", "tf32-cooperative", "fp8-ping-pong"], everywhere=True)
@pytest.mark.parametrize("dtype, schedule", [("bf16", "cooperative"), ("bf16", "one consumer"), ("bf16", "ping-pong"),
                                             ("fp16", "ping-pong"), ("tf32", "cooperative"), ("fp8", "ping-pong")])
def test_all_at_once(machine, dtype, schedule):
    a, b, c, bias, residual, rows, columns = problem(dtype)
    holds(machine, a, b, c, TYPES[dtype][2], SCHEDULES[schedule], bias=bias, residual=residual, row_scale=rows,
          column_scale=columns, alpha=0.5, beta=-2.0, activation="silu")


@pytest.mark.long(but=["gelu", "gelu_tanh", "silu"], everywhere=True)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(machine, activation):
    a, b, c, bias, *_ = problem("fp16")
    holds(machine, a, b, c, 1e-3, SCHEDULES["ping-pong"], bias=bias, activation=activation)


@pytest.mark.long(but=["gelu-two tiles", "relu-several widths"], everywhere=True)
@pytest.mark.parametrize("activation, schedule", [("gelu", "two tiles"), ("silu", "ping-pong"), ("gelu_tanh", "one consumer"),
                                                  ("relu", "several widths")],
                         ids=["gelu-two tiles", "silu-ping-pong", "gelu_tanh-one consumer", "relu-several widths"])
def test_what_an_activation_was_applied_to_is_kept(machine, activation, schedule):
    """c is the activation of the kept numbers as they were rounded."""
    schedules = SCHEDULES | {"two tiles": Configuration(bm=128, bn=128, stages=2, staging=2),
                             "several widths": Configuration(bm=128, bn=96, stages=2)}
    a, b, c, bias, *_ = problem()
    kept = np.full_like(c, np.nan)
    grid, args, meta = gemm.arguments(a, b, c, 2, schedules[schedule], bias=bias, activation=activation, kept=kept)
    machine.launch(gemm.kernel, grid, *args, **meta)
    wanted = expected(a, b, bias)
    np.testing.assert_allclose(kept.astype(np.float64), wanted, rtol=0, atol=4e-3 * np.abs(wanted).max())
    wanted = REFERENCE[activation](kept.astype(np.float64))
    np.testing.assert_allclose(c.astype(np.float64), wanted, rtol=0, atol=4e-3 * np.abs(wanted).max())


@pytest.mark.long(but=["names1", "names4"], everywhere=True)
@pytest.mark.parametrize("names", [("bias", ), ("residual", ), ("row_scale", ), ("column_scale", ), ("row_scale", "column_scale")])
def test_each_alone(machine, names):
    a, b, c, bias, residual, rows, columns = problem()
    every = dict(bias=bias.astype(np.float32), residual=residual, row_scale=rows, column_scale=columns)
    holds(machine, a, b, c, 4e-3, SCHEDULES["cooperative"], **{name: every[name] for name in names})


def test_one_scale_for_all_and_a_residual_in_place(machine):
    a, b, c, _, residual, rows, columns = problem("fp8")
    c[:] = residual
    grid, args, meta = gemm.arguments(a, b, c, 3, SCHEDULES["ping-pong"], residual=c, row_scale=rows[:1], column_scale=columns[:1])
    machine.launch(gemm.kernel, grid, *args, **meta)
    wanted = expected(a, b, residual=residual, row_scale=rows[:1], column_scale=columns[:1])
    np.testing.assert_allclose(c.astype(np.float64), wanted, rtol=0, atol=4e-3 * np.abs(wanted).max())


def test_nothing_is_read_of_a_residual_times_zero(machine):
    a, b, c, _, residual, *_ = problem()
    residual[:] = np.nan
    grid, args, meta = gemm.arguments(a, b, c, 1, SCHEDULES["cooperative"], residual=residual, beta=0)
    machine.launch(gemm.kernel, grid, *args, **meta)
    assert not np.isnan(c.astype(np.float32)).any() and len(args) == 6


@pytest.mark.parametrize("change", [dict(together=1), dict(together=2), TALL])
def test_promoted_sums(machine, change):
    """Of four chunks, the last of them 16 deep, and of three: where two are multiplied together, one is left."""
    chosen = replace(SCHEDULES["cooperative"], **change)
    for k in (400, 272):
        a, b, c, bias, residual, rows, columns = problem("fp8", (150, 136, k))
        holds(machine, a, b, c, 4e-3, chosen, bias=bias, row_scale=rows, column_scale=columns, promoted=True)


@pytest.mark.long(but=["ping-pong", "one consumer"], everywhere=True)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_interleaving_is_wrong(schedule):
    a, b, c, bias, residual, *_ = problem("bf16", (150, 136, 72))
    grid, args, meta = gemm.arguments(a, b, c, 2, SCHEDULES[schedule], bias=bias, residual=residual)
    assert mimw.check(gemm.kernel, grid, *args, seeds=5, **meta).ok


@pytest.mark.parametrize("change, text", [
    (dict(bias=np.zeros(63, np.float16)), "bias is 63; for b 64 x 64 it must be 64, .N."),
    (dict(bias=np.zeros(64, np.int32)), "bias is int32"),
    (dict(row_scale=np.zeros(64, np.float16)), "row_scale is float16; it may be float32"),
    (dict(column_scale=np.zeros(65, np.float32)), "column_scale is 65; for b 64 x 64 it must be 64.1, .N.1."),
    (dict(row_scale=np.zeros(128, np.float32)[::2]), "row_scale must be contiguous; its strides are 2 elements"),
    (dict(residual=np.zeros((64, 64), np.float32)), "c is float16 and residual float32; both must be of one type"),
    (dict(residual=np.zeros((64, 128), np.float16)[:, ::2]), "residual must be contiguous along its last dimension and have "
                                                             "strides of multiples of 16 bytes"),
    (dict(promoted=True), "sums of float16 by a cooperative configuration cannot be promoted"),
    (dict(activation="tanh"), "activation is 'tanh'; it may be None, relu, gelu, gelu_tanh, silu"),
])
def test_refusals(change, text):
    square = np.zeros((64, 64), np.float16)
    with pytest.raises(ValueError, match=text):
        gemm.arguments(square, square, square, 1, **change)


@pytest.mark.long(shown_by="tests/kernels/test_gemm_any_columns.py::test_what_the_rule_may_choose_spills_nothing")
@pytest.mark.parametrize("chosen", [None, Configuration(**TALL | dict(stages=4))])
def test_nothing_spills_of_promoted_sums(chosen, tmp_path):
    a = np.empty((1024, 1024), ml_dtypes.float8_e4m3fn)
    _, args, meta = gemm.arguments(a, a.T, np.empty((1024, 1024), ml_dtypes.bfloat16), 132, chosen, promoted=True)
    said = assembled(ptx_of(gemm.kernel, args, meta), tmp_path)
    assert "serialized" not in said and "0 bytes spill stores, 0 bytes spill loads" in said


@pytest.mark.long(shown_by="tests/kernels/test_gemm_any_columns.py::test_what_the_rule_may_choose_spills_nothing")
def test_nothing_spills(tmp_path):
    a, b = np.empty((1024, 1024), ml_dtypes.bfloat16), np.empty((1024, 1024), ml_dtypes.bfloat16)
    chosen = Configuration(bm=128, bn=128, stages=6, staging=1, ping_pong=True)
    _, args, meta = gemm.arguments(a, b, a, 132, chosen, bias=a[0], residual=b, row_scale=np.empty(1024, np.float32), beta=0.5,
                                   activation="gelu")
    said = assembled(ptx_of(gemm.kernel, args, meta), tmp_path)
    assert "serialized" not in said and "0 bytes spill stores, 0 bytes spill loads" in said


@pytest.mark.parametrize("schedule", ["cooperative", "ping_pong"])
def test_added_to_what_is_there(machine, schedule):
    """By TMA, each element once, also those of tiles that programs share out."""
    chosen = {"cooperative": Configuration(bm=128, bn=128, stages=2, staging=1),
              "ping_pong": Configuration(bm=64, bn=64, stages=3, staging=1, ping_pong=True)}[schedule]
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((136, 264), (136, 200)))
    c = random.standard_normal((264, 200)).astype(np.float32)
    expected = c + a.T.astype(np.float32) @ b.astype(np.float32)
    sizes = gemm.room_for(264, 200, 136, 2, 2, chosen)
    given = dict(zip(("room", "flags"), (np.full(sizes[0], np.nan, np.float32), np.zeros(sizes[1], np.int32)))) if sizes[0] else {}
    grid, args, meta = gemm.arguments(a.T, b, c, 2, chosen, added=True, **given)
    machine.launch(gemm.kernel, grid, *args, **meta)
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-4)
