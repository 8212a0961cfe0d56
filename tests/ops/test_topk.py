"""`mimw.ops.topk` against torch.topk: dimensions, order, NaN, ties, long rows, and what torch asks of an operator."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402
from tests.ops.anew import anew  # noqa: E402

MODULE = sys.modules["mimw.ops.topk"]
inf, nan = float("inf"), float("nan")


def normal(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def compare(x, k, dim=-1, largest=True, sorted=True):
    """The values are torch's, bit for bit but for the kind of NaN; the indices say where they are, each once."""
    values, indices = ops.topk(x, k, dim, largest, sorted)
    expected, places = torch.topk(x, k, dim, largest, sorted=True)
    assert values.shape == indices.shape == expected.shape and values.dtype == x.dtype and indices.dtype == torch.int64
    assert values.is_contiguous() and indices.is_contiguous()
    if not sorted:
        values, order = torch.sort(values, dim, largest)
        indices = indices.gather(dim, order)
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)
    picked = x.gather(dim, indices) if x.dim() else x
    torch.testing.assert_close(picked, values, rtol=0, atol=0, equal_nan=True)
    if x.dim() and k > 1:
        assert (indices.sort(dim)[0].diff(dim=dim) > 0).all()
    return indices


@pytest.mark.parametrize("shape, k, dim", [((3, 40), 5, -1), ((3, 40), 40, 1), ((3, 40), 2, 0), ((2, 5, 4), 3, -2), ((7, ), 1, 0),
                                           ((), 1, 0), ((), 0, -1), ((3, 40), 0, -1), ((0, 4), 2, 1), ((3, 0), 0, 1)])
@pytest.mark.parametrize("largest", [True, False])
def test_shapes(shape, k, dim, largest):
    compare(normal(*shape), k, dim, largest)


@pytest.mark.parametrize("short, dtype, largest", [(0, torch.float16, True), (0, torch.bfloat16, False), (0, torch.float32, True),
                                                   (1024, torch.float16, False), (1024, torch.bfloat16, True),
                                                   (1024, torch.float32, False)])
def test_nan_infinities_zeros_and_ties(dtype, largest, short, monkeypatch):
    """By radix select and by sorting: NaN of either sign is largest, and of equal ones sorting takes the first."""
    monkeypatch.setattr(MODULE, "SHORT", short)
    monkeypatch.setattr(MODULE, "FEW_ROWS", 0)
    anew(monkeypatch, "topk")
    x = torch.tensor([[nan, -inf, 1, -0.0, 2, 2, -nan, inf, 0.0, 2], [1, 1, 1, 1, -1, -1, -1, 3, -inf, nan]]).to(dtype)
    x = torch.cat([x, x.flip(-1), x], -1)
    x[0, 6] = torch.tensor(-nan)
    for k in (1, 7, 30):
        compare(x, k, -1, largest, sorted=k != 7)
    if short:
        assert ops.topk(x[1:], 3, -1, not largest)[1].tolist() == [[8, 11, 28] if largest else [9, 10, 29]]


def test_long_rows_are_selected_by_radix(monkeypatch):
    monkeypatch.setattr(MODULE, "FEW_ROWS", 0)
    anew(monkeypatch, "topk")
    compare(normal(2, 1500), 20)
    compare(normal(1500, 2), 20, 0, False)


def test_very_long_rows_are_streamed(monkeypatch):
    monkeypatch.setattr(MODULE, "FEW_ROWS", 0)
    monkeypatch.setattr(MODULE.streaming, "streamed", lambda rows, n: n > 1000)
    anew(monkeypatch, "topk")
    x = normal(2, 1500)
    x[0, 7] = float("nan")
    for largest in (True, False):
        compare(x, 20, -1, largest)


@pytest.mark.parametrize("largest, sorted", [(True, True), (False, False)])
@pytest.mark.parametrize("longest", [0, 8192])
def test_of_equal_ones_the_first(monkeypatch, longest, largest, sorted):
    """By the radix select, and by sorting, which does it anyway; NaN are equal to each other."""
    monkeypatch.setattr(MODULE, "FEW_ROWS", 0)
    monkeypatch.setattr(MODULE, "SHORT", longest)
    anew(monkeypatch, "topk")
    x = torch.randint(0, 4, (3, 900), generator=torch.Generator().manual_seed(0)).float()
    x[1, 100:800] = float("nan")
    values, indices = ops.topk(x, 300, -1, largest, sorted, True)
    expected = torch.sort(x, dim=-1, descending=largest, stable=True).indices[:, :300]
    assert torch.equal(indices if sorted else indices.sort(-1).values, expected if sorted else expected.sort(-1).values)
    torch.testing.assert_close(values, x.gather(-1, indices), rtol=0, atol=0, equal_nan=True)


def test_more_than_one_program_sorts(monkeypatch):
    monkeypatch.setattr(MODULE.plain_topk, "LONGEST", 8)
    monkeypatch.setattr(MODULE, "FEW_ROWS", 0)
    anew(monkeypatch, "topk")
    for largest in (True, False):
        compare(normal(2, 1500), 20, -1, largest)


def test_longer_rows_in_parts(monkeypatch):
    monkeypatch.setattr(MODULE, "LONGEST_ROW", 1100)
    monkeypatch.setattr(MODULE, "FEW_ROWS", 0)
    anew(monkeypatch, "topk")
    x = normal(1, 2500, dtype=torch.float16)
    assert (ops.topk(x, 3)[1] >= 1100).any()
    compare(x, 3)
    compare(x, 2000)


def test_other_chips_sort_block_by_block(monkeypatch):
    monkeypatch.setattr(MODULE, "another_chip", lambda x: "the test says so")
    anew(monkeypatch, "topk")
    compare(normal(1, 9000), 3)
    compare(normal(1, 5000), 2500)


@pytest.mark.parametrize("change", [lambda x: x[:, ::2], lambda x: x.T.contiguous().T, lambda x: x[:, 3:],
                                    lambda x: x[:1].expand(3, -1)])
def test_strides(change):
    compare(change(normal(3, 64)), 4)


@pytest.mark.parametrize("x, k, dim, error, text", [
    (normal(3, 4), 5, -1, RuntimeError, "rows have 4"), (normal(3, 4), -1, -1, RuntimeError, "k is -1"),
    (normal(3, 4), 1, 2, IndexError, "none of number 2"),
    (torch.ones(3, dtype=torch.int32), 1, 0, NotImplementedError, "torch.topk")])
def test_refusals(x, k, dim, error, text):
    with pytest.raises(error, match=text):
        ops.topk(x, k, dim)
    if error is not NotImplementedError:
        with pytest.raises(error):
            torch.topk(x, k, dim)


def test_gradient():
    x, twin = (normal(3, 40).requires_grad_() for _ in range(2))
    (ops.topk(x, 2, 0, False)[0]**2).sum().backward()
    (torch.topk(twin, 2, 0, False)[0]**2).sum().backward()
    torch.testing.assert_close(x.grad, twin.grad)


@pytest.mark.parametrize("args", [(normal(3, 40).requires_grad_(), 4), (normal(3, 40), 2, 0, False, False)])
def test_opcheck(args):
    torch.library.opcheck(torch.ops.mimw.topk.default, args)


def test_compiled_whole():
    compiled = torch.compile(lambda x: ops.topk(x, 3)[1] + 1, fullgraph=True, backend="aot_eager")
    x = normal(3, 40)
    assert torch.equal(compiled(x), torch.topk(x, 3)[1] + 1)
