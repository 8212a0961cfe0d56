"""mimw as a backend of fla, through fla's own modules and functions, on the CPU's tensors, simulated, against torch in fp64."""

import logging
import warnings

import pytest

torch = pytest.importorskip("torch", reason="operators of torch need torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")         # fla says that there is no GPU
    pytest.importorskip("fla.backends", reason="a backend of fla needs fla-core 0.6")
    from fla.modules.activations.ops import swiglu
    from fla.modules.fused_cross_entropy.ops import cross_entropy_loss
    from fla.modules.norm.layernorm import group_norm, layer_norm, rms_norm
    from fla.modules.rotary.ops import rotary_embedding
    from fla.ops.attn.naive import naive_parallel_attn
    from fla.ops.attn.parallel import ParallelAttentionFunction

import mimw.integrations.fla as ours  # noqa: E402
from mimw.integrations.fla import attention, losses, rowwise  # noqa: E402
from mimw.integrations.fla.backend import Entry, UnsupportedFla, register  # noqa: E402
from mimw.integrations.fla.tensors import refused  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True, scope="module")
def registered():
    assert register() == [entry.name for entry in ours.ENTRIES]
    assert register() == [entry.name for entry in ours.ENTRIES]     # again is the same


def leaf(*shape, dtype=torch.float32):
    return torch.randn(shape, dtype=dtype).requires_grad_()


def same(ours, truth, inputs, tolerance=1e-5):
    """Values and gradients of `ours(*inputs)` against those of `truth`, which gets fp64."""
    wide = [one.detach().double().requires_grad_(one.requires_grad) if one.is_floating_point() else one for one in inputs]
    found, expected = ours(*inputs), truth(*wide)
    found, expected = (one if isinstance(one, tuple) else (one, ) for one in (found, expected))
    weights = [torch.randn_like(one) for one in expected]
    sum((a * b).sum() for a, b in zip(expected, weights)).backward()
    sum((a * b).sum() for a, b in zip(found, weights)).backward()
    pairs = [*zip(found, expected), *((a.grad, b.grad) for a, b in zip(inputs, wide) if a.requires_grad)]
    for a, b in pairs:
        assert (a.double() - b).norm() <= tolerance * b.norm(), (a, b)


def test_swiglu():
    same(swiglu, lambda x, y: F.silu(x) * y, [leaf(3, 40), leaf(3, 40)])


def test_norms():
    torch.manual_seed(0)
    x, weight, bias, residual = leaf(6, 48), leaf(48), leaf(48), leaf(6, 48)
    same(layer_norm, lambda x, w, b: F.layer_norm(x, (48, ), w, b), [x, weight, bias])
    same(lambda x, w, r: rms_norm(x, w, None, r, prenorm=True),
         lambda x, w, r: (F.rms_norm(x + r, (48, ), w, 1e-5), x + r), [leaf(6, 48), leaf(48), residual])


@pytest.mark.parametrize("interleaved, inplace", [(False, False), (True, True)])
def test_rotary(interleaved, inplace):
    cos, sin = torch.rand(9, 8), torch.rand(9, 8)

    def truth(x):
        c, s = cos[2:7, None].double(), sin[2:7, None].double()
        a, b = (x[..., 0:16:2], x[..., 1:16:2]) if interleaved else (x[..., :8], x[..., 8:16])
        turned = a * c - b * s, a * s + b * c
        first = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
        return torch.cat((first, x[..., 16:]), -1)

    same(lambda x: rotary_embedding(x * 1, cos, sin, interleaved=interleaved, inplace=inplace, seqlen_offsets=2), truth,
         [leaf(2, 5, 3, 24)])


@pytest.mark.parametrize("smoothing, z, inplace", [(0.0, 0.0, False), (0.1, 1e-3, True)])
def test_cross_entropy(smoothing, z, inplace):
    logits, target = leaf(5, 70), torch.tensor([3, -100, 69, 0, 12])

    def truth(x):
        kept = (target != -100).double()
        return (F.cross_entropy(x, target, reduction="none", label_smoothing=smoothing) + z * torch.logsumexp(x, 1)**2 * kept)

    losses = lambda x: cross_entropy_loss(x * 1, target, smoothing, 1.0, z, inplace_backward=inplace)[0]  # noqa: E731
    same(losses, truth, [logits])
    z_losses = cross_entropy_loss(logits.detach(), target, lse_square_scale=0.5)[1]
    assert torch.allclose(z_losses, 0.5 * torch.logsumexp(logits.detach(), 1)**2 * (target != -100), rtol=1e-5)


@pytest.mark.parametrize("window, sinks, packed", [(None, False, False), (5, True, False), (None, False, True)])
def test_attention(window, sinks, packed):
    torch.manual_seed(0)
    q, k, v = (leaf(1, 20, heads, 64, dtype=torch.float16) for heads in (2, 1, 1))
    sink = leaf(2) if sinks else None
    cu = torch.tensor([0, 7, 20]) if packed else None
    spans = [slice(0, 7), slice(7, 20)] if packed else [slice(0, 20)]

    def truth(q, k, v, *sink):
        return torch.cat([naive_parallel_attn(q[:, at], k[:, at], v[:, at], 0.2, window, sink_bias=sink[0] if sink else None)[0]
                          for at in spans], 1)

    same(lambda q, k, v, *sink: ParallelAttentionFunction.apply(q, k, v, None, sink[0] if sink else None, 0.2, window, cu, None),
         truth, [q, k, v, *([sink] if sinks else [])], 3e-3)


X = torch.zeros(4, 32)
HEADS = torch.zeros(1, 4, 2, 64, dtype=torch.float16)


@pytest.mark.parametrize("reason, text", [
    (refused(X.double()), "mimw has no float64 here"), (refused(X[:0]), "nothing to compute"),
    (refused(X.to("meta")), "computes nothing on meta"), (rowwise.swiglu_refused(X, X.half()), "differ in their types"),
    (rowwise.norm_refused(X, None, None, num_groups=2), "2 groups"), (rowwise.norm_refused(X, None, X[0], is_rms_norm=True), "no bias"),
    (rowwise.norm_refused(X, None, None, residual=X.half()), "the residual's is another"),
    (rowwise.norm_refused(X, None, None, out_dtype=torch.half), "float16 is asked for"),
    (rowwise.norm_gradients_refused(X, X, None, None, recompute_output=True), "do not compute the result again"),
    (rowwise.rotary_refused(HEADS, X, X, cu_seqlens=X), "packed or have their own"),
    (rowwise.rotary_refused(HEADS, X, X, 1), "the tables have 4 rows, and positions go from 1 to 4"),
    (losses.cross_entropy_refused(X, X[0], logit_scale=2.0), "scaled or capped"),
    (losses.cross_entropy_refused(X, X[0], process_group=1), "these are spread"),
    (losses.gradient_refused(X, X[0], X, X, total_classes=64), "these are spread"),
    (attention.forward_refused(HEADS, HEADS, HEADS, HEADS, None, 1.0), "no gates"),
    (attention.forward_refused(HEADS, HEADS, HEADS[..., :32], None, None, 1.0), "these have 64 and 32"),
    (attention.forward_refused(HEADS, HEADS[:, :3], HEADS[:, :3], None, None, 1.0), "4 queries and 3 keys"),
    (attention.forward_refused(HEADS, HEADS, HEADS, None, None, 0.0), "this is 0.0"),
    (attention.forward_refused(HEADS, HEADS, HEADS, None, None, 1.0, 0), "a window of 0"),
    (attention.forward_refused(HEADS.float(), HEADS, HEADS, None, None, 1.0), "no float32 here"),
])
def test_what_mimw_leaves_to_fla(reason, text):
    assert text in reason


def test_fla_asks_says_why_and_computes_itself(caplog, monkeypatch):
    with caplog.at_level(logging.INFO, "fla.backends"):
        with pytest.raises(Exception):      # fla's own kernel, which needs a GPU, has the call
            group_norm(X, X[0], None, num_groups=2)
        assert "mimw rejected: mimw normalises whole rows, and there are 2 groups" in caplog.text
    monkeypatch.setenv("FLA_MIMW", "0")
    with pytest.raises(Exception):
        swiglu(X, X)
    monkeypatch.setenv("FLA_DISABLE_BACKEND_DISPATCH", "1")
    assert register() == []


def test_an_entry_is_one_line_and_another_fla_is_told():
    """A kernel of linear attention, as it will come: here a few lines of torch stand for it."""
    from fla.ops.gla.chunk import chunk_gla_fwd_o_gk
    given = dict(q=X, v=X, g=X, A=X, h=X, scale=2.0)
    assert register([Entry("gla", "fla.ops.gla.chunk:chunk_gla_fwd_o_gk", lambda q, scale, **rest: scale * q + 1,
                           lambda q, **rest: None)]) == ["chunk_gla_fwd_o_gk"]
    assert (chunk_gla_fwd_o_gk(**given) == 1).all()
    with pytest.raises(UnsupportedFla, match="has no fla.ops.gla.chunk:lost"):
        register([Entry("gla", "fla.ops.gla.chunk:lost", None, None)])
    with pytest.raises(UnsupportedFla, match="asks no backend for fla.ops.gla.chunk:chunk_gla"):
        register([Entry("", "fla.ops.gla.chunk:chunk_gla", None, None)])
    backend = ours.MimwBackend([Entry("", "a:f", None, lambda x: None)])
    assert backend.verify("f", 1, 2)[0] is False and backend.verify("other") == (False, "mimw has no kernel for other")
