"""`mimw.ops.topk_selector` against numpy's order: windows, types, strides, and what torch asks of an operator."""

import pytest

torch = pytest.importorskip("torch", reason="operators of torch")

from mimw import ops  # noqa: E402


def compare(x, k, starts=None, ends=None):
    places = ops.topk_selector(x, k, starts, ends)
    assert places.dtype is torch.int32 and places.shape == (x.shape[0], k)
    for row, found in enumerate(places):
        begin, end = (0, x.shape[1]) if starts is None else (int(starts[row]), int(ends[row]))
        many = min(k, end - begin)
        assert (found[many:] == -1).all() and len(set(found[:many].tolist())) == many
        expected = x[row, begin:end].sort(descending=True).values[:many]
        torch.testing.assert_close(x[row, found[:many].long()].sort(descending=True).values, expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_windows_and_types(dtype):
    torch.manual_seed(0)
    x = torch.randint(-50, 50, (70, 2)).to(dtype).T       # columns side by side
    compare(x, 9, torch.tensor([0, 30]), torch.tensor([70, 35]))


def test_more_than_there_is_and_nothing():
    compare(torch.randn(2, 5), 8)
    assert ops.topk_selector(torch.zeros(3, 0), 4).tolist() == [[-1] * 4] * 3
    assert ops.topk_selector(torch.zeros(3, 7), 0).shape == (3, 0)


@pytest.mark.parametrize("change, error, text", [
    (dict(starts=None), RuntimeError, "both starts and ends"), (dict(k=1 << 15), RuntimeError, "0 to 16384"),
    (dict(x=torch.zeros(2, 9, dtype=torch.int32)), NotImplementedError, "torch.int32"),
    (dict(x=torch.zeros(9)), RuntimeError, "1 dim"),
    (dict(ends=torch.zeros(3, dtype=torch.int32)), RuntimeError, "ends is 3; for x 2 x 9 it must be 2, .rows."),
    (dict(ends=torch.zeros(2)), NotImplementedError, "ends is torch.float32; it may be torch.int32, torch.int64")])
def test_refusals(change, error, text):
    windows = dict(starts=torch.zeros(2, dtype=torch.int32), ends=torch.ones(2, dtype=torch.int32))
    with pytest.raises(error, match=text):
        ops.topk_selector(**dict(x=torch.zeros(2, 9), k=3, **windows) | change)


def test_opcheck():
    windows = torch.zeros(2, dtype=torch.int32), torch.full((2, ), 9, dtype=torch.int32)
    torch.library.opcheck(torch.ops.mimw.topk_selector.default, (torch.randn(2, 9), *windows, 3))
    compiled = torch.compile(lambda x: ops.topk_selector(x, 3) + 1, fullgraph=True, backend="aot_eager")
    assert compiled(torch.tensor([[3., 1., 2., 0.]])).sort().values.tolist() == [[1, 2, 3]]
