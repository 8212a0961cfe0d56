"""The adaptors of vLLM in its registries: modules have the recorded parameters (stand_in.py) and a few lines of its behaviour."""

import logging
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the operators are torch's")

from mimw.integrations import contracts, paged, serving  # noqa: E402
from mimw.integrations import vllm as adaptors  # noqa: E402
from mimw.integrations.vllm import attention, fp8_block, installed, moe, rms_norm  # noqa: E402

from .attention_reference import attention as reference  # noqa: E402
from .attention_reference import cached  # noqa: E402
from .stand_in import modules  # noqa: E402
from .test_experts import routed  # noqa: E402

_MOE = "vllm.model_executor.layers.fused_moe"
SILU = "silu"


@pytest.fixture
def server(monkeypatch):
    """vLLM of the record; its registries are dictionaries, and what it computes itself is said."""
    made = modules("vllm")
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    found = SimpleNamespace(modules=made, layers={}, quantisations={}, backends={}, theirs=[])
    monkeypatch.setattr(installed, "version", lambda name: contracts.recorded(name)["version"])
    monkeypatch.setattr(adaptors, "_DONE", set())
    monkeypatch.setattr(serving, "_said", set())
    monkeypatch.delitem(sys.modules, "mimw.integrations.vllm.attention_backend", raising=False)
    made["vllm"].envs.VLLM_BATCH_INVARIANT = False
    made["vllm.platforms"].PlatformEnum = made["vllm.platforms.interface"].PlatformEnum
    made["vllm.platforms"].current_platform = SimpleNamespace(
        is_cuda=lambda: True, get_device_capability=lambda: SimpleNamespace(to_int=lambda: 90))
    return found


def registers(server, base):
    """Give a class vLLM's registry of layers."""
    base.name = base.__name__.lower()
    base.register_oot = classmethod(lambda cls, layer, name: server.layers.__setitem__(name, layer))


def test_a_norm_of_the_registry_computes_or_leaves_it_to_vllm(server):
    norm = server.modules["vllm.model_executor.layers.layernorm"].RMSNorm
    registers(server, norm)
    rms_norm.register()
    layer = object.__new__(server.layers["RMSNorm"])
    assert layer.name == "rmsnorm" and isinstance(layer, norm)
    layer.__dict__.update(pass_weight=True, pass_weight_add=False, weight=torch.nn.Parameter(torch.rand(16)), variance_epsilon=1e-6,
                          variance_size_override=None)
    x, residual = torch.randn(2, 16), torch.randn(2, 16)
    torch.testing.assert_close(layer.forward_cuda(x), torch.nn.functional.rms_norm(x, (16, ), layer.weight, 1e-6))
    y, total = layer.forward_cuda(x, residual)
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(total, (16, ), eps=1e-6))
    server.modules["vllm"].envs.VLLM_BATCH_INVARIANT = True
    with pytest.raises(NotImplementedError, match="forward_cuda are recorded"):
        layer.forward_cuda(x)


def test_the_kernel_of_fp8_stands_first_and_says_what_it_takes(server):
    linear = server.modules["vllm.model_executor.kernels.linear"]
    kernel = server.modules[fp8_block._KERNEL.partition(":")[0]].Fp8BlockScaledMMLinearKernel
    kernel.can_implement = classmethod(lambda cls, config: (True, None))
    linear._POSSIBLE_FP8_BLOCK_KERNELS = {None: ["theirs"]}
    linear.register_linear_kernel = lambda cls, platform, kind: linear._POSSIBLE_FP8_BLOCK_KERNELS[platform].append(cls)
    fp8_block.register()
    ours, theirs = linear._POSSIBLE_FP8_BLOCK_KERNELS[None]
    assert theirs == "theirs" and ours.is_supported() == (True, None) and not ours.is_supported(100)[0]

    def config(*groups):
        keys = (SimpleNamespace(scale=SimpleNamespace(group_shape=one)) for one in groups)
        return SimpleNamespace(**dict(zip(("activation_quant_key", "weight_quant_key"), keys)))

    assert ours.can_implement(config((1, 128), (128, 128)))[0] and not ours.can_implement(config((1, 64), (128, 128)))[0]


def moe_config(**changes):
    alone = SimpleNamespace(use_ep=False, enable_eplb=False)
    return SimpleNamespace(**dict(num_local_experts=3, hidden_dim=32, intermediate_size_per_partition=16, in_dtype=torch.bfloat16,
                                  activation=SILU, has_bias=False, is_lora_enabled=False, swiglu_limit=None,
                                  moe_parallel_config=alone, is_act_and_mul=True) | changes)


@pytest.fixture
def with_moe(server):
    """vLLM whose methods choose TritonExperts, and our experts registered."""
    method = server.modules[f"{_MOE}.unquantized_fused_moe_method"].UnquantizedFusedMoEMethod
    fp8 = server.modules["vllm.model_executor.layers.quantization.fp8"]
    server.triton = server.modules[f"{_MOE}.experts.triton_moe"].TritonExperts
    server.modules[f"{_MOE}.activation"].MoEActivation.SILU = SILU
    registers(server, method)
    method.__init__ = lambda self, moe: setattr(self, "experts_cls", server.triton)
    fp8.Fp8Config.get_quant_method = lambda self, layer, prefix: layer
    server.modules["vllm.model_executor.layers.quantization"].register_quantization_config = (
        lambda name: lambda cls: server.quantisations.__setitem__(name, cls))
    moe.register()
    server.fp8_method = fp8.Fp8MoEMethod
    return server


def chosen(server, **changes):
    return server.layers["UnquantizedFusedMoEMethod"](moe_config(**changes)).experts_cls


def test_experts_are_ours_or_those_of_vllm_with_a_reason(with_moe, caplog):
    assert chosen(with_moe).__name__ == "MimwExperts"
    spread, balanced = SimpleNamespace(use_ep=True, enable_eplb=False), SimpleNamespace(use_ep=False, enable_eplb=True)
    with caplog.at_level(logging.INFO, "mimw.integrations"):
        for changes in (dict(moe_parallel_config=spread), dict(moe_parallel_config=balanced), dict(has_bias=True),
                        dict(is_lora_enabled=True), dict(activation="gelu"), dict(swiglu_limit=7.0), dict(in_dtype=torch.float32),
                        dict(hidden_dim=24), dict(num_local_experts=1025)):
            assert [chosen(with_moe, **changes) for _ in range(2)] == [with_moe.triton] * 2, changes
    assert len(caplog.messages) == 8, "each reason once, and one for both ways to spread experts"
    with_moe.modules["vllm.platforms"].current_platform.get_device_capability = lambda: SimpleNamespace(to_int=lambda: 100)
    assert chosen(with_moe) is with_moe.triton


def test_experts_of_fp8_have_scales_of_128(with_moe):
    config = object.__new__(with_moe.quantisations["fp8"])

    def method(block):
        one = object.__new__(with_moe.fp8_method)
        one.__dict__.update(experts_cls=with_moe.triton, moe=moe_config(hidden_dim=128, intermediate_size_per_partition=128),
                            moe_block_shape=block)
        return config.get_quant_method(one, "experts")

    assert method([128, 128]).experts_cls.__name__ == "MimwExperts"
    assert method([64, 128]).experts_cls is with_moe.triton and method(None).experts_cls is with_moe.triton
    assert config.get_quant_method("a linear layer's", "up") == "a linear layer's"


def test_a_call_of_experts_writes_the_output_or_is_left_to_vllm(with_moe):
    layer = object.__new__(chosen(with_moe))
    layer.__dict__.update(quant_dtype=None, activation_config=SimpleNamespace(clamp_limit=None), w1_bias=None, w2_bias=None,
                          w1_scale=None, w2_scale=None, _lora_context=None, _uses_post_gemm2_hook=lambda tokens: False)
    x, w1, w2 = (torch.randn(*shape).bfloat16() / 4 for shape in ((5, 32), (3, 32, 32), (3, 32, 16)))
    weights, ids = torch.rand(5, 3).topk(2)
    out = torch.empty_like(x)

    def apply(activation=SILU, expert_map=None, on_input=False):
        layer.apply(out, x, w1, w2, weights, ids.int(), activation, 3, expert_map, None, None, None, None, None, on_input)

    apply()
    torch.testing.assert_close(out.float(), routed(x, w1, w2, ids, weights), atol=2e-2, rtol=2e-2)
    assert not layer.expects_unquantized_inputs
    left = pytest.raises(NotImplementedError, match="of apply are recorded")
    for changes in (dict(activation="gelu"), dict(expert_map=ids), dict(on_input=True)):
        with left:
            apply(**changes)
    for name, value in dict(w1_bias=w1, _lora_context="a", activation_config=SimpleNamespace(clamp_limit=7.0),
                            _uses_post_gemm2_hook=lambda tokens: True).items():
        before = layer.__dict__[name]
        layer.__dict__[name] = value
        with left:
            apply()
        layer.__dict__[name] = before


@pytest.fixture
def backend(server, monkeypatch):
    """Our backend as vLLM loads it, above a FlashAttention that keeps what it is given."""
    registry, flash = (server.modules[f"vllm.v1.attention.backends.{one}"] for one in ("registry", "flash_attn"))
    abstract = server.modules["vllm.v1.attention.backend"]
    abstract.AttentionType.DECODER = "decoder"
    monkeypatch.setattr(registry.AttentionBackendEnum, "CUSTOM", SimpleNamespace(
        is_overridden=lambda: bool(server.backends), get_path=lambda: server.backends["path"]))
    registry.register_backend = lambda place, path: server.backends.__setitem__("path", path)
    names = [one.split("=")[0] for one in contracts.recorded("vllm")["contracts"][
        "vllm.v1.attention.backends.flash_attn:FlashAttentionImpl.__init__"]]

    def init(self, *given, **named):
        vars(self).update(dict(zip(names, given)), supports_quant_query_input=True, **named)
        self.sliding_window = (-1, -1) if self.sliding_window is None else (self.sliding_window - 1, 0)

    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, output_scale=None, output_block_scale=None):
        server.theirs.append(attn_metadata)
        return output

    # The parameters of both are looked at when the backend is loaded.
    attention.register()
    module, _, name = server.backends["path"].rpartition(".")
    found = getattr(__import__(module, fromlist=[name]), name)
    flash.FlashAttentionImpl.__init__, flash.FlashAttentionImpl.forward = init, forward
    flash.FlashAttentionBackend.supports_combination = classmethod(lambda cls, *given: None)
    server.modules["vllm.v1.kv_cache_interface"].is_quantized_kv_cache = lambda kind: kind.startswith("fp8")
    monkeypatch.setattr(sys.modules[module], "is_quantized_kv_cache", lambda kind: kind.startswith("fp8"))

    def split(common, threshold, require_uniform):
        decode = [one for one in common.query_start_loc_cpu.diff().tolist() if one <= threshold]
        return len(decode), common.num_reqs - len(decode), sum(decode), 0

    monkeypatch.setattr(sys.modules[module], "split_decodes_and_prefills", split)
    yield found
    del sys.modules[module]


def step(lengths, queries, **changes):
    given = cached(lengths, queries, 4, 2, 16, 16, torch.float32)
    starts = torch.tensor(given.starts, dtype=torch.int32)
    return given, SimpleNamespace(**dict(
        query_start_loc=starts, query_start_loc_cpu=starts, seq_lens=torch.tensor(lengths, dtype=torch.int32),
        num_reqs=len(lengths), num_actual_tokens=given.starts[-1], max_seq_len=max(lengths), block_table_tensor=given.table,
        seq_lens_cpu_upper_bound=torch.tensor(lengths)) | changes)


def metadata_of(backend, common):
    builder = object.__new__(backend.get_builder_cls())
    builder.reorder_batch_threshold = 1
    made = SimpleNamespace(causal=True, mm_prefix_query_range_tensor=None, rswa_prefix_lens=None)
    type(builder).__mro__[1].build = lambda self, *given: made
    return builder.build(0, common)


@pytest.mark.parametrize("known", [True, False])
def test_a_layer_of_the_backend_computes_a_step(backend, server, known):
    given, common = step([40, 7, 30], [1, 1, 5], **({} if known else dict(seq_lens_cpu_upper_bound=None)))
    layer = backend.get_impl_cls()(4, 16, 0.3, 2, None, 10, "auto", 5.0, "decoder", None, None)
    layer.sinks = sinks = torch.randn(4)
    assert layer.supports_quant_query_input is False
    out = torch.zeros_like(given.q)
    layer.forward(None, given.q, None, None, given.cache, metadata_of(backend, common), out)
    wanted = reference(given, given.cache, scale=0.3, left=9, softcap=5.0, sinks=sinks)
    torch.testing.assert_close(out[:given.starts[-1]], wanted, atol=1e-5, rtol=1e-5)
    assert not server.theirs


def test_a_cache_of_fp8_is_read_with_the_scales_of_the_layer(backend):
    given, common = step([20, 5], [1, 2])
    impl = backend.get_impl_cls()(4, 16, 0.3, 2, None, None, "fp8", None, "decoder", None, None)
    layer = SimpleNamespace(_k_scale=torch.tensor(0.02), _v_scale=torch.tensor(0.03))
    bytes_, wide = zip(*(((e4m3 := (side / scale).to(paged.E4M3)).view(torch.uint8), e4m3.float() * scale)
                         for side, scale in zip(given.cache.split(16, -1), (layer._k_scale, layer._v_scale))))
    out = torch.zeros_like(given.q)
    impl.forward(layer, given.q, None, None, torch.cat(bytes_, -1), metadata_of(backend, common), out)
    torch.testing.assert_close(out[:3], reference(given, torch.cat(wide, -1), scale=0.3), atol=2e-3, rtol=2e-3)


def test_what_the_backend_leaves_to_flash_attention(backend, server):
    given, common = step([20, 5], [1, 2])
    out = torch.zeros_like(given.q)

    def forward(metadata, alibi=None, kind="decoder", **more):
        impl = backend.get_impl_cls()(4, 16, 0.3, 2, alibi, None, "auto", None, kind, None, None)
        impl.forward(None, given.q, None, None, given.cache, metadata, out, **more)
        return impl

    forward(None)
    whole = metadata_of(backend, common)
    forward(whole, output_scale=torch.ones(1))
    assert forward(whole, alibi=[0.1] * 4).supports_quant_query_input, "FlashAttention takes fp8 queries"
    forward(whole, kind="encoder_only")
    for changes in (dict(mimw_rows=None), dict(causal=False), dict(mm_prefix_query_range_tensor=out), dict(rswa_prefix_lens=out)):
        forward(SimpleNamespace(**vars(whole) | changes))
    assert len(server.theirs) == 8 and not out.any()


def test_decoding_sequences_without_a_query_are_no_equal_parts(backend):
    given, common = step([20, 5, 9], [1, 0, 1])
    out = torch.zeros_like(given.q)
    metadata = metadata_of(backend, common)
    assert metadata.mimw_rows.decodes == 0 and len(metadata.mimw_rows.extends) == 1
    backend.get_impl_cls()(4, 16, 0.3, 2, None, None, "auto", None, "decoder", None, None).forward(
        None, given.q, None, None, given.cache, metadata, out)
    torch.testing.assert_close(out[:2], reference(given, given.cache, scale=0.3), atol=1e-5, rtol=1e-5)


def test_questions_of_vllm(backend):
    capability = SimpleNamespace(to_int=lambda: 90)
    asked = [128, torch.bfloat16, "auto", 16, False, False, False, False, capability]
    assert backend.supports_combination(*asked) is None and backend.get_name() == "CUSTOM"
    asked[2] = "float16"
    assert "cache is float16" in backend.supports_combination(*asked)
    assert [backend.supports_head_size(one) for one in (64, 128, 256, 100, 512)] == [True, True, True, False, False]
    assert [backend.supports_kv_cache_dtype(one) for one in (None, "fp8", "fp8_e5m2")] == [True, True, False]
    assert backend.supports_compute_capability(capability)
    assert not backend.supports_compute_capability(SimpleNamespace(to_int=lambda: 100))
    assert backend.supports_attn_type("decoder") and not backend.supports_attn_type("encoder")
    assert not any(ask() for ask in (
        backend.supports_mm_prefix, backend.supports_non_causal, backend.supports_rswa, backend.supports_batch_invariance,
        backend.supports_per_head_quant_scales, backend.supports_device_cpu_query_lens_mismatch))
    assert not backend.get_impl_cls().supports_dcp


def test_the_backend_of_another_plugin_is_not_replaced(backend, server):
    attention.register()
    server.backends["path"] = "another.Backend"
    with pytest.raises(attention.BackendTaken, match="another.Backend already"):
        attention.register()


def test_a_flash_attention_with_other_parameters_is_refused_when_the_backend_is_loaded(server):
    server.modules["vllm.v1.attention.backends.flash_attn"].FlashAttentionImpl.forward = lambda self, query: None
    with pytest.raises(contracts.ChangedContract, match=r"FlashAttentionImpl.forward is \(layer, .* it is \(query\)"):
        import mimw.integrations.vllm.attention_backend  # noqa: F401
    assert "mimw.integrations.vllm.attention_backend" not in sys.modules


def test_registering_compares_the_named_operators_only(server, monkeypatch):
    norm = server.modules["vllm.model_executor.layers.layernorm"].RMSNorm
    registers(server, norm)
    server.modules["vllm.model_executor.layers.activation"].SiluAndMul.forward_cuda = lambda self: None
    monkeypatch.setenv("MIMW_VLLM", "rms_norm")
    assert adaptors.register() == adaptors.register() == ["rms_norm"] and list(server.layers) == ["RMSNorm"]
    monkeypatch.setenv("MIMW_VLLM", "rms_norm,silu_and_mul")
    with pytest.raises(contracts.ChangedContract, match="SiluAndMul.forward_cuda"):
        adaptors.register()
