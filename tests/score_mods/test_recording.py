"""Functions of torch become texts that compute the same, or are refused with a reason."""

import itertools
import math

import pytest

torch = pytest.importorskip("torch", reason="a score_mod is a function of torch")

from mimw.errors import ScoreModError  # noqa: E402
from mimw.score_mods import ScoreMod, by_torch, record  # noqa: E402

torch.manual_seed(0)
BIAS, SLOPES, ONE = torch.randn(3, 21), torch.rand(3).bfloat16(), torch.tensor(0.75)
DOCUMENTS, SMALL = torch.tensor([0, 0, 1, 1, 1, 2, 2, 2, 2]), torch.tensor([100, -100, 3, 7, 50, 2, 1, 0, 90], dtype=torch.int8)
MASK = torch.rand(9, 9) < 0.5
N = 10


def sliced(s, b, h, q, k):
    x = s * 2 if N > 5 else s
    return x.masked_fill(~(q >= k), float("-inf"))


# Functions, and their texts where these are worth reading.
FUNCTIONS = {
    "softcap": (lambda s, b, h, q, k: 30 * torch.tanh(s / 30), "tanh(s / 30.0) * 30.0"),
    "bias": (lambda s, b, h, q, k: s + BIAS[h, q - k + N], "s + f0[h, (q - k) + 10]"),
    "slopes": (lambda s, b, h, q, k: s + SLOPES[h].float() * (k - q), "s + (f0[h] * float(k - q))"),
    "documents": (lambda s, b, h, q, k: torch.where(DOCUMENTS[q] == DOCUMENTS[k], s, -math.inf), "where(i0[q] == i0[k], s, -inf)"),
    "truths": (lambda s, b, h, q, k: torch.where(MASK[q, k], s, torch.tensor(-math.inf)), "where(b0[q, k], s, -inf)"),
    "a number": (lambda s, b, h, q, k: s * ONE, "s * f0[()]"),
    "python's if": (sliced, "where(q < k, -inf, s * 2.0)"),
    "int8 wraps": (lambda s, b, h, q, k: s + (SMALL[q] + SMALL[k]), "s + float(int8(i0[q] + i0[k]))"),
    "whole numbers": (lambda s, b, h, q, k: s + ((q - 7) // 3 + (k - q) % -4 - (q & 3) + (k | 4) + (q ^ k) + ~q + abs(q - k)),
                      None),
    "true division": (lambda s, b, h, q, k: s + (q - k) / 7 + 1 / (1 + q) + q.float() * 0.5 + (q >= k) * 2.0, None),
    "powers": (lambda s, b, h, q, k: s**2 + (s * s + 1) ** 0.5 + (s.abs() + 1) ** -1 + 2 * torch.exp2(-0.5 * (h + 1)) + s**3, None),
    "functions": (lambda s, b, h, q, k: torch.sigmoid(s) + s.exp() + torch.log(s.abs() + 1) + torch.rsqrt(s * s + 1) + torch.sin(s)
                  - torch.cos(s) + torch.sqrt(s.abs() + 2) + torch.reciprocal(s * s + 2) + torch.log2(s * s + 1), None),
    "bounds": (lambda s, b, h, q, k: torch.clamp(s, -0.5, 0.7) + torch.relu(s) + torch.minimum(s, s * 2) + s.clamp(min=0.1)
               + torch.maximum(s, 0 * s) + torch.clamp(q - k, max=2), None),
    "conditions": (lambda s, b, h, q, k: torch.where(((q < 3) | (k != 2)) & torch.logical_not(h == 1) ^ (b > 0), s, 0.5 * s), None),
    "truths compared": (lambda s, b, h, q, k: torch.where((q < 3) == (k < 2), s, (q < k) + s), None),
    "other orders": (lambda s, b, h, q, k: torch.where(s > 0.2, 3 - s, s.add(q, alpha=2)).where(s < 1, s.new_full((), 4.0)), None),
    "made": (lambda s, b, h, q, k: torch.where(q == k, torch.full_like(s, 2.0), torch.zeros_like(s)) + torch.ones(()), None)}


def torch_by_points(function, score):
    """The function at each point, one by one, and its derivative by autograd."""
    values, slopes = torch.empty_like(score), torch.zeros_like(score)
    for place in itertools.product(*map(range, score.shape)):
        s = score[place].clone().requires_grad_()
        found = function(s, *map(torch.tensor, place))
        values[place] = found.detach()
        if found.requires_grad and torch.isfinite(found):
            slopes[place], = torch.autograd.grad(found, s)
    return values, slopes


def test_functions_compute_what_torch_does():
    score = torch.randn(2, 2, 3, 4)
    indices = [torch.arange(size).view([-1 if dim == at else 1 for dim in range(4)]) for at, size in enumerate(score.shape)]
    for name, (function, text) in FUNCTIONS.items():
        mod = record(function)
        assert text is None or mod.text == text, name
        value, slope = by_torch(mod.text, score, indices, mod.tables)
        expected, expected_slope = torch_by_points(function, score)
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-5, msg=name)
        torch.testing.assert_close(slope.masked_fill(value.isinf(), 0.0), expected_slope, rtol=1e-4, atol=1e-5, msg=name)
    assert record(mod) is mod and record(FUNCTIONS["bias"][0]).tables == (BIAS, )


def test_refusals_say_why():
    double, half, learnt = BIAS.double(), BIAS.half(), torch.tensor([[1.0, 2.0]])
    other = [torch.randn(3) for _ in range(5)]
    refused = {
        "with erf": lambda s, b, h, q, k: torch.erf(s),
        "in torch.float64": lambda s, b, h, q, k: s.double(),
        "in torch.float16": lambda s, b, h, q, k: s + half[h, q] * 2,
        "of torch.float64": lambda s, b, h, q, k: s + double[h, q],
        "floor_divide of floats": lambda s, b, h, q, k: s // 2,
        "remainder of floats": lambda s, b, h, q, k: s % 2,
        "a whole number of a float": lambda s, b, h, q, k: s + s.int(),
        "the power 2.5": lambda s, b, h, q, k: s ** 2.5,
        "rounding_mode='trunc'": lambda s, b, h, q, k: s + torch.div(q, 3, rounding_mode="trunc"),
        "could not be recorded": lambda s, b, h, q, k: s if q > k else -s,
        "no float32": lambda s, b, h, q, k: q - k,
        "no float32 tensor": lambda s, b, h, q, k: q > k,
        "no float32 tensor of": lambda s, b, h, q, k: 1.0,
        "no single number": lambda s, b, h, q, k: learnt.sum(-1)[0] + s,
        "index, whose result is no": lambda s, b, h, q, k: s + BIAS[h].sum(),
        "more than 4 tensors": lambda s, b, h, q, k: s + sum(one[h] for one in other),
        "with add_": lambda s, b, h, q, k: s.add_(1),
        "with rand": lambda s, b, h, q, k: s + torch.rand(()),
        "of truth values": lambda s, b, h, q, k: s * ((q > k) + (k > 2)).float(),
        "does not hold": lambda s, b, h, q, k: torch.where(SMALL[q] == 300, s, 0.0),
        "detaches": lambda s, b, h, q, k: s + s.detach(),
        "mul, whose result": lambda s, b, h, q, k: s + (BIAS * 2)[h, q],
        "longer than 500": lambda s, b, h, q, k: sum((s * n for n in range(400)), s)}
    for words, function in refused.items():
        with pytest.raises(ScoreModError) as error:
            record(function)
        assert words in str(error.value), (words, str(error.value))
    assert isinstance(record(lambda s, b, h, q, k: s), ScoreMod)
