"""Functions that are written for kernels compute what torch's do, values and derivatives, in both forms; in one small kernel."""

import pytest

torch = pytest.importorskip("torch", reason="a score_mod is a function of torch")

import triton.language as tl  # noqa: E402

import mimw  # noqa: E402
from mimw import score_mods  # noqa: E402

from .test_recording import FUNCTIONS  # noqa: E402

ROWS, COLUMNS = 8, 16


@mimw.jit
def apply(scores, values, slopes, tables, MOD: tl.constexpr, VALUE: tl.constexpr, HOPPER: tl.constexpr):
    """One head of a batch; the function without a derivative gives the same value."""
    q, k = tl.arange(0, 8)[:, None], tl.arange(0, 16)[None, :]
    at = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * 128 + q * 16 + k
    score = tl.load(scores + at)
    value, slope = MOD(score, tl.program_id(0), tl.program_id(1), q, k, tables, HOPPER)
    tl.store(values + at, value)
    tl.store(slopes + at, tl.zeros_like(score) + slope)
    alone = VALUE(score, tl.program_id(0), tl.program_id(1), q, k, tables, HOPPER)
    tl.device_assert((alone == value) | (value != value))


def computed(text, tables, score, hopper):
    made = score_mods.for_kernels(text, tables, score_mods.Box(*score.shape))
    values, slopes = torch.empty_like(score), torch.empty_like(score)
    mimw.simulate(apply, (score.shape[0], score.shape[1]), score, values, slopes, made.tables, MOD=made.gradient, VALUE=made.value,
                  HOPPER=hopper)
    return values, slopes


def check(text, tables, hopper):
    """On as many queries and keys as the tensors of test_recording.py have elements for."""
    score = torch.randn(2, 3, ROWS, COLUMNS)
    indices = [torch.arange(size).view([-1 if dim == at else 1 for dim in range(4)]) for at, size in enumerate(score.shape)]
    value, slope = computed(text, tables, score, hopper)
    expected, expected_slope = score_mods.by_torch(text, score, indices, tables)
    torch.testing.assert_close(value, expected, rtol=2e-5, atol=2e-5, equal_nan=True, msg=text)
    told = ~value.isnan()       # elsewhere there is no derivative
    torch.testing.assert_close(slope[told], expected_slope[told], rtol=2e-5, atol=2e-5, msg=text)
    assert told.any()


# All of test_recording.py's in two sums, so that two kernels have each operation; keys beyond a table are NaN in both.
TOGETHER = ["bias", "slopes", "int8 wraps", "whole numbers", "true division", "powers", "functions", "bounds", "conditions",
            "truths compared", "other orders", "made", "a number", "softcap"]


@pytest.mark.parametrize("hopper", [False, True])
def test_functions_in_a_kernel(hopper):
    torch.manual_seed(0)
    for names in (TOGETHER[:6], TOGETHER[6:], ["documents"], ["truths"]):
        mod = score_mods.record(lambda s, b, h, q, k: sum((FUNCTIONS[name][0](s, b, h, q, k) for name in names[1:]),
                                                          FUNCTIONS[names[0]][0](s, b, h, q, k)))
        check(mod.text, mod.tables, hopper)


def test_numbers_of_64_bits_and_constants():
    far = torch.tensor([1 << 40, -(1 << 40), 5] * 6)
    for text, tables in (("s + float((i0[k] // 3) % 1000)", [far]), ("where(i0[k] < i0[q], s, exp(2.0) + float(-7 // 2))", [far]),
                         ("s * float((q * 2000000000) * (k - 3) % 7)", []), ("tanh(0.5) / 3.0 + float(h)", []),
                         ("s / float(q - 20)", [])):
        check(text, tables, True)
