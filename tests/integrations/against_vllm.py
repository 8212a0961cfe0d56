"""Our adaptors inside vLLM's own classes, on the CPU: what `tests/integrations/test_vllm.py` does with a record, with vLLM itself.

Input: a folder with the unpacked wheel of vLLM 0.33.0. Output: a line for each comparison with vLLM's native functions or with
torch; it fails at the first that differs. Not a part of the tests: it imports vLLM, with stubs for packages that these classes do
not use, and tells it that the device is an sm_90. Needed besides, in this Python: pydantic, msgspec, regex, cachetools, psutil,
cloudpickle, cbor2, blake3. For example:

    pip download --no-deps vllm==0.33.0 && unzip -q vllm-0.33.0-*.whl "*.py" "*METADATA" -d unpacked
    python -m tests.integrations.against_vllm unpacked
"""

import os
import sys
from types import SimpleNamespace

import torch
from torch import Tensor

from .attention_reference import attention, cached
from .native_layers import compare, same
from .stubs import stub

STUBBED = ("PIL", "aiohttp", "compressed_tensors", "cpuinfo", "einops", "fastapi", "llguidance", "openai", "openai_harmony",
           "partial_json_parser", "prometheus_client", "pybase64", "uvloop", "xgrammar", "zmq")


def layers() -> None:
    """vLLM builds our norm, activation and embedding; their forward_cuda gives what forward_native does."""
    from vllm.model_executor.layers.activation import SiluAndMul
    from vllm.model_executor.layers.layernorm import RMSNorm
    from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding
    assert all(type(one).__name__.startswith("Mimw") for one in (RMSNorm(64), SiluAndMul()))

    def rotary_of(neox: bool) -> RotaryEmbedding:
        rotary = RotaryEmbedding(16, 8, 32, 10000.0, neox, torch.float32)
        assert type(rotary).__name__ == "MimwRotaryEmbedding"
        return rotary

    compare(RMSNorm(64), SiluAndMul(), rotary_of)


def moe_config(**changes: object) -> object:
    from vllm.model_executor.layers.fused_moe.activation import MoEActivation
    from vllm.model_executor.layers.fused_moe.config import FusedMoEConfig, FusedMoEParallelConfig, RoutingMethodType
    alone = FusedMoEParallelConfig(**{f"{one}_size": 1 for one in ("tp", "pcp", "dp", "ep", "sp")}, use_ep=False,
                                   **{f"{one}_rank": 0 for one in ("tp", "pcp", "dp", "ep")}, enable_eplb=False, all2all_backend="")
    return FusedMoEConfig(**dict(dict(
        num_experts=4, experts_per_token=2, hidden_dim=128, intermediate_size=128, num_local_experts=4, num_logical_experts=4,
        activation=MoEActivation.SILU, device="cpu", routing_method=RoutingMethodType.TopK, moe_parallel_config=alone,
        in_dtype=torch.bfloat16), **changes))


def routed(act: torch.nn.Module, x: Tensor, w1: Tensor, w2: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
    """Each token's experts one by one in fp32, with vLLM's native activation between."""
    out = torch.zeros_like(x, dtype=torch.float32)
    for token, (mine, shares) in enumerate(zip(ids.tolist(), weights.tolist())):
        for one, share in zip(mine, shares):
            out[token] += share * (w2[one].float() @ act.forward_native((w1[one].float() @ x[token].float())[None])[0])
    return out


def experts(act: torch.nn.Module, fp8_config: type) -> None:
    """vLLM's methods choose our experts, and its FusedMoEKernel runs them: of bf16, and of fp8 with scales of 128 x 128."""
    from vllm.model_executor.layers.fused_moe.activation import MoEActivation
    from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts
    from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod
    x, w1, w2 = (torch.randn(*shape).bfloat16() / 8 for shape in ((5, 128), (4, 256, 128), (4, 128, 128)))
    weights, ids = torch.randn(5, 4).softmax(-1).topk(2)
    wanted = routed(act, x, w1, w2, ids, weights)
    layer = SimpleNamespace(w13_weight=torch.nn.Parameter(w1, False), w2_weight=torch.nn.Parameter(w2, False),
                            moe_config=moe_config(), _expert_routing_tables=lambda: None, activation=MoEActivation.SILU,
                            apply_router_weight_on_input=False,
                            global_num_experts=4, expert_map=None)
    method = UnquantizedFusedMoEMethod(layer.moe_config)
    method._init_moe_kernel(layer)
    assert type(method.moe_kernel.fused_experts).__name__ == "MimwExperts"
    found = method.forward_cuda(layer, x, weights, ids.int(), None, None)
    same("moe of bf16 by vLLM's FusedMoEKernel", found.float(), wanted, 2e-3)
    for name, changes in dict(biases=dict(has_bias=True), LoRA=dict(is_lora_enabled=True),
                              activation=dict(activation=MoEActivation.GELU)).items():
        assert UnquantizedFusedMoEMethod(moe_config(**changes)).experts_cls.__name__ == "TritonExperts", name
    print("moe with biases, LoRA or GELU: vLLM's TritonExperts")

    config = fp8_config(weight_block_size=[128, 128])
    quantised = RoutedExperts.__new__(RoutedExperts)
    torch.nn.Module.__init__(quantised)
    quantised.moe_config = layer.moe_config
    method = config.get_quant_method(quantised, "experts")
    assert method.experts_cls.__name__ == "MimwExperts", method.experts_cls
    halves = {}
    for name, w in dict(w13=w1, w2=w2).items():
        blocks = w.float().unflatten(1, (-1, 128)).unflatten(3, (-1, 128))
        scale = blocks.abs().amax((2, 4)) / 448
        e4m3 = (blocks / scale[:, :, None, :, None]).to(torch.float8_e4m3fn)
        halves[name] = (e4m3.float() * scale[:, :, None, :, None]).flatten(3).flatten(1, 2)
        setattr(layer, f"{name}_weight", torch.nn.Parameter(e4m3.flatten(3).flatten(1, 2), False))
        setattr(layer, f"{name}_weight_scale_inv", torch.nn.Parameter(scale, False))
    layer.w13_input_scale = layer.w2_input_scale = None
    method._init_moe_kernel(layer)
    found = method.apply(layer, x, weights, ids.int(), None, None)
    same("moe of fp8 by vLLM's FusedMoEKernel", found.float(), routed(act, x, halves["w13"], halves["w2"], ids, weights), 3e-2)


def paged_attention(fp8: bool) -> None:
    """vLLM's builder and layer with our rows, after vLLM's writing into the cache, for which a line of torch stands."""
    from vllm.v1.attention.backend import CommonAttentionMetadata
    from vllm.v1.attention.backends import flash_attn
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    def write(key, value, keys, values, slots, kind, k_scale, v_scale):
        for new, cache, scale in ((key, keys, k_scale), (value, values, v_scale)):
            new = (new[:len(slots)] / scale).to(torch.float8_e4m3fn).view(torch.uint8) if fp8 else new[:len(slots)]
            cache[slots // cache.shape[1], slots % cache.shape[1]] = new

    flash_attn.reshape_and_cache_flash = write
    backend = AttentionBackendEnum.CUSTOM.get_class()
    heads, kv_heads, dim, page, lengths, queries = 4, 2, 32, 16, [40, 7, 30, 50], [1, 1, 5, 50]
    kind = "fp8" if fp8 else "auto"
    impl = backend.get_impl_cls()(heads, dim, 0.2, kv_heads, None, 24, kind, 5.0, "decoder", None, None)
    given = cached(lengths, queries, heads, kv_heads, dim, page, torch.float32)
    spec = FullAttentionSpec(block_size=page, num_kv_heads=kv_heads, head_size=dim, dtype=torch.float32)
    nothing = SimpleNamespace(has_full_cudagraphs=lambda: False)
    config = SimpleNamespace(
        model_config=SimpleNamespace(get_num_attention_heads=lambda _: heads, rswa_window=None, is_mm_prefix_lm=False,
                                     hf_config=SimpleNamespace(model_type="llama")),
        parallel_config=SimpleNamespace(cp_kv_cache_interleave_size=1, decode_context_parallel_size=1), cache_config=None,
        compilation_config=SimpleNamespace(cudagraph_mode=nothing, max_cudagraph_capture_size=None, static_forward_context={}),
        attention_config=None, kernel_config=SimpleNamespace(enable_jit_warmup=False), speculative_config=None)
    builder = backend.get_builder_cls()(spec, [], config, torch.device("cpu"))
    starts = torch.tensor(given.starts, dtype=torch.int32)
    common = CommonAttentionMetadata(
        query_start_loc=starts, query_start_loc_cpu=starts, seq_lens=torch.tensor(lengths, dtype=torch.int32),
        num_reqs=len(lengths), num_actual_tokens=given.starts[-1], max_query_len=max(queries), max_seq_len=max(lengths),
        block_table_tensor=given.table,
        slot_mapping=given.slots, seq_lens_cpu_upper_bound=torch.tensor(lengths))
    metadata = builder.build(0, common)
    cache, layer = given.cache, SimpleNamespace(_k_scale=torch.tensor(0.02), _v_scale=torch.tensor(0.03))
    if fp8:
        wide, cache = cache, torch.empty(cache.shape, dtype=torch.uint8)
        for part, scale in zip(range(2), (layer._k_scale, layer._v_scale)):
            half = slice(part * dim, (part + 1) * dim)
            cache[..., half] = (wide[..., half] / scale).to(torch.float8_e4m3fn).view(torch.uint8)
    impl.do_kv_cache_update(layer, given.k, given.v, cache, given.slots)
    out = torch.zeros_like(given.q)
    impl.forward(layer, given.q, given.k, given.v, cache, metadata, out)
    if fp8:
        cache = torch.cat([one.view(torch.float8_e4m3fn).float() * scale for one, scale in zip(
            cache.split(dim, -1), (layer._k_scale, layer._v_scale))], -1)
    wanted = attention(given, cache, scale=0.2, left=23, softcap=5.0)
    same(f"attention on pages, {kind}: window, soft cap, two that decode, two prompts", out[:given.starts[-1]], wanted,
         2e-2 if fp8 else 1e-5)


def refusals() -> None:
    """vLLM's questions and the reasons that it reads."""
    from vllm.platforms.interface import DeviceCapability
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    backend = AttentionBackendEnum.CUSTOM.get_class()
    asked = dict(head_size=128, dtype=torch.bfloat16, kv_cache_dtype="auto", block_size=16, use_mla=False, has_sink=False,
                 use_sparse=False, use_mm_prefix=False, use_per_head_quant_scales=False, device_capability=DeviceCapability(9, 0),
                 attn_type="decoder", has_sliding_window=True)
    assert not backend.validate_configuration(**asked)
    for changes in (dict(head_size=512), dict(use_mla=True), dict(attn_type="encoder_only"), dict(use_dcp=True), dict(block_size=8),
                    dict(device_capability=DeviceCapability(10, 0)), dict(kv_cache_dtype="fp8_e5m2"),
                    dict(use_batch_invariant=True),
                    dict(kv_cache_dtype="float16"), dict(use_non_causal=True), dict(use_rswa=True), dict(use_mm_prefix=True)):
        reasons = backend.validate_configuration(**asked | changes)
        assert reasons, changes
        print(f"{changes}: refused, {reasons}")


def main(unpacked: str) -> None:
    stub(*STUBBED)
    sys.path.append(unpacked)
    os.environ.pop("MIMW_VLLM", None)
    import vllm.model_executor.kernels.linear  # noqa: F401
    import vllm.model_executor.layers.quantization.fp8  # noqa: F401
    from vllm.config import CompilationConfig, VllmConfig, set_current_vllm_config
    from vllm.model_executor.layers.activation import SiluAndMul
    from vllm.model_executor.layers.quantization import get_quantization_config
    from vllm.platforms import current_platform as platform
    from vllm.platforms.interface import DeviceCapability
    from vllm.v1.attention.backends import flash_attn
    from vllm.v1.worker.workspace import init_workspace_manager

    from mimw.integrations import vllm as adaptors
    print("registered:", *adaptors.register())
    platform.device_type = "cpu"
    with set_current_vllm_config(VllmConfig(compilation_config=CompilationConfig(custom_ops=["all"]))):
        layers()
        act, fp8_config = SiluAndMul(), get_quantization_config("fp8")
        platform.is_cuda = platform.is_cuda_alike = lambda: True
        platform.is_device_capability_family = platform.is_device_capability = lambda capability, device_id=0: capability == 90
        platform.supports_fp8 = lambda: True
        platform.device_name = "sm_90"
        platform.get_device_capability = lambda device_id=0: DeviceCapability(9, 0)
        flash_attn.get_flash_attn_version = lambda **given: 2
        flash_attn.flash_attn_supports_kv_cache_dtype = lambda *args, **given: True
        flash_attn.flash_attn_supports_quant_query_input = lambda: True
        torch.accelerator.empty_cache = lambda: None
        init_workspace_manager(torch.device("cpu"))
        experts(act, fp8_config)
        refusals()
        for fp8 in (False, True):
            paged_attention(fp8)


if __name__ == "__main__":
    main(*sys.argv[1:])
