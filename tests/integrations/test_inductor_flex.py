"""Flex attention under `mimw.integrations.inductor`: which mods become ours, with torch's numbers, and which stay torch's."""

import logging
import math

import pytest

torch = pytest.importorskip("torch", reason="the passes are torch's")

from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._functorch.aot_autograd import make_boxed_func  # noqa: E402
from torch._higher_order_ops.flex_attention import math_attention  # noqa: E402
from torch.nn.attention import flex_attention as flex  # noqa: E402
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, and_masks, create_block_mask, flex_attention  # noqa: E402

import mimw.integrations.inductor as inductor  # noqa: E402
import mimw.integrations.inductor.flex.theirs as timed_against  # noqa: E402
from mimw.integrations.inductor import measured  # noqa: E402
from mimw.testing import gpu_available  # noqa: E402

from .test_inductor import compiled  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]
SLOPES = torch.tensor([0.5, 0.25])
BLOCK = 16


@pytest.fixture(autouse=True)
def _afresh(monkeypatch):
    monkeypatch.setattr(flex, "_validate_device", lambda *given: None)      # torch's own kernel for the CPU has no gradients
    torch._dynamo.reset()
    yield
    inductor.disable()


def leaves(seq_q=24, seq_k=24, kv_heads=2, transposed=False):
    torch.manual_seed(0)
    shapes = (2, seq_q, 8), (kv_heads, seq_k, 8), (kv_heads, seq_k, 8)
    if transposed:
        return [torch.randn(1, length, heads, dim).transpose(1, 2).requires_grad_() for heads, length, dim in shapes]
    return [torch.randn(1, *shape, requires_grad=True) for shape in shapes]


def passed(function, *given, force=True, dynamic=None, run=True):
    """The function's result by the graph that the pass leaves, without autograd's and inductor's compilers, and ours in that
    graph. With `run` False another result: torch's eager flex attention takes a while."""
    settings, found = inductor.settings.Settings(frozenset({"flex"}), force, frozenset({"cpu"})), []

    def backend(module, given):
        inductor.calls.Calls(settings)(module.graph)
        module.graph.lint()
        module.recompile()
        names = (getattr(one.target, "__name__", "") for one in module.graph.nodes)
        found.extend(name for name in names if name in ("attend", "check", "attend_by_mod", "check_mask"))
        return module.forward if run else lambda *given: [torch.zeros(())]

    return torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)(*given), found


def by_torch(q, k, v, score_mod=None, mask_mod=None, scale=None):
    """(o, lse) of torch's eager implementation, which reads a mask_mod and no blocks."""
    mask_mod = flex.noop_mask if mask_mod is None else mask_mod
    o, lse, _ = math_attention(q, k, v, score_mod or flex._identity, (mask_mod, ), scale or 1 / math.sqrt(q.shape[-1]), {})
    return o, lse * math.log(2)


def block_mask(mask_mod, seq_q=24, seq_k=24, block=BLOCK):
    return None if mask_mod is None else create_block_mask(mask_mod, None, None, seq_q, seq_k, device="cpu", BLOCK_SIZE=block)


def stays(caplog, function, *given, dynamic=None):
    """The reason why a call stays torch's."""
    caplog.clear()
    with caplog.at_level(logging.INFO, "mimw"):
        _, found = passed(function, *given, dynamic=dynamic, run=False)
    assert found == []
    lines = [one.getMessage() for one in caplog.records if "flex_attention(" in one.getMessage()]
    assert len(lines) == 1 and "by torch, as" in lines[0]
    return lines[0].split("by torch, as ")[1]


def causal(b, h, q, k):
    return q >= k


def near(b, h, q, k):
    return (q - k <= 3) & (k - q < 3)


def capped(s, b, h, q, k):
    return 3 * torch.tanh(s / 3)


def sloped(s, b, h, q, k):
    return s + SLOPES[h] * (k - q)


def sloped_by_ones(s, b, h, q, k):
    return s - 1.0 * (q - k).abs()


def all_at_once(s, b, h, q, k):
    s = torch.tanh(s * 0.25) * 2.0
    return torch.where(k > q, -float("inf"), s - 2 ** (-8.0 / 2 * (h + 1)) * (q - k).abs())


# Lengths of queries and keys, and for each name: score_mod, mask_mod, the operator's causal, window and soft cap.
FORMS = {
    (24, 24): {
        "causal": (None, causal, (True, (None, None), None)),
        "window": (None, and_masks(causal, lambda b, h, q, k: q - k < 4), (True, (3, None), None)),
        "window to both sides": (capped, near, (False, (3, 2), 3.0)),
        "slopes": (sloped, causal, (True, (None, None), None)),
        "all": (all_at_once, lambda b, h, q, k: q <= k + 7, (True, (7, None), 2.0))},
    (8, 24): {
        "from the last key on": (None, lambda b, h, q, k: q + 16 >= k, (True, (None, None), None)),
        "from the first key on": (None, causal, (True, (None, None), None))},
    (24, 8): {
        "more queries": (None, lambda b, h, q, k: ~(k > q), (False, (None, 16), None)),
        "queries that see no key": (None, lambda b, h, q, k: (q - 16 >= k) & (q - k <= 20), (True, (4, None), None))},
}


@pytest.mark.long(but=["lengths1", "lengths2"], everywhere=True)
@pytest.mark.parametrize("lengths", FORMS)
def test_forms_and_their_gradients(lengths, monkeypatch):
    given, asked = leaves(*lengths), []
    monkeypatch.setattr(inductor.flex.call.ops, "attention", _asked(asked, inductor.flex.call.ops.attention))
    masks = [block_mask(mask_mod, *lengths) for _, mask_mod, _ in FORMS[lengths].values()]

    def f(q, k, v):
        return [flex_attention(q, k, v, score_mod=score_mod, block_mask=mask, return_aux=AuxRequest(lse=True))
                for (score_mod, _, _), mask in zip(FORMS[lengths].values(), masks)]

    results, found = passed(f, *given)
    assert [one for one in found if one == "attend"] == ["attend"] * len(results)
    called = [(options["causal"], options["window"], options["softcap"]) for options in asked]
    for now, (o, aux), (name, (score_mod, mask_mod, wanted)) in zip(called, results, FORMS[lengths].items()):
        assert now == wanted, name
        expected, lse = by_torch(*given, score_mod, mask_mod)
        torch.testing.assert_close(o, expected, rtol=1e-4, atol=1e-5, msg=name)
        torch.testing.assert_close(aux.lse, lse, rtol=1e-4, atol=1e-5, msg=name)
        seen = lse.isfinite()
        ours, theirs = (torch.autograd.grad(one.square().sum() + to[seen].sum(), given, retain_graph=True)
                        for one, to in ((o, aux.lse), (expected, lse)))
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, msg=name)


def _asked(asked, attention):
    def call(*given, **options):
        asked.append(options)
        return attention(*given, **options)

    return call


@pytest.mark.long(but=["False"], everywhere=True)
@pytest.mark.parametrize("inside", [False, True])
def test_grouped_heads_a_layout_and_a_mask_made_inside(inside):
    def two(b, h, q, k):
        return (q >= k) & (k >= 0)

    q, k, v = leaves(kv_heads=1, transposed=True)
    outside = block_mask(causal)

    def f(q, k, v):
        mask = block_mask(two) if inside else outside
        o = flex_attention(q, k, v, block_mask=mask, scale=0.5, enable_gqa=True)
        return o + flex_attention(q, k, o, block_mask=mask)[:, :1] if not inside else o

    def reference(q, k, v):
        o, _ = by_torch(q, k, v, None, causal, 0.5)
        return o + by_torch(q, k, o, None, causal)[0][:, :1] if not inside else o

    if not inside:
        k = k.expand(1, 2, 24, 8)
        v = v.expand(1, 2, 24, 8)
    o, found = compiled(f, q, k, v, allow=("flex",))
    assert found == ["attention"] * (1 if inside else 2)
    expected = reference(q, k, v)
    torch.testing.assert_close(o, expected, rtol=1e-4, atol=1e-5)
    assert not inside or o.stride() == q.stride()       # as torch's lies


def test_calls_that_stay_say_why(caplog):
    q, k, v = (one.detach() for one in leaves())
    mask = block_mask(causal)

    def call(**options):
        return lambda q, k, v: flex_attention(q, k, v, **options)

    def learnt(s, b, h, q, k):
        return s + bias[h] * (k - q)

    bias = SLOPES.clone().requires_grad_()
    why = {
        "of its score_mod: a tensor that it reads requires a gradient": call(score_mod=learnt, block_mask=mask),
        "kernel_options are given": call(block_mask=mask, kernel_options={"BLOCK_M": 16}),
        "its block mask lists other blocks": call(block_mask=BlockMask.from_kv_blocks(
            torch.ones(1, 1, 2, dtype=torch.int32), torch.zeros(1, 1, 2, 2, dtype=torch.int32), BLOCK_SIZE=BLOCK, mask_mod=causal,
            seq_lengths=(24, 24))),
    }
    for words, function in why.items():
        assert words in stays(caplog, function, q, k, v)
        torch._dynamo.reset()
    assert "the types are not all" in stays(caplog, call(), q.double(), k.double(), v.double())
    torch._dynamo.reset()
    assert "an extent is symbolic" in stays(caplog, call(), q, k, v, dynamic=True)


def test_blocks_that_are_computed_stay_and_other_blocks_at_a_later_call_are_an_error(caplog, monkeypatch):
    q, k, v = leaves()
    mask, other = block_mask(causal), block_mask(causal)
    other.kv_num_blocks = other.kv_num_blocks * 0        # no block that the diagonal cuts
    def f(q, k, v, mask):
        return flex_attention(q, k, v, block_mask=mask)

    settings, graphs = inductor.settings.Settings(frozenset({"flex"}), True, frozenset({"cpu"})), []

    def backend(module, given):
        inductor.calls.Calls(settings)(module.graph)
        module.recompile()
        graphs.append(module)
        return aot_autograd(fw_compiler=lambda module, _: make_boxed_func(module.forward))(module, given)

    ours = torch.compile(f, backend=backend, fullgraph=True)
    torch.testing.assert_close(ours(q, k, v, mask), by_torch(q, k, v, None, causal)[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="lists other blocks than its mask_mod gives"):
        ours(q, k, v, other)
    assert len(graphs) == 1

    def computed(q, k, v, number):
        return flex_attention(q, k, v, block_mask=BlockMask.from_kv_blocks(
            number, mask.kv_indices, mask.full_kv_num_blocks, mask.full_kv_indices, BLOCK, causal, (24, 24), False))

    torch._dynamo.reset()
    given = *(one.detach() for one in leaves()), mask.kv_num_blocks
    assert "is computed from inputs" in stays(caplog, lambda q, k, v, number: computed(q, k, v, number + 0), *given)
    for allowed in (False, True):
        monkeypatch.setattr(inductor.flex.call, "asserts_run", lambda device, allowed=allowed: allowed)
        torch._dynamo.reset()
        assert passed(f, *leaves(), mask)[1] == ["check", "attend"] * allowed


@pytest.mark.long(but=["False"], everywhere=True)
@pytest.mark.parametrize("quicker", [True, False])
def test_without_force_flex_attention_is_timed_compiled(quicker, monkeypatch):
    timed = []

    def seconds(function, given, of_gradients):
        result = function(*given)
        result.backward(torch.ones_like(result), inputs=given)
        timed.append((result, *(one.grad for one in given)))
        for one in given:
            one.grad = None
        return (1.0, 2.0)[(len(timed) == 1) != quicker]

    monkeypatch.setattr(measured, "seconds", seconds)
    monkeypatch.setattr(timed_against, "BACKEND", "eager")     # inductor's C++ would take seconds
    inductor.forget()
    mask = block_mask(causal)
    _, found = passed(lambda q, k, v: flex_attention(q, k, v, sloped_by_ones, mask), *leaves(), force=False)
    assert found == ["check", "attend"] * quicker
    torch.testing.assert_close(*timed, rtol=1e-4, atol=1e-4)        # both compute the same thing


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_available(), reason="torch's kernel, and ours, run on a GPU")
@pytest.mark.parametrize("force", [True, False])
def test_flex_attention_on_the_gpu(force):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, 512, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for heads in (4, 2, 2))
    slopes = 0.5 ** torch.arange(1, 5, device="cuda")

    def score_mod(s, b, h, q, k):
        return 20 * torch.tanh(s / 20) + slopes[h] * (k - q)

    mask = create_block_mask(and_masks(causal, lambda b, h, q, k: q - k < 200), None, None, 512, 512)

    def f(q, k, v):
        return flex_attention(q, k, v, score_mod, mask, enable_gqa=True, return_aux=AuxRequest(lse=True))

    def run():
        torch._dynamo.reset()
        o, aux = torch.compile(f, fullgraph=True)(q, k, v)
        return o, aux.lse, *torch.autograd.grad(o.float().square().sum() + aux.lse.sum(), (q, k, v))

    theirs = run()
    with inductor.enable(force=force):
        ours = run()
    torch.testing.assert_close(ours[0], theirs[0], rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-3, atol=1e-2)
    for one, other in zip(ours[2:], theirs[2:]):
        assert (one - other).float().norm() < 2e-2 * other.float().norm()
