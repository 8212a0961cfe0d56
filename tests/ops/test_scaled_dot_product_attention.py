"""`mimw.ops.scaled_dot_product_attention` against torch's: which calls are ours, masks, refusals, gradients, graphs."""

import inspect

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from torch.nn.functional import scaled_dot_product_attention as torchs  # noqa: E402

from mimw import ops  # noqa: E402

ours = ops.scaled_dot_product_attention
bf16, fp32, fp64 = torch.bfloat16, torch.float32, torch.float64


def normal(*shape, dtype=bf16, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def qkv(q, k=None, v=None, dtype=bf16):
    return normal(*q, dtype=dtype), normal(*(k or q), dtype=dtype, seed=1), normal(*(v or k or q), dtype=dtype, seed=2)


def seen(*shape, lengths):
    """True for the first keys of each of the batch."""
    return (torch.arange(shape[-1]) < torch.tensor(lengths)[:, None]).view(shape)


SCATTERED = torch.tensor([[1, 0, 1, 1, 0, 0, 1], [0, 0, 0, 1, 0, 1, 0]], dtype=torch.bool).view(2, 1, 1, 7)
OURS = {        # arguments, options, what computes
    "plain": (qkv((1, 2, 9, 16)), dict(), "plain_attention"),
    "causal": (qkv((1, 2, 9, 16)), dict(is_causal=True), "plain_attention"),
    "causal, more keys": (qkv((1, 2, 5, 16), (1, 2, 9, 16)), dict(is_causal=True), "plain_attention"),
    "causal, fewer keys": (qkv((1, 2, 9, 16), (1, 2, 5, 16)), dict(is_causal=True), "plain_attention"),
    "causal, one key": (qkv((1, 2, 9, 16), (1, 2, 1, 16)), dict(is_causal=True), "plain_attention"),
    "of TMA, more keys": (qkv((1, 1, 40, 64), (1, 1, 70, 64)), dict(is_causal=True), "attention"),
    "of TMA, fewer keys": (qkv((1, 1, 70, 64), (1, 1, 40, 64)), dict(is_causal=True), "attention"),
    "no queries": (qkv((1, 2, 0, 16), (1, 2, 9, 16)), dict(), "torch"),
    "no keys": (qkv((1, 2, 9, 16), (1, 2, 0, 16)), dict(), "torch"),
    "scale": (qkv((1, 2, 9, 16)), dict(scale=0.5), "plain_attention"),
    "scale 0": (qkv((1, 2, 9, 16)), dict(scale=0.0), "plain_attention"),
    "grouped": (qkv((1, 4, 5, 16), (1, 2, 7, 16)), dict(enable_gqa=True), "plain_attention"),
    "one head of keys": (qkv((1, 4, 5, 16), (1, 1, 7, 16)), dict(), "plain_attention"),
    "two dimensions": (qkv((5, 16), (7, 16)), dict(is_causal=True), "plain_attention"),
    "three dimensions": (qkv((3, 5, 16), (3, 7, 16)), dict(), "plain_attention"),
    "five dimensions": (qkv((2, 3, 2, 5, 16)), dict(is_causal=True), "plain_attention"),
    "broadcast batch": (qkv((2, 2, 5, 16), (1, 2, 7, 16)), dict(), "plain_attention"),
    "wider values": (qkv((1, 2, 5, 16), (1, 2, 7, 16), (1, 2, 7, 24)), dict(), "plain_attention"),
    "fp32": (qkv((1, 2, 5, 20), dtype=fp32), dict(), "plain_attention"),
    "padded": (qkv((2, 2, 5, 16), (2, 2, 7, 16)), dict(attn_mask=seen(2, 1, 1, 7, lengths=[7, 3])), "plain_attention"),
    "scattered": (qkv((2, 2, 5, 16), (2, 2, 7, 16)), dict(attn_mask=SCATTERED, scale=0.3), "plain_attention"),
    "none is seen": (qkv((2, 2, 5, 16)), dict(attn_mask=seen(2, 1, 1, 5, lengths=[0, 3])), "plain_attention"),
    "padded groups": (qkv((2, 4, 5, 16), (2, 2, 7, 16)), dict(attn_mask=SCATTERED, enable_gqa=True), "plain_attention"),
    "one mask": (qkv((2, 2, 5, 16), (2, 2, 7, 16)), dict(attn_mask=seen(1, 7, lengths=[4])), "plain_attention"),
    "a mask of one column": (qkv((2, 2, 5, 16)), dict(attn_mask=torch.tensor([True, False]).view(2, 1, 1, 1)), "plain_attention"),
    "one query": (qkv((2, 2, 1, 16), (2, 2, 7, 16)), dict(attn_mask=seen(2, 1, 1, 7, lengths=[7, 2])), "plain_attention"),
    "padded, two dimensions": (qkv((5, 16), (7, 16)), dict(attn_mask=seen(1, 7, lengths=[4])), "plain_attention"),
    "padded, three dimensions": (qkv((3, 5, 16), (3, 7, 16)), dict(attn_mask=seen(3, 1, 7, lengths=[7, 3, 1])),
                                 "plain_attention"),
    "padded, five dimensions": (qkv((2, 3, 2, 5, 16)), dict(attn_mask=seen(2, 1, 1, 1, 5, lengths=[4, 2])), "plain_attention"),
    "padded, of TMA": (qkv((2, 2, 70, 64), (2, 2, 90, 64)),
                       dict(attn_mask=seen(2, 1, 1, 90, lengths=[90, 33])), "attention_varlen"),
}


def said(of, options):
    return ops.explain(ours, *of, **options).line


def expected(of, options):
    """torch's in fp64, of broadcast heads, which torch's kernel for the CPU wants alike."""
    return torchs(*(x.double() for x in of), **options)


@pytest.mark.parametrize("case", OURS)
def test_ours(case):
    of, options, by = OURS[case]
    assert said(of, options) == f"scaled_dot_product_attention: by {by}"
    o, wanted = ours(*of, **options), expected(of, options)
    assert o.dtype == of[0].dtype and o.shape == wanted.shape
    torch.testing.assert_close(o.double(), wanted, rtol=0, atol=1e-5 if o.dtype == fp32 else 2e-2)


@pytest.mark.parametrize("case", ["causal, more keys", "causal, fewer keys", "grouped", "padded", "none is seen", "padded groups",
                                  "padded, three dimensions", "padded, five dimensions", "broadcast batch"])
def test_gradients(case):
    of, options, _ = OURS[case]
    mine, theirs = [x.clone().requires_grad_() for x in of], [x.double().requires_grad_() for x in of]
    o = ours(*mine, **options)
    do = normal(*o.shape, seed=7)
    found = torch.autograd.grad(o, mine, do)
    for one, other in zip(found, torch.autograd.grad(torchs(*theirs, **options), theirs, do.double())):
        torch.testing.assert_close(one.double(), other, rtol=2e-2, atol=4e-2)


TORCHS = {
    "both": (qkv((2, 2, 5, 16)), dict(attn_mask=seen(2, 1, 1, 5, lengths=[5, 2]), is_causal=True), "are both given"),
    "added": (qkv((1, 2, 5, 16)), dict(attn_mask=normal(5, 5)), "attn_mask is added to the scores"),
    "of queries": (qkv((1, 2, 5, 16)), dict(attn_mask=torch.ones(5, 5, dtype=torch.bool).tril()), "not the same for all queries"),
    "of heads": (qkv((1, 2, 5, 16)), dict(attn_mask=torch.tensor([True, False]).view(1, 2, 1, 1).expand(1, 2, 1, 5)),
                 "not the same for all queries and heads"),
    "fp64": (qkv((1, 2, 5, 16), dtype=fp64), dict(is_causal=True), "the types are not all bf16, all fp16 or all fp32"),
    "no heads": (qkv((2, 0, 5, 16)), dict(), "the heads of queries, keys and values differ in another way"),
    "fp64, padded": (qkv((2, 2, 5, 16), dtype=fp64), dict(attn_mask=seen(2, 1, 1, 5, lengths=[5, 2])), "the types"),
}


@pytest.mark.parametrize("case", TORCHS)
def test_torchs(case):
    of, options, why = TORCHS[case]
    assert "scaled_dot_product_attention: by torch, as " in said(of, options) and why in said(of, options)
    assert torch.equal(ours(*of, **options), torchs(*of, **options))


def test_dropout_is_torchs():
    of = qkv((1, 2, 5, 16))
    assert "dropout_p is not 0" in ops.explain(ours, *of, None, 0.5).line
    torch.manual_seed(0)
    found = ours(*of, None, 0.5)
    torch.manual_seed(0)
    assert torch.equal(found, torchs(*of, None, 0.5)) and not torch.equal(found, torchs(*of))


def test_nested_is_torchs():
    q = torch.nested.nested_tensor([normal(2, 3, 16, dtype=fp32), normal(2, 5, 16, dtype=fp32)])
    assert "nested" in ops.explain(ours, q, q, q).line
    for one, other in zip(ours(q, q, q).unbind(), torchs(q, q, q).unbind()):
        assert torch.equal(one, other)


def test_a_bias_of_torchs_own_class():
    from torch.nn.attention.bias import causal_lower_right
    of = qkv((1, 2, 3, 16), (1, 2, 5, 16))
    torch.testing.assert_close(ours(*of, causal_lower_right(3, 5)), torchs(*of, causal_lower_right(3, 5)))


@pytest.mark.parametrize("of, options", [
    (qkv((1, 4, 5, 16), (1, 2, 5, 16)), dict()), (qkv((1, 3, 5, 16), (1, 2, 5, 16)), dict(enable_gqa=True)),
    (qkv((1, 2, 5, 16), (1, 2, 5, 17)), dict()), ((normal(1, 2, 5, 16), *qkv((1, 2, 5, 16), dtype=fp32)[1:]), dict()),
    (qkv((2, 2, 5, 16)), dict(attn_mask=seen(2, 1, 1, 4, lengths=[4, 2])))])
def test_what_torch_refuses_is_refused(of, options):
    for function in (torchs, ours):
        with pytest.raises(RuntimeError):
            function(*of, **options)


def test_the_order_of_arguments_is_torchs():
    """By torch's own schema, as its function is C's."""
    schema = torch.ops.aten.scaled_dot_product_attention.default._schema.arguments
    found = [(one.name, one.kind is one.KEYWORD_ONLY, None if one.default is one.empty else one.default)
             for one in inspect.signature(ours).parameters.values()]
    assert found == [(one.name, one.kwarg_only, one.default_value) for one in schema]
    of = qkv((2, 2, 5, 16))
    mask = seen(2, 1, 1, 5, lengths=[5, 2])
    assert torch.equal(ours(*of, mask, 0.0, False), ours(*of, attn_mask=mask))


@pytest.mark.long(but=["False-causal, *", "False-padded, three dimensions", "True-padded"], everywhere=True)
@pytest.mark.parametrize("case", ["causal, more keys", "causal, fewer keys", "padded", "padded, three dimensions"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_whole(case, dynamic):
    of, options, _ = OURS[case]
    compiled = torch.compile(lambda *of: ours(*of, **options) * 2, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    torch.testing.assert_close(compiled(*of), ours(*of, **options) * 2)


def test_compiled_whole_where_torch_computes():
    of, options, _ = TORCHS["added"]
    compiled = torch.compile(lambda *of: ours(*of, **options) * 2, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*of), torchs(*of, **options) * 2)


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_graph_has_our_operators(strict):
    class Model(torch.nn.Module):
        def forward(self, q, mask):
            return ours(q, q, q, mask), ours(q, q, q, is_causal=True), ours(q, q, q, q[..., :5])

    graph = torch.export.export(Model(), (normal(2, 2, 5, 16), seen(2, 1, 1, 5, lengths=[5, 2])), strict=strict).graph
    assert [str(one.target) for one in graph.nodes if "attention" in str(one.target)] == [
        "mimw.attention_varlen.default", "mimw.attention.default", "aten.scaled_dot_product_attention.default"]


def test_under_autocast():
    of = qkv((1, 2, 5, 16), dtype=fp32)
    with torch.autocast("cpu", bf16):
        assert ours(*of).dtype == torchs(*of).dtype == bf16
        assert ours(of[0].bfloat16(), *of[1:]).dtype == bf16


def test_under_a_default_device():
    """A mode of functions, as torch.device is, does not make the call torch's."""
    of = qkv((1, 2, 5, 16))
    with torch.device("cpu"):
        assert said(of, {}) == "scaled_dot_product_attention: by plain_attention"


ON_GPU = {
    "causal": (qkv((2, 8, 300, 64), (2, 2, 300, 64)), dict(is_causal=True, enable_gqa=True), "attention"),
    "causal, more keys": (qkv((2, 4, 200, 128), (2, 4, 333, 128)), dict(is_causal=True), "attention"),
    "causal, fewer keys": (qkv((2, 4, 333, 128), (2, 4, 200, 128)), dict(is_causal=True), "attention"),
    "padded": (qkv((2, 4, 200, 128), (2, 4, 333, 128)), dict(attn_mask=seen(2, 1, 1, 333, lengths=[333, 70])), "attention_varlen"),
    "none is seen": (qkv((2, 4, 200, 64)), dict(attn_mask=seen(2, 1, 1, 200, lengths=[0, 70])), "attention_varlen"),
}


@pytest.mark.gpu
@pytest.mark.parametrize("case", ON_GPU)
def test_on_the_gpu(case):
    """Values and gradients, with no wait for the device, and in a graph of inductor."""
    of, options, by = ON_GPU[case]
    of = [x.cuda().requires_grad_() for x in of]
    options = {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    assert said(of, options) == f"scaled_dot_product_attention: by {by}"
    ours(*of, **options)
    torch.cuda.set_sync_debug_mode("error")
    try:
        o = ours(*of, **options)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    theirs = [x.detach().double().requires_grad_() for x in of]
    wanted, do = torchs(*theirs, **options), normal(*o.shape, seed=7).cuda()
    torch.testing.assert_close(o.double(), wanted, rtol=0, atol=2e-2)
    for one, other in zip(torch.autograd.grad(o, of, do), torch.autograd.grad(wanted, theirs, do.double())):
        torch.testing.assert_close(one.double(), other, rtol=2e-2, atol=4e-2)
    compiled = torch.compile(lambda *of: ours(*of, **options) * 2, fullgraph=True)
    torch.testing.assert_close(compiled(*of), o * 2)
