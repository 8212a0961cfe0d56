"""`mimw.ops.simplicial_attention` against five lines of torch: both kernels, strides, and what torch asks of an operator."""

import pytest

torch = pytest.importorskip("torch", reason="operators of torch")

from mimw import ops  # noqa: E402

bf16, fp32 = torch.bfloat16, torch.float32


def reference(q, k, v, k2, v2, windows, scale=None):
    """(o, log-sum-exp) in fp64."""
    q, k, v, k2, v2 = (x.double().repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (q, k, v, k2, v2))
    j = torch.arange(k.shape[2], device=q.device)
    i = j[k.shape[2] - q.shape[2]:, None]
    seen = [(j <= i) & (j > i - window) for window in windows]
    logits = (scale or q.shape[3] ** -0.5) * torch.einsum("bhid,bhjd,bhkd->bhijk", q, k, k2)
    logits = logits.masked_fill(~(seen[0][:, :, None] & seen[1][:, None]), float("-inf"))
    p = logits.flatten(-2).softmax(-1).view(logits.shape)
    return torch.einsum("bhijk,bhjd,bhkd->bhid", p, v, v2), logits.flatten(-2).logsumexp(-1)


def tensors(batch, heads, kv_heads, seq, dim, dtype, device="cpu", past=0):
    torch.manual_seed(0)
    shapes = (heads, seq), *4 * [(kv_heads, seq + past)]
    return [torch.randn(batch, count, length, dim).to(device, dtype) for count, length in shapes]


def compare(given, windows, close, **options):
    o, lse = ops.simplicial_attention(*given, windows, return_lse=True, **options)
    expected, exact = reference(*given, windows, **options)
    assert o.dtype is given[0].dtype and o.is_contiguous()
    torch.testing.assert_close(o.double(), expected, rtol=0, atol=close * expected.abs().max().item())
    torch.testing.assert_close(lse.double(), exact, rtol=0, atol=close)


def test_by_the_kernel_for_hopper():
    """Keys that are views of a tensor with heads last but one."""
    q, k, v, k2, v2 = tensors(1, 64, 1, 2, 64, bf16, past=3)
    compare((q, k.transpose(1, 2).contiguous().transpose(1, 2), v, k2, v2), (2, 2), 2e-2)


@pytest.mark.parametrize("dtype, close", [(fp32, 1e-5), (bf16, 2e-2)])
def test_by_the_plain_kernel(dtype, close):
    q, *rest = tensors(2, 6, 2, 5, 20, dtype, past=4)
    compare((q.transpose(2, 3).contiguous().transpose(2, 3), *rest), (4, 3), close, scale=0.3)


@pytest.mark.parametrize("dtype, close", [(fp32, 1e-5), (bf16, 2e-2)])
def test_gradients(dtype, close):
    """Of all five, from those of both results; do with strides of its own."""
    given = tensors(1, 6, 2, 9, 20, dtype, past=4)
    ours, theirs = ([x.clone().requires_grad_() for x in given] for _ in range(2))
    do, dlse = torch.randn(1, 6, 20, 9).to(dtype).transpose(2, 3), torch.randn(1, 6, 9)
    torch.autograd.backward(ops.simplicial_attention(*ours, (6, 3), return_lse=True), (do, dlse))
    o, lse = reference(*theirs, (6, 3))
    torch.autograd.backward((o, lse), (do.double(), dlse.double()))
    for mine, its in zip(ours, theirs):
        torch.testing.assert_close(mine.grad, its.grad, rtol=0, atol=close * its.grad.abs().max().item())


def test_of_nothing():
    o, lse = ops.simplicial_attention(*tensors(1, 2, 1, 0, 8, bf16), return_lse=True)
    assert o.shape == (1, 2, 0, 8) and lse.shape == (1, 2, 0)


@pytest.mark.parametrize("change, error, text", [
    (dict(k2=torch.zeros(1, 1, 8, 16)), RuntimeError, "k2 is 1 x 1 x 8 x 16"), (dict(windows=(3, 0)), RuntimeError, "1 or more"),
    (dict(v=torch.zeros(1, 1, 9, 16, dtype=bf16)), RuntimeError,
     "q is torch.float32 and v torch.bfloat16; both must be of one type"),
    (dict(q=torch.zeros(1, 3, 9, 16), k=torch.zeros(1, 2, 9, 16)), RuntimeError,
     "v is 1 x 1 x 9 x 16; for q 1 x 3 x 9 x 16 and k 1 x 2 x 9 x 16 it"),
    (dict(q=torch.zeros(1, 2, 10, 16)), RuntimeError, "seq_k is 9 and seq_q is 10; the last query is at the last key,"),
    (dict(q=torch.zeros(9, 16)), RuntimeError, "2 dimensions")])
def test_refusals(change, error, text):
    with pytest.raises(error, match=text):
        ops.simplicial_attention(**dict(zip(("q", "k", "v", "k2", "v2"), tensors(1, 2, 1, 9, 16, fp32))) | change)


def test_opcheck():
    given = [x.requires_grad_() for x in tensors(1, 2, 1, 3, 16, fp32)]
    torch.library.opcheck(torch.ops.mimw.simplicial_attention.default, (*given, 2, 2))


def test_compiled():
    given = tensors(1, 2, 1, 3, 16, fp32)
    compiled = torch.compile(lambda *x: ops.simplicial_attention(*x, (2, 2)) + 1, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*given), ops.simplicial_attention(*given, (2, 2)) + 1)
