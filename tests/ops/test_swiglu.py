"""`mimw.ops.swiglu` against torch's: shapes, strides, types, gradients, and what torch asks."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from torch.nn import functional  # noqa: E402

from mimw import ops  # noqa: E402


def normal(*shape, dtype=torch.bfloat16, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


CASES = {"matrix": (normal(5, 40), normal(5, 40, seed=1)), "halves": normal(2, 3, 80, dtype=torch.float16).chunk(2, -1),
         "transposed": (normal(33, 4).T, normal(4, 33)), "a number": (normal(), normal()), "nothing": (normal(0, 4), normal(0, 4)),
         "long": (normal(2, 2100, dtype=torch.float32), normal(2, 2100, dtype=torch.float32, seed=1))}


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case):
    given = CASES[case]
    found, wanted = ([one.detach().to(dtype).requires_grad_() for one in given] for dtype in (given[0].dtype, torch.float64))
    y, expected = ops.swiglu(*found), functional.silu(wanted[0]) * wanted[1]
    assert y.dtype == given[0].dtype and y.shape == given[0].shape and y.is_contiguous()
    torch.testing.assert_close(y.double(), expected, rtol=1e-2, atol=1e-2)
    dy = normal(*y.shape, dtype=y.dtype, seed=2)
    for one, other in zip(torch.autograd.grad(y, found, dy), torch.autograd.grad(expected, wanted, dy.double())):
        torch.testing.assert_close(one.double(), other, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("gate, up, error, text", [
    (normal(4, 8), normal(4, 9), RuntimeError, "up is 4 x 9; for gate 4 x 8 it must be 4 x 8, ..any."),
    (normal(4, 8), normal(4, 8).half(), RuntimeError, "gate is torch.bfloat16 and up torch.float16; both must be of one"),
    (normal(4, 8).double(), normal(4, 8).double(), NotImplementedError, "gate is torch.float64")])
def test_refusals(gate, up, error, text):
    with pytest.raises(error, match=text):
        ops.swiglu(gate, up)


def test_opcheck():
    gate, up = normal(3, 24, dtype=torch.float32).requires_grad_(), normal(3, 24, dtype=torch.float32, seed=1).requires_grad_()
    torch.library.opcheck(torch.ops.mimw.swiglu.default, (gate, up))
