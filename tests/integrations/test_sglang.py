"""The hooks of SGLang: they compute, or call the original with all that they got."""

import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the operators are torch's")

from mimw.integrations import contracts, sglang  # noqa: E402
from mimw.integrations.sglang import attention, layers, modes, moe  # noqa: E402

from .attention_reference import attention as reference  # noqa: E402
from .attention_reference import cached  # noqa: E402
from .stand_in import modules  # noqa: E402
from .test_experts import routed  # noqa: E402


@pytest.fixture(autouse=True)
def _any_bits(monkeypatch):
    """No mode that promises the same bits in every batch."""
    monkeypatch.setattr(modes, "batch_invariant", lambda: False)


def near(found, wanted):
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_hooks_of_sglang_compute_or_call_the_original():
    layer = SimpleNamespace(weight=torch.nn.Parameter(torch.ones(32)), has_weight=True, variance_epsilon=1e-6, _quant_linear=None,
                            cast_x_before_out_mul=False, fp32_residual=False, override_orig_dtype=None, variance_size_override=None)
    x, residual, more = torch.randn(3, 2, 32).unbind(1) + (torch.randn(3, 32), )
    y, total = layers.rms_norm(None, layer, x, residual, more)
    near(total, x + residual + more)
    near(y, torch.nn.functional.rms_norm(total, (32, ), eps=1e-6))
    layer.cast_x_before_out_mul = True
    assert layers.rms_norm(lambda *given: len(given), layer, x) == 5
    near(layers.silu_and_mul(None, None, x), torch.nn.functional.silu(x[:, :16]) * x[:, 16:])


def config(**changes):
    return SimpleNamespace(**dict(num_experts=3, num_local_experts=3, activation="silu", is_gated=True, inplace=False,
                                  no_combine=False, apply_router_weight_on_input=False, routed_scaling_factor=None,
                                  gemm1_alpha=None, gemm1_clamp_limit=None, swiglu_limit=None) | changes)


def test_experts_are_scaled_and_written_in_place():
    x, w1, w2 = (torch.randn(*shape).bfloat16() / 4 for shape in ((5, 32), (3, 32, 32), (3, 32, 16)))
    weights, ids = torch.rand(5, 3).topk(2)
    wanted = routed(x, w1, w2, ids, weights)
    found = moe.fused_experts(None, x, w1, w2, (weights, ids.int(), None), config())
    torch.testing.assert_close(found.float(), wanted, atol=2e-2, rtol=2e-2)
    within = x.clone()
    found = moe.fused_experts(None, within, w1, w2, (weights, ids.int(), None), config(inplace=True, routed_scaling_factor=2.5))
    assert found is within
    torch.testing.assert_close(found.float(), 2.5 * wanted, atol=4e-2, rtol=2e-2)


def test_experts_that_are_left_to_sglang(monkeypatch):
    x, w1, w2 = (torch.zeros(*shape).bfloat16() for shape in ((2, 32), (3, 32, 32), (3, 32, 16)))
    routes = torch.ones(2, 1), torch.zeros(2, 1, dtype=torch.int32), None

    def left(given=x, more={}, **changes):
        return moe.fused_experts(lambda *given: len(given), given, w1, w2, routes, config(**changes), **more) == 21

    assert not isinstance(moe.fused_experts(None, x, w1, w2, routes, config()), int)
    assert all(left(**changes) for changes in (
        dict(activation="gelu"), dict(is_gated=False), dict(swiglu_limit=10.0), dict(gemm1_alpha=1.7), dict(num_local_experts=2),
        dict(apply_router_weight_on_input=True), dict(no_combine=True), dict(more=dict(b1=x)), dict(more=dict(use_int8_w8a8=True)),
        dict(more=dict(a1_q=x)), dict(more=dict(fuse_swiglu_interleaved=True)), dict(given=x.float()),
        dict(more=dict(use_fp8_w8a8=True, block_shape=[64, 64]))))
    monkeypatch.setattr(modes, "batch_invariant", lambda: True)
    assert left()


@pytest.mark.long(but=["options0"], everywhere=True)
@pytest.mark.parametrize("options", [{}, dict(left=9, softcap=3.0, sinks=torch.tensor([0.5, -1.0, 2.0, 0.0]))])
def test_decoding_reads_the_pages(options):
    given = cached([40, 7, 30], [1, 1, 1], 4, 2, 16, 16, torch.float16)
    k, v = given.cache.transpose(1, 2).split(16, -1)
    more = dict(window_size=(options.get("left", -1), 0), softcap=options.get("softcap", 0.0), sinks=options.get("sinks"))
    q, lengths, out = given.q[:3], torch.tensor([40, 7, 30], dtype=torch.int32), torch.empty(3, 4, 16, dtype=torch.float16)

    def decode(**changes):
        return attention.flash_attn_with_kvcache(lambda *given, **named: named, **dict(
            q=q, k_cache=k, v_cache=v, page_table=given.table, cache_seqlens=lengths, max_seqlen_q=1, softmax_scale=0.3,
            causal=True, scheduler_metadata=None, ver=3) | more | changes)

    assert isinstance(decode(), dict), "a prompt of one token is SGLang's"
    wanted = reference(given, given.cache, scale=0.3, **options)
    inside = attention.forward_decode
    torch.testing.assert_close(inside(decode), wanted, atol=2e-3, rtol=2e-3)
    assert inside(decode, out=out) is out
    torch.testing.assert_close(out, wanted, atol=2e-3, rtol=2e-3)
    assert all(isinstance(inside(decode, **changes), dict) for changes in (
        dict(qv=q), dict(return_softmax_lse=True), dict(causal=False), dict(max_seqlen_q=2), dict(q=given.q), dict(q=q.float()),
        dict(page_table=None), dict(k_cache=k[:, :8], v_cache=v[:, :8]), dict(k_descale=lengths)))
    assert inside(decode, causal=False)["sinks"] is more["sinks"] and not attention._decoding.get()


def test_hooks_go_around_the_named_functions(monkeypatch):
    for name, module in modules("sglang").items():
        monkeypatch.setitem(sys.modules, name, module)
    registry, found = sys.modules["sglang.srt.plugins.hook_registry"].HookRegistry, {}
    monkeypatch.setattr(sglang, "version", lambda name: contracts.recorded(name)["version"])
    monkeypatch.setattr(sglang, "_DONE", set())

    def register(target, hook, hook_type=..., *, source=None):
        found[target] = hook

    registry.register = staticmethod(register)
    monkeypatch.setenv("MIMW_SGLANG", "rotary,attention")
    assert sglang.register() == sglang.register() == ["rotary", "attention"]
    assert found == {**sglang.HOOKS["rotary"], **sglang.HOOKS["attention"]} and len(found) == 3
    del sys.modules[moe._TRITON].fused_experts
    assert sglang.register() == ["rotary", "attention"], "what other operators stand on is not asked for"
    monkeypatch.setenv("MIMW_SGLANG", "moe")
    with pytest.raises(contracts.ChangedContract, match="fused_experts is .*missing"):
        sglang.register()
