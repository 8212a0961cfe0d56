"""`mimw.ops.distributed.ring_attention` at ranks of gloo, simulated: values, gradients, memory for some heads, what torch asks
of it."""

import pytest

torch = pytest.importorskip("torch", reason="operators of several GPUs need torch")

from mimw.distributed import world_of  # noqa: E402
from mimw.kernels.ring_attention import positions  # noqa: E402
from mimw.ops.distributed import ring_attention  # noqa: E402
from mimw.ops.distributed.ring_attention_memory import groups, own_rows  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")


def whole(size, batch, heads, kv_heads, length, dtype=torch.float16):
    """q, k, v and gradients of o and lse for the whole sequence, the same at all ranks."""
    torch.manual_seed(0)
    return [torch.randn(batch, h, size * length, 64).to(dtype) for h in (heads, kv_heads, kv_heads, heads)] + [
        torch.randn(batch, heads, size * length)]


def expected(q, k, v, do, dlse, causal):
    """(o, lse, dq, dk, dv) by torch, in fp32."""
    q, k, v = (x.float().requires_grad_() for x in (q, k, v))
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT / 8
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    lse = scores.logsumexp(-1)
    o = (scores - lse[..., None]).exp() @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    return o, lse, *torch.autograd.grad((o, lse), (q, k, v), (do.float(), dlse))


@pytest.mark.long(but=["2-False-True-dtype1-1"], everywhere=True)
@pytest.mark.parametrize("size, causal, balanced, dtype, room",
                         [(2, True, True, torch.bfloat16, None), (2, False, True, torch.float16, 1)])
def test_values_and_gradients(size, causal, balanced, dtype, room):
    """Two kv heads; with room for one byte they are computed one after the other."""
    length = 256 if causal else 128

    def work(rank):
        inputs = whole(size, 1, 2, 2, length, dtype)
        mine = torch.from_numpy(positions(rank, size, length, 2 if causal else 1))
        q, k, v, do, dlse = (x[:, :, mine] for x in inputs)
        q, k, v = (x.requires_grad_() for x in (q, k, v))
        o, lse = ring_attention(q, k, v, causal, balanced, return_lse=True, room=room)
        gradients = torch.autograd.grad((o, lse), (q, k, v), (do, dlse))
        wanted = [x[:, :, mine] for x in expected(*inputs, causal)]
        return [float((x.float() - y).abs().max() / y.abs().max()) for x, y in zip((o, lse, *gradients), wanted)]

    for errors in at_ranks(size, work):
        assert max(errors) < (1e-2 if dtype is torch.bfloat16 else 2e-3), errors


def test_a_call_is_cut_by_kv_heads():
    q, k = torch.empty(2, 6, 128, 64, dtype=torch.float16), torch.empty(2, 3, 128, 64, dtype=torch.float16)
    one = 2 * 128 * 4 * 64 * 2
    assert groups(q, k, 4, None) == groups(q, k, 4, 6 * one) == [(slice(None), ) * 3]
    assert groups(q, k, 4, 2 * one + 1)[:2] == [(slice(0, 1), slice(0, 4), slice(0, 2)), (slice(0, 1), slice(4, 8), slice(2, 4))]
    moved = torch.empty(q.numel() + 1, dtype=torch.float16)[1:].view(q.shape)
    assert own_rows(q) is q and own_rows(moved) is not moved and own_rows(moved).data_ptr() % 16 == 0     # which TMA has to read
    cut = [(q[b, h].shape, k[b, g].shape) for b, h, g in groups(q, k, 4, 1)]
    assert cut == [((1, 2, 128, 64), (1, 1, 128, 64))] * 6


def test_opcheck_and_graphs_of_torch():
    def work(rank):
        q, k, v = (x[:, :, 128 * rank:128 * rank + 128] for x in whole(1, 1, 1, 1, 128)[:3])
        args = q, k, v, False, True, None, None, world_of().name
        told = torch.library.opcheck(torch.ops.mimw.ring_attention, args, test_utils=("test_schema", "test_faketensor"))
        o = ring_attention(q, k, v)
        compiled = torch.compile(lambda q, k, v: ring_attention(q, k, v) * 2, fullgraph=True, backend="eager")
        return set(told.values()), bool(torch.equal(compiled(q, k, v), o * 2)), o.is_contiguous()

    assert at_ranks(1, work) == [({"SUCCESS"}, True, True)]


def test_refusals():
    def work(rank):
        q, k, v = whole(1, 1, 2, 1, 128)[:3]
        told = []
        for call in (lambda: ring_attention(q, k, v, True), lambda: ring_attention(q.float(), k.float(), v.float()),
                     lambda: ring_attention(q, k[:, :, :64], v), lambda: ring_attention(q, k, v, room=0)):
            try:
                call()
            except (RuntimeError, NotImplementedError) as error:
                told.append(str(error))
        return told

    told, = at_ranks(1, work)
    for text, part in zip(told, ("multiple of 256 times", "torch.float32", "k is 1 x 1 x 64 x 64; for q 1 x 2 x 128 x 64",
                                 "room is 0 bytes"), strict=True):
        assert part in text, text
