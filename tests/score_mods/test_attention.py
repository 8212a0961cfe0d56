"""`ops.attention(score_mod=...)`, simulated: against torch's eager flex attention, with gradients, and what keeps texts apart."""

import math
import warnings

import pytest

torch = pytest.importorskip("torch", reason="operators are torch's")

from torch._higher_order_ops.flex_attention import math_attention  # noqa: E402

import mimw  # noqa: E402
from mimw import ops, score_mods  # noqa: E402
from mimw.errors import ScoreModError  # noqa: E402
from mimw.kernels import attention as hopper  # noqa: E402
from mimw.kernels import attention_backward  # noqa: E402
from mimw.ops.attention import ATTENTION_MOD  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
torch.manual_seed(0)
BIAS, SLOPES = torch.randn(4, 160), torch.tensor([0.5, 0.25, 0.125, 1.0]).bfloat16()
DOCUMENTS = torch.tensor([0] * 7 + [1] * 12 + [2] * 60 + [3] * 81)
OPEN = torch.rand(160) < 0.6


def capped(s, b, h, q, k):
    return 2 * torch.tanh(s / 2)


def relative(s, b, h, q, k):
    return s + BIAS[h, q - k + 70]


def alibi(s, b, h, q, k):
    return s + SLOPES[h].float() * (k - q) + b


def documents(s, b, h, q, k):
    return torch.where((DOCUMENTS[q] == DOCUMENTS[k]) & OPEN[k], s, -math.inf)


def stripes(s, b, h, q, k):
    """Rows 1, 4, 7, ... see nothing."""
    return torch.where((q % 3 != 1) & ((k // 2 + h) % 2 == 0), s * torch.sigmoid(s), -math.inf)


def compare(mod, batch, heads, kv_heads, seq_q, seq_k, dim, dtype, value_dim=None, allowed=2e-3, sinks=None, **options):
    """(o, lse) and gradients against torch's eager flex attention in float32 of the same inputs."""
    shapes = (batch, heads, seq_q, dim), (batch, kv_heads, seq_k, dim), (batch, kv_heads, seq_k, value_dim or dim)
    given = [(torch.randn(shape) / 2).to(dtype).requires_grad_() for shape in shapes]
    o, lse = ops.attention(*given, score_mod=mod, return_lse=True, **options)
    plain = [one.detach().float().requires_grad_() for one in given]
    q, k, v = plain[0], *(one.repeat_interleave(heads // kv_heads, 1) for one in plain[1:])

    def seen(b, h, i, j):
        shown = torch.ones((), dtype=torch.bool)
        if options.get("causal"):
            shown = shown & (j <= i + seq_k - seq_q)
        return shown & (i + seq_k - seq_q - j <= options["window"][0]) if "window" in options else shown

    expected, log2, _ = math_attention(q, k, v, mod, (seen, ), 1 / math.sqrt(dim), {})
    expected_lse = log2 * math.log(2)
    torch.testing.assert_close(o.float(), expected, rtol=0, atol=allowed)
    torch.testing.assert_close(lse, expected_lse, rtol=1e-4, atol=1e-4)
    do, some = torch.randn_like(expected) / 4, expected_lse.isfinite()
    ours = torch.autograd.grad((o.float() * do).sum() + lse[some].sum(), given)
    theirs = torch.autograd.grad((expected * do).sum() + expected_lse[some].sum(), plain)
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one.float(), other, rtol=1e-2, atol=4 * allowed)
    return some


# Heads of these on the kernels for sm_90, one tile and several: batch, heads, heads of keys, queries, keys.
ON_HOPPER = {
    "relative bias": (relative, (1, 4, 2, 70, 90, 64), {}),
    "alibi, causal": (alibi, (2, 2, 1, 33, 60, 64), dict(causal=True)),
    "documents in a window": (documents, (1, 1, 1, 80, 150, 64), dict(causal=True, window=(60, None))),
    "stripes": (stripes, (1, 2, 1, 140, 40, 64), {}), "wide documents": (documents, (1, 1, 1, 20, 70, 136), {})}


@pytest.mark.parametrize("name", ON_HOPPER)
def test_on_hopper(name, monkeypatch):
    monkeypatch.setenv("MIMW_TARGET", "sm_90a")
    mod, shape, options = ON_HOPPER[name]
    some = compare(mod, *shape, torch.float16, **options)
    assert bool(some.all()) == (name not in ("stripes", "documents in a window"))


def test_elsewhere(monkeypatch):
    """The plain kernel, and gradients by torch's products; fp32, and the deterministic way on Hopper."""
    monkeypatch.setenv("MIMW_TARGET", "sm_80")
    for mod in (capped, alibi, documents, stripes):
        compare(mod, 2, 2, 1, 17, 23, 20, torch.float32, value_dim=12, allowed=1e-5)
    compare(relative, 1, 2, 1, 17, 23, 32, torch.bfloat16, causal=True, allowed=2e-2)


def test_indices_beyond_a_table_are_nan_and_sinks_join():
    q = torch.randn(1, 2, 6, 16)
    short = torch.randn(2)
    for read, wrong in ((lambda s, b, h, i, j: s + short[i], [2, 3, 4, 5]), (lambda s, b, h, i, j: s + short[-2], []),
                        (lambda s, b, h, i, j: s + short[DOCUMENTS[i + 14]], [5]),
                        (lambda s, b, h, i, j: s + short[DOCUMENTS[j + 14]], range(6))):
        found = ops.attention(q, q, q, score_mod=read).isnan()
        assert [i for i in range(6) if found[0, 0, i].all()] == list(wrong) == [i for i in range(6) if found[0, 0, i].any()]
    sinks = torch.tensor([0.5, -math.inf], requires_grad=True)
    o, lse = ops.attention(q, q, q, score_mod=lambda s, b, h, i, j: torch.where(i > 2, s, -math.inf), sinks=sinks, return_lse=True)
    assert (o[:, :, :3] == 0).all() and lse[0, :, :3].tolist() == [[0.5] * 3, [-math.inf] * 3]
    scores = (q @ q.mT / 4)[:, :, 3:]
    expected = torch.cat([scores, sinks.detach().view(1, 2, 1, 1).expand(1, 2, 3, 1)], -1).softmax(-1)[..., :-1] @ q
    torch.testing.assert_close(o[:, :, 3:], expected, rtol=1e-4, atol=1e-5)
    lse[lse.isfinite()].sum().backward()
    torch.testing.assert_close(sinks.grad[1], torch.tensor(0.0))
    assert 3 < sinks.grad[0] < 6


def test_refusals():
    q = torch.randn(1, 1, 4, 16, requires_grad=True)
    bias = torch.randn(9, requires_grad=True)
    with pytest.raises(RuntimeError, match="beside softcap"):
        ops.attention(q, q, q, softcap=3.0, score_mod=capped)
    with pytest.raises(NotImplementedError, match="no derivative of tensors that a score_mod reads"):
        ops.attention(q, q, q, score_mod=lambda s, b, h, i, j: s + bias[i]).sum().backward()
    with pytest.raises(ScoreModError, match="with erf"):
        ops.attention(q, q, q, score_mod=lambda s, b, h, i, j: torch.erf(s))
    for text, tables, words in (("s + f0[q]", (), "reads tables"), ("s + f0[q]", (DOCUMENTS, ), "reads floats"),
                                ("s + f0[q]", (BIAS, ), "by 1 indices"), ("s +", (), "no expression")):
        with pytest.raises(ScoreModError, match=words):
            ATTENTION_MOD(q, q, q, None, *score_mods.ScoreMod(text, tables).padded(), text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="on one device"):
            ATTENTION_MOD(q, q, q, None, BIAS.to("meta"), None, None, None, "s + f0[q, k]")


def test_two_texts_share_no_plan_file_or_binary(tmp_path, monkeypatch):
    """A number that differs in its last digit makes another plan, another function, and another key of a launch."""
    given = [torch.randn(1, 1, 8, 16) for _ in range(3)]
    mods = [score_mods.record(lambda s, b, h, i, j, by=by: s * by) for by in (1.5, 1.25)]
    found = [ops.attention(*given, score_mod=mod) for mod in mods]
    for by, o in zip((1.5, 1.25), found):
        torch.testing.assert_close(o, ops.attention(*given, scale=by / 4), rtol=1e-5, atol=1e-6)
    made = [score_mods.for_kernels(mod.text, (), score_mods.Box(1, 1, 8, 8)) for mod in mods]
    one, other = ([x.value, x.gradient] for x in made)
    assert len({x.fn.__module__ for x in (*one, *other)}) == 2 and len({x.cache_key for x in (*one, *other)}) == 4
    assert made[0] == score_mods.for_kernels(mods[0].text, (), score_mods.Box(1, 1, 8, 8))


def test_check_is_clean_and_what_is_explained():
    """`mimw.check` of launches with a score_mod that reads tables; the explanation names the function."""
    mod = score_mods.record(relative)
    q = torch.randn(1, 4, 70, 64).half()
    made = score_mods.for_kernels(mod.text, mod.tables, score_mods.Box(1, 4, 70, 70))
    lse, (rows, sums) = torch.zeros(1, 4, 70), attention_backward.workspace(q, mod=made)
    grid, args, meta = hopper.arguments(q, q, q, q.clone(), lse, torch.zeros(1, dtype=torch.int32), 2, mod=made)
    report = mimw.check(hopper.kernel, grid, *args, **meta)
    assert report.ok, str(report)
    launches = attention_backward.launches(q, q, q, q, lse, q, *(q.clone() for _ in range(3)), torch.zeros(rows),
                                           sums and torch.zeros(sums), mod=made)
    assert [one.fn.__name__ for one, *_ in launches] == ["before", "attention_backward", "query_gradients"]
    assert "MOD=JITFunction(mimw_score_mod_" in str(ops.explain(ops.attention, q, q, q, score_mod=mod, target="sm_90a"))


def test_compiled_and_by_opcheck():
    mod = score_mods.record(relative)
    given = [torch.randn(1, 1, 8, 16, requires_grad=True) for _ in range(3)]

    def f(q, k, v):
        return 2 * ops.attention(q, k, v, score_mod=mod)

    found = torch.compile(f, backend="aot_eager", fullgraph=True)(*given)
    expected = f(*given)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(*(torch.autograd.grad(one.square().sum(), given) for one in (found, expected))):
        torch.testing.assert_close(ours, theirs)
    torch.library.opcheck(ATTENTION_MOD.op, (*given, None, *mod.padded(), mod.text), test_utils=("test_schema", "test_faketensor"))
    with pytest.raises(torch._dynamo.exc.Unsupported, match="a score_mod is recorded outside"):
        torch.compile(lambda q: ops.attention(q, q, q, score_mod=relative), backend="eager", fullgraph=True)(given[0])
