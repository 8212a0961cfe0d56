"""`mimw.ops.rope` against torch's products in fp64: pairs, layouts, tables, positions, in place, gradients, and what it refuses."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402


def normal(*shape, dtype=torch.bfloat16, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def turned(x, cos, sin, positions=None, interleaved=False):
    """In fp64, with gradients."""
    wide, half = x.double(), cos.shape[-1]
    at = torch.arange(x.shape[-2]) if positions is None else positions
    cos, sin = (one.double()[..., at, :] if one.dim() == 2 else one.double()[:, at][:, None] for one in (cos, sin))
    if cos.dim() == 3:      # (batch, length, half) by positions of each batch
        cos, sin = cos[:, None], sin[:, None]
    a, b = (wide[..., 0:2 * half:2], wide[..., 1:2 * half:2]) if interleaved else (wide[..., :half], wide[..., half:2 * half])
    pair = a * cos - b * sin, a * sin + b * cos
    y = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    return torch.cat((y, wide[..., 2 * half:]), -1)


PAIR = normal(2, 3, 5, 16), normal(2, 1, 5, 16)
TABLES = normal(5, 8, dtype=torch.float32), normal(5, 8, dtype=torch.float32, seed=1)
LONG = normal(9, 6), normal(9, 6, seed=1)
PLACES = torch.tensor([[4, 0, 8, 1, 1], [2, 3, 4, 5, 6]])
CASES = {
    "halves": (PAIR, TABLES, {}),
    "interleaved": (PAIR, TABLES, {"interleaved": True}),
    "a part of the head": (PAIR, LONG, {}),
    "an odd part, interleaved": ((normal(2, 3, 5, 16, dtype=torch.float16), ), [one[:, :5] for one in LONG], {"interleaved": True}),
    "positions": (PAIR, LONG, {"positions": PLACES}),
    "positions of all batches": ((PAIR[0][0], ), LONG, {"positions": PLACES[0].int()}),
    "tables of batches": (PAIR, (normal(2, 5, 8), normal(2, 5, 8, seed=1)), {}),
    "length before heads": ([x.transpose(1, 2).contiguous().transpose(1, 2) for x in PAIR], TABLES, {"interleaved": True}),
    "parts of one tensor": (normal(2, 4, 5, 48, dtype=torch.float32).split(16, -1)[:2], TABLES, {}),
    "columns apart": ((normal(2, 3, 16, 5).mT, ), TABLES, {}),
    "one head of nothing": ((normal(1, 3, 5, 16), normal(1, 0, 5, 16)), TABLES, {}),
    "a matrix": ((normal(5, 33), ), LONG, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case):
    xs, tables, options = CASES[case]
    found, wanted = ([x.detach().to(dtype or x.dtype).requires_grad_() for x in xs] for dtype in (None, torch.float64))
    y = ops.rope(found if len(xs) == 2 else found[0], *tables, **options)
    y = y if isinstance(y, tuple) else (y, )
    expected = [turned(x, *tables, **options) for x in wanted]
    dy = [normal(*x.shape, dtype=x.dtype, seed=2) for x in xs]
    gradients = torch.autograd.grad(y, found, dy), torch.autograd.grad(expected, wanted, [one.double() for one in dy])
    for one, other in zip((*y, *gradients[0]), (*expected, *gradients[1])):
        torch.testing.assert_close(one.double(), other, rtol=8e-3, atol=2e-2)
    assert all(one.dtype == x.dtype and (one.stride() == x.stride() or "length" not in case) for one, x in zip(y, xs))


def test_in_place():
    """Also of a view, also with gradients, which other results that need the old value notice."""
    whole = normal(2, 5, 4, 16, dtype=torch.float32)
    leaf = whole.clone().requires_grad_()
    x = leaf * 1
    q, k = x.transpose(1, 2)[:, :3], x.transpose(1, 2)[:, 3:]
    square = q.square()
    found = ops.rope((q, k), *TABLES, inplace=True)
    assert found[0].data_ptr() == x.data_ptr()
    expected = turned(whole.transpose(1, 2), *TABLES)
    torch.testing.assert_close(x.detach().transpose(1, 2).double(), expected, rtol=1e-5, atol=1e-5)
    gradient, = torch.autograd.grad(x, leaf, torch.ones_like(x), retain_graph=True)
    backwards = turned(torch.ones(2, 4, 5, 16), TABLES[0], -TABLES[1]).transpose(1, 2)
    torch.testing.assert_close(gradient.double(), backwards, rtol=1e-5, atol=1e-5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(square.sum(), leaf)
    apart = normal(3, 16, 5).mT
    ops.rope(apart, *TABLES, inplace=True)
    torch.testing.assert_close(apart.double(), turned(normal(3, 16, 5).mT, *TABLES), rtol=8e-3, atol=2e-2)


def test_a_position_outside_of_the_tables_is_not_a_number():
    y = ops.rope(PAIR[0][0, 0], *LONG, torch.tensor([0, 9, 1, -1, 2]))
    assert y[:, :12].isnan().all(1).tolist() == [False, True, False, True, False] and not y[:, 12:].isnan().any()


@pytest.mark.parametrize("args, error, text", [
    ((normal(2, 3, 5, 8), *TABLES), RuntimeError, "half is 8 and dim is 8; tables turn twice as many columns as they"),
    ((normal(2, 3, 6, 16), *TABLES), RuntimeError, "table is 5 and length is 6; tables must have a row for each"),
    ((normal(5, 16).double(), *TABLES), NotImplementedError, "float64"),
    (((PAIR[0], PAIR[1][:1]), *TABLES), RuntimeError, "k is 1 x 1 x 5 x 16; for q 2 x 3 x 5 x 16 it must be 2 x k_heads"),
    ((PAIR[0], TABLES[0].clone().requires_grad_(), TABLES[1]), NotImplementedError, "tables have no gradient"),
    ((PAIR[0], *TABLES, torch.zeros(4, dtype=torch.int64)), RuntimeError,
     "positions is 4; for x 2 x 3 x 5 x 16 it must be 5, .length.")])
def test_refusals(args, error, text):
    with pytest.raises(error, match=text):
        ops.rope(*args)


def test_opcheck():
    leaf = normal(1, 2, 5, 16, dtype=torch.float32).requires_grad_()
    torch.library.opcheck(torch.ops.mimw.rope_of_two.default, (leaf, leaf.detach().clone(), *TABLES, None, True, False))
    pair = leaf.detach().clone(), leaf.detach().clone()
    torch.library.opcheck(torch.ops.mimw.rope_of_two_.default, (*pair, *TABLES, None, False, False),
                          test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("inplace", [False, True])
def test_compiled_whole(inplace):
    def step(x):
        q, k = ops.rope((x[:, :1] * 2, x[:, 1:] * 3), *TABLES, inplace=inplace)
        return (q * k).sum()

    x = normal(1, 2, 5, 16, dtype=torch.float32).requires_grad_()
    found, expected = (torch.autograd.grad(one(x), x)[0] for one in
                       (torch.compile(step, fullgraph=True, backend="aot_eager"), step))
    torch.testing.assert_close(found, expected)
