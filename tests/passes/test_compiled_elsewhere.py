"""What Triton refuses late, in a pass or a backend, `simulate` and `check` refuse as soon as they know the program: same line, same
targets, in the words of `mimw.compile`. Each row is a kernel and the targets that have no binary of it; all others compile it.

Tried were the words of `tl` at their edges (sizes of 1, all element types, roundings, products of all types and small shapes,
atomics, cache modifiers, descriptors, warps) for sm_90a, sm_100a, gfx942 and gfx950: what simulated and did not compile is here.
"""

from contextlib import redirect_stdout
from io import StringIO

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl
from triton.language.extra import libdevice

import mimw
import mimw.tlx as tlx

NVIDIA, AMD = {"sm_90a", "sm_100a"}, {"gfx942", "gfx950"}
EVERY = NVIDIA | AMD
FP8, FP32, FP64 = ml_dtypes.float8_e5m2, np.float32, np.float64


@mimw.jit
def added(x, y, WORD: tl.constexpr):
    at = tl.arange(0, 32)
    tl.store(y + at, tl.load(x + at) + tl.load(x + at))
    if WORD:
        tlx.size_of(tl.float32)


@mimw.jit
def compared(x, y, WORD: tl.constexpr):
    at = tl.arange(0, 32)
    tl.store(y + at, tl.where(tl.load(x + at) < tl.load(x + at + 1), 1.0, 2.0))


@mimw.jit
def summed(x, y, WORD: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, 32)), 0).to(tl.float32))


@triton.jit
def _one_more(value):
    return value


@mimw.jit
def mapped(x, y, WORD: tl.constexpr):
    at = tl.arange(0, 32)
    tl.store(y + at, tl.map_elementwise(_one_more, tl.load(x + at)))


@mimw.jit
def converted(x, y, WORD: tl.constexpr):
    at = tl.arange(0, 32)
    tl.store(y + at, tl.load(x + at).to(y.dtype.element_ty))


@mimw.jit
def between(x, y, WORD: tl.constexpr):
    at = tl.arange(0, 32)
    tl.store(y + at, tl.load(x + at).to(tl.float8e4nv).to(tl.float32))


@mimw.jit
def truncated(x, y, WORD: tl.constexpr):
    at = tl.arange(0, 32)
    tl.store(y + at, tl.load(x + at).to(y.dtype.element_ty, fp_downcast_rounding="rtz"))


@mimw.jit
def exchanged(x, y, WORD: tl.constexpr):
    at = tl.arange(0, 32)
    tl.atomic_xchg(y + at, tl.load(x + at))


@mimw.jit
def summed_as(x, y, AS: tl.constexpr):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(y + at, tl.dot(tl.load(x + at), tl.load(x + at), out_dtype=AS))


@mimw.jit
def scaled(x, y, ROWS: tl.constexpr):
    rows, columns, across = tl.arange(0, ROWS)[:, None], tl.arange(0, 64)[None, :], tl.arange(0, 64)[:, None]
    a = tl.load(x + rows * 64 + columns).to(tl.float16)
    b = tl.load(x + across * 64 + columns).to(tl.uint8)
    ones = tl.full((ROWS, 2), 127, tl.uint8)
    tl.store(y + rows * 64 + columns, tl.dot_scaled(a, ones, "fp16", b, tl.full((64, 2), 127, tl.uint8), "e4m3"))


@mimw.jit
def multiplied_and_added(x, y, WORD: tl.constexpr):
    at = tl.arange(0, 32)
    tl.store(y + at, tl.fma(tl.load(x + at), tl.load(x + at), tl.load(x + at)))


@triton.jit
def _sum_by_trips(a, b):
    n = 0
    while n < 2:
        a += b
        n += 1
    return a


@triton.jit
def _sum_by_ranges(a, b):
    for _ in range(2):
        a += b
    return a


@triton.jit
def _sum_written_out(a, b):
    for _ in tl.static_range(2):
        a += b
    if a > 100:
        a = b
    return a


@mimw.jit
def combined(x, y, HOW: tl.constexpr):
    at = tl.arange(0, 32)
    if HOW == 0:
        tl.store(y, tl.reduce(tl.load(x + at), 0, _sum_by_trips))
    elif HOW == 1:
        tl.store(y + at, tl.associative_scan(tl.load(x + at), 0, _sum_by_ranges))
    else:
        tl.store(y, tl.reduce(tl.load(x + at), 0, _sum_written_out))


@mimw.jit
def in_assembly(x, y, WORD: tl.constexpr):
    at = tl.arange(0, 32)
    tl.store(y + at, tl.inline_asm_elementwise("add.f16x2 $0, $1, $1;", "=r,r", [tl.load(x + at)], dtype=tl.float16, is_pure=True,
                                               pack=2))


@mimw.jit
def of_a_library(x, y, WORD: tl.constexpr):
    at = tl.arange(0, 32)
    tl.store(y + at, libdevice.tanh(tl.load(x + at)))
    if WORD:
        tlx.size_of(tl.float32)


ROWS = {      # kernel, type of x, type of y, its constant, the targets without a binary, a part of what is said
    "added": (added, FP8, FP8, False, EVERY, "no arithmetic"),
    "added beside a word": (added, FP8, FP8, True, EVERY, "no arithmetic"),
    "compared": (compared, FP8, FP32, 0, EVERY, "no arithmetic"),
    "summed": (summed, FP8, FP32, 0, EVERY, "no arithmetic"),
    "mapped": (mapped, FP8, FP8, 0, EVERY, "no arithmetic"),
    "widened to fp64": (converted, FP8, FP64, 0, EVERY, "no conversion from fp8e5 to fp64"),
    "narrowed from fp64": (converted, FP64, FP8, 0, EVERY, "no conversion from fp64 to fp8e5"),
    "converted to fp32": (converted, FP8, FP32, 0, set(), ""),
    "to another of 8 bits": (between, FP8, FP32, 0, EVERY, "no conversion from fp8e5 to fp8e4nv"),
    "truncated": (truncated, FP32, FP8, 0, set(), ""),
    "truncated from fp16": (truncated, np.float16, FP8, 0, NVIDIA, "rounds towards zero"),
    "truncated from fp64": (truncated, FP64, FP32, 0, EVERY, "rounds towards zero"),
    "exchanged": (exchanged, FP64, FP64, 0, AMD, "no exchange of fp64"),
    "summed as fp64": (summed_as, np.float16, FP64, tl.float64, EVERY, "summed as fp32 or fp16, not as fp64"),
    "fma of whole numbers": (multiplied_and_added, np.int32, np.int32, 0, EVERY, "these are i32"),
    "fma of floats": (multiplied_and_added, FP32, FP32, 0, set(), ""),
    "reduced by a while": (combined, FP32, FP32, 0, EVERY, "has a loop"),
    "scanned by a for": (combined, FP32, FP32, 1, EVERY, "has a loop"),
    "reduced by an if": (combined, FP32, FP32, 2, set(), ""),
    "a function of a library": (of_a_library, FP32, FP32, True, set(), ""),
    "PTX": (in_assembly, np.float16, np.float16, 0, AMD, "is PTX"),
    "summed as fp16": (summed_as, np.float16, FP32, tl.float16, set(), ""),
    "scaled fp16": (scaled, np.uint8, FP32, 128, {"sm_100a"}, "multiplies no more than 8 bits"),
    "scaled fp16 of few rows": (scaled, np.uint8, FP32, 64, set(), ""),
}
ENDS_THE_PROCESS = {"exchanged"}      # Triton's compiler of a kernel without our words: nothing can be said by then


def said(tool, *launch, **options):
    """What a tool says of a launch, None if it takes it. Triton prints a reproducer of what its passes refuse."""
    try:
        with redirect_stdout(StringIO()):
            tool(*launch, **options)
    except (triton.CompilationError, mimw.errors.MimwError) as error:
        return str(error)


@pytest.mark.parametrize("chip", sorted(EVERY))
@pytest.mark.parametrize("name", ROWS)
def test_what_a_chip_has_no_binary_of_is_not_simulated_for_it(name, chip, capfd):
    kernel, given, taken, constant, without, text = ROWS[name]
    launch = kernel, (1, ), np.ones(8192, given), np.zeros(8192, taken), constant
    simulated = said(mimw.simulate, *launch, target=chip)
    if chip in without:
        assert text in simulated and __file__ in simulated and "Mend: " in simulated
    else:
        assert simulated is None
    if name not in ENDS_THE_PROCESS or chip not in without:
        assert said(mimw.compile, *launch, target=chip) == simulated


def test_check_says_it_as_a_finding():
    report = mimw.check(added, (1, ), np.ones(64, FP8), np.zeros(64, FP8), False)
    assert [finding.kind for finding in report.findings] == ["KernelError"] and "no arithmetic" in str(report)


def test_a_chip_without_a_compiler_here_has_its_own_arithmetic():
    assert said(mimw.simulate, truncated, (1, ), np.ones(64, FP64), np.zeros(64, FP32), 0, target="ascend_910b") is None


@mimw.jit
def flipped(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.flip(tl.load(x + at)))


@pytest.mark.parametrize("chip", sorted(EVERY))
def test_a_flip_of_one_element(chip):
    x = np.ones(4, FP32)
    told = said(mimw.simulate, flipped, (1, ), x, x, 1, target=chip)
    assert "tl.reshape takes a tile" in told and __file__ in told and "if N > 1" in told
    assert said(mimw.compile, flipped, (1, ), x, x, 1, target=chip)
    assert said(mimw.simulate, flipped, (1, ), x, x, 2, target=chip) is None
