"""`mimw.ops.softmax` and `log_softmax` against torch's: dimensions, strides, types, gradients, and what torch asks."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402


def normal(*shape, dtype=torch.bfloat16, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


CASES = {
    "last": (normal(5, 40), -1, None),
    "first": (normal(40, 5), 0, None),
    "middle": (normal(2, 33, 3, dtype=torch.float16), 1, torch.float32),
    "line": (normal(33, dtype=torch.float32), 0, torch.bfloat16),
    "transposed": (normal(6, 40).T, 1, None),
    "every second": (normal(5, 80)[:, ::2], 1, None),
    "a number": (normal(), -1, None),
    "one each": (normal(7, 1), 1, None),
    "nothing": (normal(0, 4), 1, None),
    "of nothing": (normal(4, 0), 1, None),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("log", [False, True], ids=["softmax", "log"])
def test_shapes(case, log):
    x, dim, dtype = CASES[case]
    y = (ops.log_softmax if log else ops.softmax)(x, dim, dtype)
    expected = (torch.log_softmax if log else torch.softmax)(x.double(), dim)
    assert y.shape == x.shape and y.dtype == (dtype or x.dtype) and y.is_contiguous()
    torch.testing.assert_close(y.double(), expected, rtol=1e-2, atol=4e-3)


@pytest.mark.parametrize("case", ["last", "middle", "line"])
@pytest.mark.parametrize("log", [False, True], ids=["softmax", "log"])
def test_gradients(case, log):
    x, dim, dtype = CASES[case]
    found, wanted = x.clone().requires_grad_(), x.double().requires_grad_()
    dy = normal(*x.shape, dtype=dtype or x.dtype, seed=1)
    (ops.log_softmax if log else ops.softmax)(found, dim, dtype).backward(dy)
    (torch.log_softmax if log else torch.softmax)(wanted, dim).backward(dy.double())
    assert found.grad.dtype == x.dtype
    torch.testing.assert_close(found.grad.double(), wanted.grad, rtol=2e-2, atol=4e-2)


@pytest.mark.parametrize("x, dim, dtype, error, text", [
    (normal(4, 8), 2, None, IndexError, "dim is 2, and x has 2"),
    (normal(4, 8).double(), 1, None, NotImplementedError, "x is torch.float64"),
    (normal(4, 8), 1, torch.int32, NotImplementedError, "dtype is torch.int32; it may be torch.bfloat16, torch.float16,")])
def test_refusals(x, dim, dtype, error, text):
    with pytest.raises(error, match=text):
        ops.softmax(x, dim, dtype)


@pytest.mark.parametrize("name, args", [("softmax", (normal(3, 24, dtype=torch.float32), 1)),
                                        ("log_softmax", (normal(2, 8, 3), 1, torch.float32))])
def test_opcheck(name, args):
    torch.library.opcheck(getattr(torch.ops.mimw, name).default, (args[0].requires_grad_(), *args[1:]))


def test_compiled_whole():
    def step(x):
        return (ops.softmax(x, 0) * ops.log_softmax(x, 1)).sum()

    x = normal(6, 16, dtype=torch.float32).requires_grad_()
    found, expected = (torch.autograd.grad(one(x), x)[0] for one in
                       (torch.compile(step, fullgraph=True, backend="aot_eager"), step))
    torch.testing.assert_close(found, expected)
