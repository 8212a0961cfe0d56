"""Score_mods on a GPU: against fp64 with gradients, launches repeated with other tables, and torch's own flex attention."""

import math

import pytest

torch = pytest.importorskip("torch", reason="operators are torch's")

import mimw.integrations.inductor as inductor  # noqa: E402
from mimw import ops, score_mods  # noqa: E402
from mimw.testing import gpu_available  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="there is no GPU")]
LONGEST = 1000


def mods(heads):
    """Functions by name, of tensors on the GPU; they take scores of any float type."""
    bias = torch.randn(heads, 2 * LONGEST, device="cuda")
    documents = torch.arange(LONGEST, device="cuda") // 150
    seen = (torch.rand(LONGEST, device="cuda") < 0.7)
    starts = torch.arange(0, LONGEST, 150, device="cuda", dtype=torch.int32)
    return {
        "soft cap": lambda s, b, h, q, k: 3 * torch.tanh(s / 3),
        "relative bias": lambda s, b, h, q, k: s + bias[h, q - k + LONGEST],
        "documents": lambda s, b, h, q, k: torch.where((documents[q] == documents[k]) & seen[k], s, -math.inf),
        "stripes": lambda s, b, h, q, k: torch.where((q % 5 != 1) & ((k // 3 + h) % 2 == b % 2), s * torch.sigmoid(s), -math.inf),
        "places in documents": lambda s, b, h, q, k: s - 0.02 * (q - starts[documents[q]] - k + starts[documents[k]]).abs()}


def reference(mod, q, k, v, causal):
    """(o, lse) in fp64; 0 and -inf for queries that see nothing."""
    keys, values = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ keys.mT / math.sqrt(q.shape[-1])
    indices = [torch.arange(size, device="cuda").view([-1 if dim == at else 1 for dim in range(4)])
               for at, size in enumerate(scores.shape)]
    scores = mod(scores, *indices)
    if causal:
        scores = scores.masked_fill(indices[3] > indices[2] + k.shape[2] - q.shape[2], -math.inf)
    nothing = (scores == -math.inf).all(-1, keepdim=True)
    p = scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0)
    return p @ values, scores.logsumexp(-1)


# dim -> batch, heads, heads of keys, queries, keys, dim of values
SHAPES = {64: (2, 4, 2, 700, 900, 64), 128: (1, 4, 1, 650, 650, 128), 96: (1, 2, 2, 300, 400, 96), 192: (1, 2, 1, 300, 500, 128),
          256: (1, 2, 2, 333, 500, 256)}


@pytest.mark.long(but=["documents-64", "relative bias-128", "stripes-256", "soft cap-64"])
@pytest.mark.parametrize("dim", SHAPES)
@pytest.mark.parametrize("name", ["soft cap", "relative bias", "documents", "stripes", "places in documents"])
def test_against_fp64(name, dim):
    torch.manual_seed(0)
    batch, heads, kv_heads, seq_q, seq_k, value_dim = SHAPES[dim]
    mod, causal = mods(heads)[name], dim in (128, 256) and name != "stripes"
    given = [torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for shape in (
        (batch, heads, seq_q, dim), (batch, kv_heads, seq_k, dim), (batch, kv_heads, seq_k, value_dim))]
    exact = [one.detach().double().requires_grad_() for one in given]
    o, lse = ops.attention(*given, causal=causal, score_mod=mod, return_lse=True)
    expected, expected_lse = reference(mod, *exact, causal)
    assert (lse == -math.inf).equal(expected_lse == -math.inf)
    some = expected_lse.isfinite()
    assert (o - expected).abs().max() < 3e-2
    assert (lse - expected_lse)[some].abs().max() < 2e-3
    do = torch.randn_like(expected)
    ours = torch.autograd.grad((o * do).sum() + lse[some].sum(), given)
    theirs = torch.autograd.grad((expected * do).sum() + expected_lse[some].sum(), exact)
    for one, other in zip(ours, theirs):
        assert torch.isfinite(one).all() and (one - other).norm() < 2e-2 * other.norm()


def test_repeated_launches_take_new_tables():
    """A frozen launch, and one of a graph's: what tables hold counts, not what they held."""
    q, k, v = (torch.randn(1, 2, 256, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    bias = torch.zeros(2, 512, device="cuda")
    mod = score_mods.record(lambda s, b, h, i, j: s + bias[h, i - j + 256], "cuda")
    plain = ops.attention(q, k, v)
    assert (ops.attention(q, k, v, score_mod=mod) - plain).abs().max() < 2e-3
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = ops.attention(q, k, v, score_mod=mod)
    bias[:, 256:].fill_(-math.inf)          # keys up to its own place are hidden, so that the last query sees nothing
    found = ops.attention(q, k, v, score_mod=mod)
    graph.replay()
    assert found.equal(captured) and (found[:, :, -1] != 0).sum() == 0 and (found - plain).abs().max() > 0.1


@pytest.mark.parametrize("force", [True, False])
def test_torch_compile_of_flex_attention(force):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    documents = torch.arange(512, device="cuda") // 100
    bias = torch.randn(4, 1024, device="cuda")

    def masked(b, h, q, k):
        return (q >= k) & (documents[q] == documents[k])

    mask = create_block_mask(masked, None, None, 512, 512)
    given = [torch.randn(2, heads, 512, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for heads in (4, 2, 2)]

    def f(q, k, v):
        return flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[h, i - j + 512], mask, enable_gqa=True)

    def run(function=None):
        torch._dynamo.reset()
        o = (function or torch.compile(f, fullgraph=True))(*given)
        return o, *torch.autograd.grad(o.float().square().sum(), given)

    theirs = run(f)     # eager: with Triton 3.9 torch's template of this bias fits into no SM
    with inductor.enable(allow={"flex"}, force=force):
        ours = run()
    torch.testing.assert_close(ours[0], theirs[0], rtol=2e-2, atol=2e-2)
    for one, other in zip(ours[1:], theirs[1:]):
        assert (one - other).float().norm() < 2e-2 * other.float().norm()
