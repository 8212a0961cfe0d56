"""`mimw.ops.layer_norm` and `rms_norm` against torch's: shapes, strides, types, residuals, gradients, and what torch asks."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from torch.nn import functional  # noqa: E402

from mimw import ops  # noqa: E402


def normal(*shape, dtype=torch.bfloat16, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def by_torch(kind, x, shape, w, b, residual=None):
    """The same in fp64, the sum rounded as ours."""
    if residual is not None:
        total = (x.float() + residual.float()).to(torch.promote_types(x.dtype, residual.dtype))
        return by_torch(kind, total, shape, w, b), total
    w, b = (None if one is None else one.double() for one in (w, b))
    if kind == "layer_norm":
        return functional.layer_norm(x.double(), shape, w, b, 1e-5)
    return functional.rms_norm(x.double(), shape, w, 1e-5)


def ours(kind, x, shape, w, b, residual=None):
    if kind == "layer_norm":
        return ops.layer_norm(x, shape, w, b, 1e-5, residual)
    return ops.rms_norm(x, shape, w, 1e-5, residual)


CASES = {
    "matrix": (normal(5, 40), (40, ), torch.bfloat16),
    "two dimensions": (normal(2, 3, 4, 10), (4, 10), torch.float32),
    "one row": (normal(33, dtype=torch.float16), (33, ), torch.float16),
    "transposed": (normal(40, 5).T, (40, ), torch.bfloat16),
    "every second": (normal(5, 80)[:, ::2], (40, ), None),
    "no rows": (normal(0, 40), (40, ), torch.bfloat16),
    "one column": (normal(7, 1, dtype=torch.float32), (1, ), torch.float32),
}


@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("case", CASES)
def test_shapes(case, kind):
    x, shape, dtype = CASES[case]
    w, b = (None if dtype is None else normal(*shape, dtype=dtype, seed=seed) for seed in (1, 2))
    y = ours(kind, x, shape, w, b)
    assert y.dtype == x.dtype and y.shape == x.shape and y.is_contiguous()
    torch.testing.assert_close(y.double(), by_torch(kind, x, shape, w, b), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind, dtype", [("layer_norm", torch.float32), ("rms_norm", torch.bfloat16)])
def test_gradients_of_a_sum(kind, dtype):
    """Of x, residual, weight and bias, through both results."""
    leaves = [normal(6, 24), normal(6, 24, dtype=dtype, seed=1), normal(24, seed=2), normal(24, seed=3)]
    leaves = leaves if kind == "layer_norm" else leaves[:3]
    found = [leaf.clone().requires_grad_() for leaf in leaves]
    wanted = [leaf.double().requires_grad_() for leaf in leaves]
    dy, dtotal = normal(6, 24, seed=4), normal(6, 24, dtype=dtype, seed=5)
    x, residual, w, b = *found, *[None] * (4 - len(found))
    y, total = ours(kind, x, (24, ), w, b, residual)
    assert total.dtype == dtype
    torch.autograd.backward((y, total), (dy, dtotal))
    x, residual, w, b = *wanted, *[None] * (4 - len(wanted))
    wide = by_torch(kind, x + residual, (24, ), w, b)
    torch.autograd.backward((wide, x + residual), (dy.double(), dtotal.double()))
    for one, other in zip(found, wanted):
        assert one.grad.dtype == one.dtype
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=2e-2, atol=5e-2)


def test_gradients_that_are_wanted_alone():
    """Of x only, of weight only; and of a sum whose norm nobody uses."""
    x, w = normal(4, 24).requires_grad_(), normal(24)
    ops.layer_norm(x, (24, ), w).sum().backward()
    expected = torch.autograd.grad(functional.layer_norm(x, (24, ), w).sum(), x)[0]
    torch.testing.assert_close(x.grad, expected, rtol=2e-2, atol=2e-2)
    w = w.requires_grad_()
    found, expected = (torch.autograd.grad(norm(x.detach(), (24, ), w).sum(), w)[0] for norm in (ops.rms_norm, functional.rms_norm))
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
    _, total = ops.rms_norm(x, (24, ), w, residual=x.detach())
    assert (torch.autograd.grad(total.sum(), x)[0] == 1).all()


def test_rows_without_columns():
    y = ops.layer_norm(normal(3, 0), (0, ), normal(0))
    assert y.shape == (3, 0)


def test_eps_is_torchs():
    x = normal(2, 32, dtype=torch.float16) * 1e-3
    torch.testing.assert_close(ops.rms_norm(x, 32), functional.rms_norm(x, (32, )), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("x, shape, weight, error, text", [
    (normal(4, 8), (9, ), None, RuntimeError, "last dimensions"),
    (normal(4, 8), (), None, RuntimeError, "last dimensions"),
    (normal(4, 8), (8, ), normal(9), RuntimeError, "weight is 9"),
    (normal(4, 8), (8, ), normal(8, dtype=torch.float64), NotImplementedError, "weight is torch.float64"),
    (normal(4, 8).to(torch.int32), (8, ), None, NotImplementedError, "x is torch.int32")])
def test_refusals(x, shape, weight, error, text):
    with pytest.raises(error, match=text):
        ops.layer_norm(x, shape, weight)


@pytest.mark.parametrize("name, args", [
    ("layer_norm", (normal(3, 24, dtype=torch.float32), normal(24, dtype=torch.float32), normal(24, dtype=torch.float32), 1e-5, 1)),
    ("add_rms_norm", (normal(2, 3, 8), normal(2, 3, 8, seed=1), normal(3, 8), 1e-5, 2))])
def test_opcheck(name, args):
    leaves = [one.requires_grad_() if isinstance(one, torch.Tensor) else one for one in args]
    torch.library.opcheck(getattr(torch.ops.mimw, name).default, leaves)


def test_compiled_whole():
    def step(x, w):
        y, total = ops.rms_norm(x, (16, ), w, residual=x)
        return (y * total).sum()

    x, w = normal(3, 16, dtype=torch.float32).requires_grad_(), normal(16, dtype=torch.float32).requires_grad_()
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    found, expected = (torch.autograd.grad(one(x, w), (x, w)) for one in (compiled, step))
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind, added", [("layer_norm", True), ("rms_norm", False)])
def test_second_derivatives(kind, added):
    """The gradient's gradient, as torch's in fp64, of all that the gradient is made of."""
    centred = kind == "layer_norm"
    leaves = [normal(3, 8), *[normal(3, 8) + 1] * added, normal(8), *[normal(8)] * centred]
    dy = normal(3, 8)

    def of(x, *rest):
        total, given = (x, dict(residual=rest[0])) if added else (x, {})
        w, b = (*rest[added:], None)[:2]
        if x.dtype == torch.float64:
            return by_torch(kind, total + rest[0] if added else total, (8, ), w, b)
        found = getattr(ops, kind)(x, 8, w, *[b] * centred, eps=1e-5, **given)
        return found[0] if added else found

    def twice(dtype):
        given = [one.to(dtype).requires_grad_() for one in leaves]
        first = torch.autograd.grad((of(*given) * dy.to(dtype)).sum(), given, create_graph=True)
        return torch.autograd.grad(sum((one * one).sum() for one in first if one.requires_grad), given[:len(given) - centred])

    for one, other in zip(twice(torch.float32), twice(torch.float64)):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-3)


def test_gradients_inside_gradients():
    x = normal(2, 8).float()
    found, wanted = (torch.func.grad(lambda x: torch.func.grad(f)(x).square().sum())(x) for f, x in (
        (lambda x: ops.layer_norm(x, 8).pow(3).sum(), x), (lambda x: functional.layer_norm(x, (8, )).pow(3).sum(), x.double())))
    torch.testing.assert_close(found.double(), wanted, rtol=1e-3, atol=1e-3)
