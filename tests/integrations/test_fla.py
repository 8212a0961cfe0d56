"""mimw as a backend of fla, through fla's own modules and functions, on the CPU's tensors, simulated, against torch in fp64.

Input: small tensors. Output: values and gradients. Without fla-core 0.6.0 test_fla_contracts.py is left. For example:

    pytest --forked 0 tests/integrations/test_fla.py -k attention
"""

import inspect
import logging
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from triton.runtime.autotuner import Autotuner

torch = pytest.importorskip("torch", reason="operators of torch need torch")

from mimw.integrations.fla import ENTRIES, Entry, UnsupportedFla, register  # noqa: E402
from tests.integrations.fla_here import module  # noqa: E402
from tests.integrations.test_fla_contracts import INNER, RECORDED, parameters  # noqa: E402
from tests.kernels.linear_attention_reference import draw, gates_of_raw, recurrence  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning", "ignore::UserWarning:triton.knobs")
F = torch.nn.functional
RCP_LN2 = 1.4426950408889634


@pytest.fixture(scope="module")
def fla():
    """fla's functions, for which mimw is registered."""
    found = {}
    for name in ("activations.ops", "norm.layernorm", "rotary.ops", "fused_cross_entropy.ops", "fused_linear_cross_entropy.ops"):
        found |= vars(module(f"fla.modules.{name}"))
    for name in ("attn.naive", "attn.parallel", "gla", "simple_gla", "delta_rule", "gated_delta_rule", "kda", "linear_attn"):
        found |= vars(module(f"fla.ops.{name}"))
    assert register() == [entry.name for entry in ENTRIES]
    assert register() == [entry.name for entry in ENTRIES]      # again is the same
    return SimpleNamespace(**found)


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


def test_this_fla_has_the_recorded_parameters(fla):
    for function, recorded in RECORDED.items():
        where, _, name = function.partition(":")
        theirs = getattr(module(where), INNER.get(function, name))
        if function in INNER:
            theirs = theirs.theirs.forward
            recorded = f"ctx, {recorded}"
        assert parameters(inspect.unwrap(theirs)) == recorded, function


def test_swiglu(fla):
    same(fla.swiglu, lambda x, y: F.silu(x) * y, [leaf(3, 40), leaf(3, 40)])


def test_norms(fla):
    torch.manual_seed(0)
    same(fla.layer_norm, lambda x, w, b: F.layer_norm(x, (48, ), w, b), [leaf(6, 48), leaf(48), leaf(48)])
    same(lambda x, w, r: fla.rms_norm(x, w, None, r, prenorm=True),
         lambda x, w, r: (F.rms_norm(x + r, (48, ), w, 1e-5), x + r), [leaf(6, 48), leaf(48), leaf(6, 48)])
    same(lambda x: fla.layer_norm(x, None, None, prenorm=True), lambda x: (F.layer_norm(x, (48, )), x), [leaf(2, 3, 48)])
    same(lambda x, w: fla.rms_norm(x, w, None), lambda x, w: F.rms_norm(x, (48, ), w, 1e-5),
         [leaf(6, 48, dtype=torch.bfloat16), leaf(48)], 1e-2)


@pytest.mark.parametrize("interleaved, inplace", [(False, False), (True, True)])
def test_rotary(fla, interleaved, inplace):
    cos, sin = torch.rand(9, 8), torch.rand(9, 8)

    def truth(x):
        c, s = cos[2:7, None].double(), sin[2:7, None].double()
        a, b = (x[..., 0:16:2], x[..., 1:16:2]) if interleaved else (x[..., :8], x[..., 8:16])
        turned = a * c - b * s, a * s + b * c
        first = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
        return torch.cat((first, x[..., 16:]), -1)

    same(lambda x: fla.rotary_embedding(x * 1, cos, sin, interleaved=interleaved, inplace=inplace, seqlen_offsets=2), truth,
         [leaf(2, 5, 3, 24)])


@pytest.mark.parametrize("smoothing, z, inplace", [(0.0, 0.0, False), (0.1, 1e-3, True)])
def test_cross_entropy(fla, smoothing, z, inplace):
    logits, target = leaf(5, 70), torch.tensor([3, -100, 69, 0, 12])

    def truth(x):
        kept = (target != -100).double()
        return (F.cross_entropy(x, target, reduction="none", label_smoothing=smoothing) + z * torch.logsumexp(x, 1)**2 * kept)

    losses = lambda x: fla.cross_entropy_loss(x * 1, target, smoothing, 1.0, z, inplace_backward=inplace)[0]  # noqa: E731
    same(losses, truth, [logits])
    z_losses = fla.cross_entropy_loss(logits.detach(), target, lse_square_scale=0.5)[1]
    assert torch.allclose(z_losses, 0.5 * torch.logsumexp(logits.detach(), 1)**2 * (target != -100), rtol=1e-5)


@pytest.mark.long(but=["None-False-True"], everywhere=True)
@pytest.mark.parametrize("window, sinks, packed", [(None, False, False), (5, True, False), (None, False, True)])
def test_attention(fla, window, sinks, packed):
    torch.manual_seed(0)
    q, k, v = (leaf(1, 20, heads, 64, dtype=torch.float16) for heads in (2, 1, 1))
    sink = leaf(2) if sinks else None
    cu = torch.tensor([0, 7, 20]) if packed else None
    spans = [slice(0, 7), slice(7, 20)] if packed else [slice(0, 20)]

    def truth(q, k, v, *sink):
        return torch.cat([fla.naive_parallel_attn(q[:, at], k[:, at], v[:, at], 0.2, window, sink_bias=sink[0] if sink else None)[0]
                          for at in spans], 1)

    same(lambda q, k, v, sink=None: fla.ParallelAttentionFunction.apply(q, k, v, None, sink, 0.2, window, cu, None), truth,
         [q, k, v, *([sink] if sinks else [])], 3e-3)


def test_logarithms_of_attention_are_of_base_2(fla):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 20, heads, 64, dtype=torch.float16) for heads in (2, 1, 1))
    sink = torch.randn(2)
    _, lse = fla.parallel_attn_fwd(q, k, v, None, sink * RCP_LN2, 0.2)
    scores = 0.2 * torch.einsum("bqhd,bkd->bqhk", q.double(), k[:, :, 0].double())
    scores = scores.masked_fill(torch.ones(20, 20).triu(1).bool()[:, None], -torch.inf)
    natural = torch.logsumexp(torch.cat((scores, sink.double().expand(1, 20, 2)[..., None]), -1), -1)
    assert lse.shape == (1, 20, 2) and lse.is_contiguous() and torch.allclose(lse.double(), RCP_LN2 * natural, atol=1e-3)


@pytest.mark.parametrize("dtype, smoothing", [(torch.float32, 0.1), (torch.float16, 0.0)], ids=["fp32", "fp16"])
def test_linear_cross_entropy(fla, dtype, smoothing):
    torch.manual_seed(0)
    x, weight, bias = leaf(6, 32, dtype=dtype), leaf(40, 32, dtype=dtype), leaf(40, dtype=dtype)
    target, options = torch.tensor([3, -100, 39, 0, 7, 7]), {"label_smoothing": smoothing}
    same(lambda x, w, b: fla.fused_linear_cross_entropy_loss(x, target, w, b, **options),
         lambda x, w, b: F.cross_entropy(F.linear(x, w, b), target, **options), [x, weight, bias],
         1e-5 if dtype is torch.float32 else 2e-3)
    mean, total = (fla.fused_linear_cross_entropy_loss(x, target, weight, reduction=one, **options) for one in ("mean", "sum"))
    assert torch.allclose(5 * mean, total, rtol=1e-5)
    x.grad = weight.grad = None
    loss = fla.fused_linear_cross_entropy_loss(x, torch.full((6, ), -100), weight)
    (3 * loss).backward(retain_graph=True)
    loss.backward()                                             # not the gradient of 3 loss, times 1
    assert loss == 0 and (x.grad == 0).all() and (weight.grad == 0).all()       # where torch has NaN


CHUNKED = {     # names of fla's functions, what they are given besides q, k and v, and options
    "chunk_gla": ("key", False, {}), "chunk_simple_gla": ("head", False, {"state_v_first": True}),
    "chunk_delta_rule": ("none", True, {}), "chunk_gated_delta_rule": ("head", True, {"use_qk_l2norm_in_kernel": True}),
    "chunk_kda": ("key", True, {"state_v_first": True})}


def drawn(name, seed=0, **shape):
    """(arguments of a function, those of the recurrence): q, k and v in fp16."""
    gates, delta, options = CHUNKED[name]
    given = draw(seed, **dict(T=70, H=1) | shape, gates=gates, delta=delta)
    given |= {one: given[one].half() for one in "qkv"}
    return {one: given[one] for one in ("q", "k", "v", "g", "beta") if given[one] is not None}, given, options


@pytest.mark.long(but=["chunk_gla", "chunk_delta_rule", "chunk_simple_gla"], everywhere=True)
@pytest.mark.parametrize("name", CHUNKED)
def test_chunked_linear_attention(fla, name):
    """Values and the gradient of v: all gradients are tests/ops/test_linear_attention.py's."""
    called, given, options = drawn(name, cu_seqlens=[0, 30, 70])
    turned = options.get("state_v_first", False)
    called["v"] = called["v"].requires_grad_()
    state = given["initial_state"].mT.contiguous() if turned else given["initial_state"]
    o, final = getattr(fla, name)(**called, scale=0.2, initial_state=state, output_final_state=True, cu_seqlens=given["cu_seqlens"],
                                  **options)
    leaf = given["v"].detach().double().requires_grad_()
    expected, last = recurrence(**given | {"v": leaf}, scale=0.2, use_qk_l2norm="use_qk_l2norm_in_kernel" in options)
    do = torch.randn_like(o)
    gradients = torch.autograd.grad(o, called["v"], do)[0], torch.autograd.grad(expected, leaf, do.double())[0]
    for one, other in ((o, expected), (final.mT if turned else final, last), gradients):
        assert (one.double() - other).norm() <= 5e-3 * other.norm(), name


def test_gates_and_betas_of_linear_attention(fla):
    """What fla's kernels compute of raw gates and betas."""
    called, given, _ = drawn("chunk_kda", T=20)
    rate, bias = torch.randn(1, 1, 1, 1), torch.randn(64)       # fla's layers have had rates of that shape
    for bound, gate in ((None, lambda x: -rate.exp() * F.softplus(x + bias)),
                        (-5.0, lambda x: -5 * torch.sigmoid(rate.exp() * (x + bias)))):
        o, _ = fla.chunk_kda(**called, use_gate_in_kernel=True, A_log=rate, dt_bias=bias, lower_bound=bound,
                             use_beta_sigmoid_in_kernel=True, allow_neg_eigval=True)
        raw = {"g": gate(called["g"].double()), "beta": 2 * torch.sigmoid(called["beta"].double()), "initial_state": None}
        expected, _ = recurrence(**given | raw)
        assert (o.double() - expected).norm() <= 5e-3 * expected.norm(), bound


def test_one_token(fla):
    """By the functions of decoding; KDA's in a pool of states."""
    for name, function in (("chunk_simple_gla", fla.fused_recurrent_simple_gla),
                           ("chunk_delta_rule", fla.fused_recurrent_delta_rule),
                           ("chunk_gated_delta_rule", fla.fused_recurrent_gated_delta_rule)):
        called, given, _ = drawn(name, T=1, B=2)
        with torch.no_grad():
            o, final = function(**called, initial_state=given["initial_state"], output_final_state=True)
        expected, last = recurrence(**given)
        assert (o.double() - expected).norm() <= 1e-3 * expected.norm(), name
        assert (final.double() - last).norm() <= 1e-5 * last.norm(), name
    called, given, _ = drawn("chunk_kda", T=1, B=2)
    pool, indices = torch.zeros(4, 1, 64, 64), torch.tensor([2, 0])
    pool[indices] = given["initial_state"]
    o, states = module("fla.ops.kda.fused_recurrent").fused_recurrent_kda_fwd(
        **called, initial_state=pool, ssm_state_indices=indices, use_qk_l2norm_in_kernel=True)
    expected, last = recurrence(**given, use_qk_l2norm=True)
    assert states is pool and (pool[1] == 0).all()
    assert (o.double() - expected).norm() <= 1e-3 * expected.norm() and (pool[indices].double() - last).norm() <= 1e-5 * last.norm()


@pytest.mark.parametrize("bound", [None, -5.0])
def test_raw_gates_and_betas_of_one_token(fla, bound):
    """One launch for all, of both families."""
    rate, bias = torch.randn(1), torch.randn(64)
    for name, where in (("chunk_gated_delta_rule", fla), ("chunk_kda", module("fla.ops.kda.fused_recurrent"))):
        called, given, _ = drawn(name, T=1, B=2)
        by_key = name == "chunk_kda"
        if bound is not None and not by_key:
            continue
        biases = bias if by_key else bias[:1]
        making = dict(A_log=rate, dt_bias=biases, use_beta_sigmoid_in_kernel=True, allow_neg_eigval=True, use_gate_in_kernel=True)
        function = where.fused_recurrent_kda_fwd if by_key else fla.fused_recurrent_gated_delta_rule
        states = dict(inplace_final_state=False, lower_bound=bound) if by_key else {}
        with torch.no_grad():
            o, final = function(**called, initial_state=given["initial_state"], output_final_state=True, **making, **states)
        made = dict(g=gates_of_raw(given["g"], rate, biases, bound), beta=2 * torch.sigmoid(given["beta"].double()))
        expected, last = recurrence(**given | made)
        assert (o.double() - expected).norm() <= 1e-3 * expected.norm(), name
        assert (final.double() - last).norm() <= 1e-5 * last.norm(), name


X = torch.zeros(4, 32)


def test_fla_asks_says_why_and_computes_itself(fla, caplog, monkeypatch):
    """By one configuration of its kernels: to compile the 39 that it compares takes 20 CPU seconds."""
    monkeypatch.setattr(Autotuner, "prune_configs", lambda self, given: self.configs[:1])
    with caplog.at_level(logging.INFO, "fla.backends"):
        with suppress(ValueError):      # fla's own kernel has the call: it is simulated, or refuses these tensors beside a GPU
            assert not fla.group_norm(X, X[0], None, num_groups=2).any()
        assert "mimw rejected: mimw normalises whole rows, and there are 2 groups" in caplog.text
    monkeypatch.setenv("FLA_MIMW", "0")
    caplog.clear()
    with caplog.at_level(logging.INFO, "fla.backends"), suppress(ValueError):
        assert not fla.swiglu(X, X).any()
    assert "mimw" not in caplog.text
    monkeypatch.setenv("FLA_DISABLE_BACKEND_DISPATCH", "1")
    assert register() == []


def test_a_function_more_is_one_entry_and_another_fla_is_an_error(fla):
    """A kernel of linear attention, for which a few lines of torch stand here."""
    function = "fla.ops.gla.chunk:chunk_gla_fwd_o_gk"
    entry = Entry(function, lambda q, scale, **rest: scale * q + 1, lambda q, **rest: None, "gla")
    assert register([entry]) == ["chunk_gla_fwd_o_gk"]
    assert (module("fla.ops.gla.chunk").chunk_gla_fwd_o_gk(q=X, v=X, g=X, A=X, h=X, scale=2.0) == 1).all()
    with pytest.raises(UnsupportedFla, match="has no fla.ops.gla.chunk:lost"):
        register([Entry("fla.ops.gla.chunk:lost", None, None, "gla")])
    with pytest.raises(UnsupportedFla, match="has no LostFunction in fla.ops.gla.chunk"):
        register([Entry("fla.ops.gla.chunk:chunk_gla", None, None, inner="LostFunction")])
    with pytest.raises(UnsupportedFla, match="asks no backend for fla.ops.gla.chunk:chunk_gla"):
        register([Entry("fla.ops.gla.chunk:chunk_gla", None, None)])


def on_a_gpu(fla, case, device="cuda"):
    """(a function of fla, the shapes of its inputs, our functions that it calls)."""
    target, cu = torch.arange(200, device=device), torch.tensor([0, 90, 91, 300], device=device)
    target[3] = -100
    cos, sin = torch.rand(2, 90, 32, device=device, dtype=torch.bfloat16)
    linear = fla.fused_linear_cross_entropy_loss
    attention = fla.ParallelAttentionFunction.apply
    return {
        "swiglu": (fla.swiglu, [(300, 1000)] * 2, "swiglu_fwd swiglu_fwdbwd"),
        "layer_norm": (fla.layer_norm, [(300, 1024), (1024, ), (1024, )], "layer_norm_fwd layer_norm_bwd"),
        "rms_norm": (lambda x, w, r: fla.rms_norm(x, w, None, r, prenorm=True), [(300, 768), (768, ), (300, 768)],
                     "layer_norm_fwd layer_norm_bwd"),
        "rotary": (lambda x: fla.rotary_embedding(x, cos, sin, seqlen_offsets=5), [(2, 80, 4, 128)],
                   "rotary_embedding_fwdbwd rotary_embedding_fwdbwd"),
        "cross_entropy": (lambda x: fla.cross_entropy_loss(x, target, 0.1, 1.0, 1e-3)[0], [(200, 5000)],
                          "cross_entropy_fwd cross_entropy_bwd"),
        "linear_cross_entropy": (lambda x, w, b: linear(0.1 * x, target, w, b), [(200, 256), (5000, 256), (5000, )],
                                 "fused_linear_cross_entropy_fwd fused_linear_cross_entropy_bwd"),
        "attention": (lambda q, k, v, sink: attention(q, k, v, None, sink, 0.1, 70, None),
                      [(2, 300, 8, 128), (2, 300, 2, 128), (2, 300, 2, 128), (8, )], "parallel_attn_fwd parallel_attn_bwd"),
        "packed": (lambda q, k, v, sink: attention(q, k, v, None, sink, 0.1, None, cu), [*[(1, 300, 4, 64)] * 3, (4, )],
                   "parallel_attn_fwd parallel_attn_bwd"),
    }[case]


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["swiglu", "layer_norm", "rms_norm", "rotary", "cross_entropy", "linear_cross_entropy",
                                  "attention", "packed"])
def test_on_a_gpu_mimw_and_the_kernels_of_fla_agree(fla, case, monkeypatch):
    called = []

    def noting(entry):
        return replace(entry, run=lambda *args, **named: called.append(entry.name) or entry.run(*args, **named))

    torch.manual_seed(0)
    function, shapes, names = on_a_gpu(fla, case)
    inputs = [torch.randn(shape, device="cuda", dtype=torch.bfloat16).requires_grad_() for shape in shapes]

    def results():
        torch.manual_seed(1)
        found = function(*inputs)
        found = found if isinstance(found, tuple) else (found, )
        total = sum((one.float() * torch.randn_like(one, dtype=torch.float32)).sum() for one in found)
        return [*found, *torch.autograd.grad(total, inputs)]

    register(map(noting, ENTRIES))
    try:
        ours = results()
        assert called == names.split()
        monkeypatch.setenv("FLA_MIMW", "0")
        theirs = results()
        assert called == names.split()
    finally:
        register()
    for one, other in zip(ours, theirs):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert (one.double() - other.double()).norm() <= 1.5e-2 * other.double().norm(), case
