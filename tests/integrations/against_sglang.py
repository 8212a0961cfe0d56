"""Our hooks around SGLang's own functions, on the CPU: what `tests/integrations/test_sglang.py` does with a record, with SGLang.

Input: a folder with the unpacked wheel of SGLang 0.5.23. Output: a line for each comparison with SGLang's native functions or with
torch; it fails at the first that differs. Not a part of the tests: it imports SGLang, with stubs for packages that these functions
do not use. Needed besides, in this Python: transformers, pydantic, orjson, dill, pillow, starlette, openai, httpx, msgspec. For
example:

    pip download --no-deps sglang==0.5.23 && unzip -q sglang-0.5.23-*.whl -x "*.so" -d unpacked
    python -m tests.integrations.against_sglang unpacked
"""

import os
import sys
from types import SimpleNamespace

import torch

from .attention_reference import attention, cached
from .native_layers import compare, same
from .stubs import stub

STUBBED = ("pybase64", "zmq", "IPython", "torchvision", "aiohttp", "sentencepiece", "tvm_ffi", "partial_json_parser", "sgl_kernel")


def layers() -> None:
    """The methods for CUDA give what the native ones do."""
    from sglang.srt.layers.activation import SiluAndMul
    from sglang.srt.layers.layernorm import RMSNorm
    from sglang.srt.layers.rotary_embedding.base import RotaryEmbedding
    stub("vllm")        # whose kernel a rotary embedding looks for where there is no GPU
    compare(RMSNorm(64), SiluAndMul(), lambda neox: RotaryEmbedding(16, 8, 32, 10000, neox, torch.float32))


def experts() -> None:
    """`fused_experts` gives what `fused_moe_forward_native` does, in place or not."""
    from sglang.srt.layers.moe.fused_moe_native import fused_moe_forward_native
    from sglang.srt.layers.moe.moe_runner.base import MoeRunnerConfig
    from sglang.srt.layers.moe.moe_runner.triton_utils import fused_moe
    x, w1, w2 = (torch.randn(*shape).bfloat16() / 8 for shape in ((5, 64), (4, 64, 64), (4, 64, 32)))
    weights, ids = torch.randn(5, 4).softmax(-1).topk(2)
    config = MoeRunnerConfig(num_experts=4, num_local_experts=4, inplace=False)
    layer = SimpleNamespace(w13_weight=w1.float(), w2_weight=w2.float(), moe_runner_config=config)
    given = SimpleNamespace(hidden_states=x.float(), topk_output=(weights, ids, None))
    native = fused_moe_forward_native(layer, given).hidden_states
    same("moe", fused_moe.fused_experts(x, w1, w2, (weights, ids.int(), None), config).float(), native, 2e-3)
    within = x.clone()
    scaled = MoeRunnerConfig(num_experts=4, num_local_experts=4, routed_scaling_factor=2.5)
    assert fused_moe.fused_experts(within, w1, w2, (weights, ids.int(), None), scaled) is within
    same("moe, in place and scaled", within.float(), 2.5 * native, 5e-3)


def decoding() -> None:
    """`forward_decode` of the backend, with a cache that the step's keys are in."""
    from sglang.srt.layers.attention.flashattention_backend import FlashAttentionBackend
    given = cached([40, 7, 30], [1, 1, 1], 4, 2, 16, 16, torch.bfloat16)
    backend = object.__new__(FlashAttentionBackend)
    k, v = given.cache.transpose(1, 2).split(16, -1)
    lengths = torch.tensor(given.lengths, dtype=torch.int32)
    vars(backend).update(
        use_mla=False, fa_impl_ver=3, local_attn_builder=None, topk=0, kv_cache_is_mxfp8=False, use_sliding_window_kv_pool=False,
        is_prefill_aware_swa=False, _decode_uses_static_max_seqlen_k=False, decode_num_splits=0, num_splits=0,
        kv_cache_dtype_str="auto", forward_metadata=SimpleNamespace(
            local_attn_metadata=None, page_table=given.table, cache_seqlens_int32=lengths, max_seq_len_q=1,
            cu_seqlens_q=torch.arange(4, dtype=torch.int32), scheduler_metadata=None, pa_swa_page_table=None))
    backend.get_paged_mha_kv_cache = lambda layer, **more: (k, v)
    layer = SimpleNamespace(sliding_window_size=9, attn_type="decoder", is_cross_attention=False, tp_q_head_num=4, tp_k_head_num=2,
                            head_dim=16, v_head_dim=16, scaling=0.3, logit_cap=5.0, layer_id=0)
    out = backend.forward_decode(given.q[:3].flatten(1), None, None, layer, SimpleNamespace(spec_info=None, batch_size=3))
    wanted = attention(given, given.cache, scale=0.3, left=9, softcap=5.0)
    same("decoding: window and soft cap", out.view(3, 4, 16).float(), wanted.float(), 1e-2)


def main(unpacked: str) -> None:
    import transformers.utils.import_utils as optional
    optional.is_torchvision_available = optional.is_torchvision_greater_or_equal = lambda *given, **named: False
    stub(*STUBBED)
    sys.path.append(unpacked)
    os.environ.pop("MIMW_SGLANG", None)
    from sglang.srt.plugins.hook_registry import HookRegistry

    from mimw.integrations import sglang as adaptors
    print("registered:", *adaptors.register())
    HookRegistry.apply_hooks()
    assert HookRegistry._patched == {target for hooks in adaptors.HOOKS.values() for target in hooks}
    layers()
    experts()
    decoding()


if __name__ == "__main__":
    main(*sys.argv[1:])
