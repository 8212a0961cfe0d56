"""Steps of servers on a GPU: ragged batches on pages, captured steps whose lengths and pages change, experts in a graph."""

import pytest

torch = pytest.importorskip("torch", reason="the operators are torch's")

from mimw.integrations import experts, paged  # noqa: E402

from .attention_reference import Step, attention, cached  # noqa: E402
from .test_experts import routed  # noqa: E402

pytestmark = pytest.mark.gpu
HEADS, KV_HEADS, DIM = 32, 8, 128


def on_device(given: Step, decodes: int, most_keys: int = paged.MOST_KEYS) -> tuple:
    """(q, keys, values, rows, out) on the GPU."""
    starts, lengths = (torch.tensor(one, dtype=torch.int32, device="cuda") for one in (given.starts, given.lengths))
    rows = paged.rows_of(starts, given.starts, lengths, given.lengths, given.table.cuda(), decodes, 1, most_keys)
    q, cache = given.q.cuda(), given.cache.cuda()
    return q, *cache.transpose(1, 2).split(DIM, -1), rows, torch.zeros_like(q)


@pytest.mark.parametrize("page, most_keys, options", [
    (16, 1 << 16, {}), (64, 1500, dict(left=300, softcap=20.0, sinks=torch.linspace(-1, 1, HEADS))), (32, 100, dict(left=127))])
def test_a_ragged_step(page, most_keys, options):
    given = cached([700, 33, 1, 900, 1300, 257], [1, 1, 1, 900, 400, 3], HEADS, KV_HEADS, DIM, page, torch.bfloat16)
    *made, out = on_device(given, 3, most_keys)
    moved = {name: one.cuda() if isinstance(one, torch.Tensor) else one for name, one in options.items()}
    paged.attend(*made, out, scale=DIM ** -0.5, **moved)
    wanted = attention(given, given.cache, scale=DIM ** -0.5, **options)
    torch.testing.assert_close(out[:given.starts[-1]].cpu().float(), wanted.float(), atol=2e-2, rtol=2e-2)
    assert not out[given.starts[-1]:].any()


def test_a_captured_step_is_replayed_with_other_lengths_and_pages():
    first, second = (cached(lengths, [1] * 4, HEADS, KV_HEADS, DIM, 16, torch.bfloat16) for lengths in (
        [100, 500, 40, 7], [480, 2, 99, 60]))
    q, keys, values, rows, out = on_device(first, 4)
    paged.attend(q, keys, values, rows, out, scale=0.1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        paged.attend(q, keys, values, rows, out, scale=0.1)
    q.copy_(second.q)
    rows.lengths.copy_(torch.tensor(second.lengths))
    rows.table[:, :second.table.shape[1]].copy_(second.table[:, :rows.table.shape[1]])
    pages = min(len(first.cache), len(second.cache))
    assert int(second.table.max()) < pages
    keys.copy_(torch.zeros_like(keys)), values.copy_(torch.zeros_like(values))
    for side, cache in zip(second.cache.transpose(1, 2).split(DIM, -1), (keys, values)):
        cache[:pages].copy_(side[:pages])
    out.zero_()
    graph.replay()
    wanted = attention(second, second.cache, scale=0.1)
    torch.testing.assert_close(out[:4].cpu().float(), wanted.float(), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("scaled", [False, True])
def test_experts_in_a_graph(scaled):
    x, w1, w2 = (torch.randn(*shape).bfloat16() / 8 for shape in ((19, 512), (8, 512, 512), (8, 512, 256)))
    weights, ids = torch.rand(19, 8).topk(2)
    ids[3, 1] = -1
    scales, wide = (), (w1, w2)
    if scaled:
        scales = torch.rand(8, 4, 4) / 64, torch.rand(8, 4, 2) / 64
        w1, w2 = (w.to(torch.float8_e4m3fn) for w in (w1 * 64, w2 * 64))
        wide = [w.float() * scale.repeat_interleave(128, 1).repeat_interleave(128, 2) for w, scale in zip((w1, w2), scales)]
    given = [one.cuda() for one in (x, w1, w2, ids, weights, *scales)]
    experts.routed(*given)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = experts.routed(*given)
    graph.replay()
    wanted = routed(x, *wide, ids, weights)
    # of e4m3 both products round their left operand to four bits: some 2.5 % each, of random signs
    assert (found.cpu().float() - wanted).norm() <= (5e-2 if scaled else 1e-2) * wanted.norm()
