"""`mimw.ops.addmm`, `scaled_mm` and `grouped_matmul` against torch in fp64: shapes, strides, types, derivatives, opcheck."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from torch.nn.functional import gelu, silu  # noqa: E402

from mimw import ops  # noqa: E402
from tests.ops.test_matmul import normal, odd, shifted  # noqa: E402

bf16, fp16, fp32, e4m3 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn
ACTIVATIONS = {None: lambda x: x, "relu": torch.relu, "gelu": gelu, "gelu_tanh": lambda x: gelu(x, approximate="tanh"),
               "silu": silu}


def close(found, expected, allowed=1e-2):
    assert found.shape == expected.shape and found.is_contiguous()
    if found.numel():
        error = (found.double() - expected.double()).abs().max() / expected.double().abs().max().clamp(min=1e-30)
        assert error <= allowed, float(error)


# ---- addmm ----------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("added, beta", [((72, ), 1.0), ((40, 72), 0.5)])
def test_addmm_in_one_launch(added, beta, activation):
    added, a, b = normal(*added, seed=2), normal(40, 64), normal(64, 72, seed=1)
    expected = ACTIVATIONS[activation](beta * added.double() + 0.25 * (a.double() @ b.double()))
    close(ops.addmm(added, a, b, beta, 0.25, activation), expected)


@pytest.mark.parametrize("added", [(), (1, ), (7, ), (5, 1), (1, 7), (5, 7)])
def test_addmm_expands_what_is_added(added):
    added, a, b = normal(*added, seed=2), normal(5, 33), normal(33, 7, seed=1)
    close(ops.addmm(added, a, b), added.double() + a.double() @ b.double())


@pytest.mark.parametrize("change", [odd, shifted, lambda x: x.T.contiguous().T])
def test_addmm_of_all_strides(change):
    added, a, b = normal(16, 24, seed=2), normal(16, 32), normal(32, 24, seed=1)
    expected = added.double() + a.double() @ b.double()
    for given in ((change(added), a, b), (added, change(a), b), (added, a, change(b))):
        close(ops.addmm(*given), expected)


@pytest.mark.parametrize("m, n, k", [(0, 8, 8), (8, 0, 8), (8, 8, 0)])
def test_addmm_of_nothing(m, n, k):
    added, a, b = normal(n), normal(m, k), normal(k, n)
    close(ops.addmm(added, a, b, activation="relu"), torch.relu(torch.addmm(added, a, b)))


def test_addmm_reads_nothing_times_zero():
    a, b = normal(16, 16), normal(16, 16, seed=1)
    close(ops.addmm(torch.full((16, 16), float("nan"), dtype=bf16), a, b, 0.0), a.double() @ b.double())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_of_addmm(activation):
    leaves = [normal(*shape, dtype=fp32, seed=seed).requires_grad_() for seed, shape in enumerate(((4, ), (5, 9), (9, 4)))]
    twins = [leaf.detach().double().requires_grad_() for leaf in leaves]
    ops.addmm(*leaves, 0.5, 2.0, activation).square().sum().backward()
    ACTIVATIONS[activation](0.5 * twins[0] + 2.0 * (twins[1] @ twins[2])).square().sum().backward()
    for leaf, twin in zip(leaves, twins):
        torch.testing.assert_close(leaf.grad.double(), twin.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("given, error, text", [
    ((normal(4), normal(2, 3), normal(4, 4)), RuntimeError, "b is 4 x 4; for a 2 x 3 it must be 3 x n, .k, n."),
    ((normal(3), normal(2, 3), normal(3, 4)), RuntimeError, "added is 3; for b 3 x 4 it must be 4.1, .n.1."),
    ((normal(4, dtype=fp32), normal(2, 3), normal(3, 4)), RuntimeError,
     "added is torch.float32; it must be of the result's type, torch.bfloat16"),
    ((normal(4), normal(2, 3), normal(3, 4), 1.0, 1.0, "tanh"), NotImplementedError, "activation is 'tanh'"),
    ((normal(4).double(), normal(2, 3).double(), normal(3, 4).double()), NotImplementedError,
     "a is torch.float64; it may be torch.bfloat16, torch.float16, torch.float32,")])
def test_refusals_of_addmm(given, error, text):
    with pytest.raises(error, match=text):
        ops.addmm(*given)


# ---- scaled_mm ------------------------------------------------------------------------------------------------------------

def scaled(m, n, k, kind):
    """(a, b, scale_a, scale_b, the product in fp64); b is contiguous along K."""
    if kind == "micro":
        return micro_scaled(m, n, k)
    a, b = normal(m, k, dtype=e4m3), normal(n, k, dtype=e4m3, seed=1).T
    draw = lambda *shape: torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape))) + 0.5  # noqa: E731
    blocks = -(-k // 128), -(-n // 128)
    left, right = {"all": (draw(1), draw(1)), "rows": (draw(m, 1), draw(1, n)), "blocks": (draw(m, blocks[0]), draw(*blocks))}[kind]
    wide, tall = left, right
    if kind == "blocks":
        wide = left.repeat_interleave(128, 1)[:, :k]
        tall = right.repeat_interleave(128, 0)[:k].repeat_interleave(128, 1)[:, :n]
    return a, b, left, right, (a.double() * wide) @ (b.double() * tall)


def micro_scaled(m, n, k):
    """The same with e8m0 for 32 numbers along K."""
    a, b = normal(m, k, dtype=e4m3), normal(n, k, dtype=e4m3, seed=1).T
    draw = torch.Generator().manual_seed(k)
    left, right = (torch.randint(124, 131, shape, generator=draw, dtype=torch.uint8).view(torch.float8_e8m0fnu)
                   for shape in ((m, -(-k // 32)), (-(-k // 32), n)))
    wide, tall = left.double().repeat_interleave(32, 1)[:, :k], right.double().repeat_interleave(32, 0)[:k]
    return a, b, left, right, (a.double() * wide) @ (b.double() * tall)


@pytest.mark.parametrize("kind", ["all", "rows", "blocks", "micro"])
@pytest.mark.parametrize("m, n, k", [(40, 136, 272), (5, 7, 33), (1, 16, 16)])
def test_scales(kind, m, n, k):
    """In one launch, and of shapes that TMA does not take."""
    *given, expected = scaled(m, n, k, kind)
    close(ops.scaled_mm(*given), expected)


@pytest.mark.parametrize("fast", [False, True])
def test_a_bias_and_other_results(fast):
    *given, expected = scaled(40, 64, 144, "rows")
    bias = normal(64, seed=3)
    found = ops.scaled_mm(*given, bias, fp32, fast)
    assert found.dtype == fp32
    close(found, expected + bias.double(), 1e-3)


@pytest.mark.parametrize("kind, bias", [("rows", False), ("all", True)])
def test_few_rows_by_whole_columns(monkeypatch, kind, bias):
    """Where sums may stay in the tensor cores."""
    module = sys.modules["mimw.ops.scaled_mm"]
    monkeypatch.setattr(module.column_gemm.configs, "MANY_WEIGHTS", 0)
    monkeypatch.setattr(module, "_PLANS", type(module._PLANS)(module._plan))
    made, columns = [], module.column_gemm.arguments
    monkeypatch.setattr(module.column_gemm, "arguments", lambda *args, **more: (made.append("columns"), columns(*args, **more))[1])
    *given, expected = scaled(20, 256, 144, kind)
    added = normal(256, seed=3) if bias else None
    for fast in (False, True, True):
        found = ops.scaled_mm(*given, added, fp32, fast)
        close(found, expected + (added.double() if bias else 0), 1e-3)
        assert made == fast * ["columns"]


def test_refusals_of_scales():
    a, b, left, right, _ = scaled(8, 16, 16, "all")
    ones = [torch.ones(shape, dtype=torch.float8_e8m0fnu) for shape in ((8, 1), (1, 16))]
    for given, error, text in (((a, b, left, torch.ones(3)), RuntimeError, "scale_b is 3; it must be 1, .1."),
                               ((a.float(), b, left, right), NotImplementedError,
                                "a is torch.float32; it may be torch.float8_e4m3fn,"),
                               ((a, b, left, right, normal(5)), RuntimeError, "bias is"),
                               ((a, b, *ones, normal(16)), RuntimeError, "scales of e8m0 are .* with a bias"),
                               ((a, b, ones[0], ones[0][:1]), RuntimeError, "scales of e8m0 are .8, 1. and .1, 1.,"),
                               ((a, b, ones[0], right), RuntimeError, "both must be of one type"),
                               ((a, b[:8], left, right), RuntimeError, "b is 8 x 16; for a 8 x 16 it must be 16 x n, .k, n.")):
        with pytest.raises(error, match=text):
            ops.scaled_mm(*given)


# ---- grouped_matmul -------------------------------------------------------------------------------------------------------

def grouped(a, b, ends):
    found, start = torch.zeros(a.shape[0], b.shape[2], dtype=torch.float64, device=a.device), 0
    for group, end in enumerate(ends.tolist()):
        found[start:end] = a[start:end].double() @ b[group].double()
        start = end
    return found


def groups(*sizes):
    return torch.tensor(sizes, dtype=torch.int32).cumsum(0).int()


@pytest.mark.parametrize("n, k, dtype", [(72, 64, bf16), (7, 33, bf16), (72, 64, e4m3), (72, 64, fp32)])
def test_groups(n, k, dtype):
    """In one launch, and of shapes that TMA does not take; rows behind the last group are 0."""
    a, b, ends = normal(40, k, dtype=dtype), normal(3, n, k, dtype=dtype, seed=1).mT, groups(9, 0, 20)
    close(ops.grouped_matmul(a, b, ends), grouped(a, b, ends))


def test_groups_of_nothing():
    assert ops.grouped_matmul(normal(0, 8), normal(2, 8, 8), groups(0, 0)).shape == (0, 8)


def test_gradients_of_groups():
    a, b, ends = normal(12, 16, dtype=fp32).requires_grad_(), normal(3, 16, 8, dtype=fp32, seed=1).requires_grad_(), groups(5, 0, 7)
    twins = [leaf.detach().double().requires_grad_() for leaf in (a, b)]
    ops.grouped_matmul(a, b, ends).square().sum().backward()
    torch.cat([twins[0][:5] @ twins[1][0], twins[0][5:] @ twins[1][2]]).square().sum().backward()
    torch.testing.assert_close(a.grad.double(), twins[0].grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(b.grad.double(), twins[1].grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("given, error, text", [
    ((normal(4, 8), normal(2, 9, 8), groups(2, 2)), RuntimeError,
     "b is 2 x 9 x 8; for a 4 x 8 it must be 2 x 8 x n, .groups, k, n."),
    ((normal(4, 8), normal(2, 8, 8), groups(2, 2, 0)), RuntimeError, "ends is 3; for b 2 x 8 x 8 it must be 2, .groups."),
    ((normal(4, 8), normal(2, 8, 8), groups(2, 2).long()), NotImplementedError, "ends is torch.int64; it may be torch.int32"),
    ((normal(4, 8), normal(8, 8), groups(4)), RuntimeError,
     "b has 2 dimensions, 8 x 8; it must have 3 dimensions: .groups, k, n.")])
def test_refusals_of_groups(given, error, text):
    with pytest.raises(error, match=text):
        ops.grouped_matmul(*given)


# ---- what torch asks of all -----------------------------------------------------------------------------------------------

OPERATORS = {
    "addmm": lambda: (normal(4).requires_grad_(), normal(5, 9), normal(9, 4), 1.0, 2.0, "silu"),
    "scaled_mm": lambda: scaled(5, 16, 16, "rows")[:4],
    "grouped_matmul": lambda: (normal(12, 9).requires_grad_(), normal(2, 9, 8), groups(5, 7)),
    "grouped_matmul_of_rows": lambda: (normal(12, 9), normal(12, 8), groups(5, 7)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_opcheck(name):
    """torch compares no fp8 tensors, which its check of the schema wants."""
    some = dict(test_utils=("test_autograd_registration", "test_faketensor")) if name == "scaled_mm" else {}
    torch.library.opcheck(getattr(torch.ops.mimw, name).default, OPERATORS[name](), **some)


def test_autocast():
    with torch.autocast("cpu", bf16):
        assert ops.addmm(normal(4, dtype=fp32), normal(5, 9, dtype=fp32), normal(9, 4, dtype=fp32)).dtype == bf16
