"""Products of real models: 60 shapes, each with the model, the layer and the source of its extents.

Input: nothing. Output: SHAPES, by name:

    SHAPES["deepseek-v3 latents prefill bf16"]      Shape(m=4096, n=2112, k=7168, dtype="bf16", ..)

Extents are those of the models' published `config.json` (Hugging Face, the repository that LAYERS names). A layer of queries, keys
and values is one product of (heads + 2 kv heads) x head dim columns; gate and up are one product of twice the intermediate size.
Weights lie as a linear layer has them, (N, K), and are not divided among GPUs. Prefill is 4096 tokens at a time; an expert
gets the tokens that a router without preference sends it: 4096 x 2 / 8 with Mixtral, 16384 x 4 / 128 with gpt-oss. Decode is a
batch of sequences with one token each.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """`n` columns and depth `k` of a product of `model`; `prefill`, the rows that it has there."""

    model: str
    name: str
    n: int
    k: int
    source: str
    prefill: int = 4096


@dataclass(frozen=True)
class Shape:
    """A product of (m, k) by (k, n)."""

    layer: Layer
    phase: str
    m: int
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.layer.model} {self.layer.name} {self.phase} {self.dtype}"

    @property
    def extents(self) -> tuple[int, int, int]:
        return self.m, self.layer.n, self.layer.k


# hidden 4096, 32 heads and 8 of keys, head dim 128, intermediate 14336
_LLAMA_8B = "meta-llama/Llama-3.1-8B"
# hidden 8192, 64 heads and 8 of keys, head dim 128, intermediate 28672
_LLAMA_70B = "meta-llama/Llama-3.1-70B"
# hidden 5120, 64 heads and 8 of keys, head dim 128, intermediate 25600
_QWEN_32B = "Qwen/Qwen3-32B"
# hidden 7168, 128 heads, q_lora_rank 1536, kv_lora_rank 512, qk_nope 128, qk_rope 64, v 128; shared expert of 2048
_DEEPSEEK = "deepseek-ai/DeepSeek-V3"
# hidden 4096, intermediate 14336, 8 experts, 2 a token
_MIXTRAL = "mistralai/Mixtral-8x7B-v0.1"
# hidden 2880, intermediate 2880, 64 heads and 8 of keys, head dim 64, 128 experts, 4 a token
_GPT_OSS = "openai/gpt-oss-120b"

LAYERS = (
    Layer("llama3-8b", "qkv", 6144, 4096, _LLAMA_8B), Layer("llama3-8b", "out", 4096, 4096, _LLAMA_8B),
    Layer("llama3-8b", "gate-up", 28672, 4096, _LLAMA_8B), Layer("llama3-8b", "down", 4096, 14336, _LLAMA_8B),
    Layer("llama3-70b", "qkv", 10240, 8192, _LLAMA_70B), Layer("llama3-70b", "out", 8192, 8192, _LLAMA_70B),
    Layer("llama3-70b", "gate-up", 57344, 8192, _LLAMA_70B), Layer("llama3-70b", "down", 8192, 28672, _LLAMA_70B),
    Layer("qwen3-32b", "qkv", 10240, 5120, _QWEN_32B), Layer("qwen3-32b", "out", 5120, 8192, _QWEN_32B),
    Layer("qwen3-32b", "gate-up", 51200, 5120, _QWEN_32B), Layer("qwen3-32b", "down", 5120, 25600, _QWEN_32B),
    Layer("deepseek-v3", "latents", 2112, 7168, _DEEPSEEK), Layer("deepseek-v3", "queries", 24576, 1536, _DEEPSEEK),
    Layer("deepseek-v3", "keys", 32768, 512, _DEEPSEEK), Layer("deepseek-v3", "out", 7168, 16384, _DEEPSEEK),
    Layer("deepseek-v3", "gate-up", 4096, 7168, _DEEPSEEK), Layer("deepseek-v3", "down", 7168, 2048, _DEEPSEEK),
    Layer("mixtral", "gate-up", 28672, 4096, _MIXTRAL, 1024), Layer("mixtral", "down", 4096, 14336, _MIXTRAL, 1024),
    Layer("gpt-oss", "qkv", 5120, 2880, _GPT_OSS), Layer("gpt-oss", "out", 2880, 4096, _GPT_OSS),
    Layer("gpt-oss", "gate-up", 5760, 2880, _GPT_OSS, 512), Layer("gpt-oss", "down", 2880, 2880, _GPT_OSS, 512),
)

# which layers are measured in which phase and type: 24 + 12 + 16 + 8
_FP8_PREFILL = (*(layer for layer in LAYERS if layer.model in ("llama3-70b", "deepseek-v3")), LAYERS[9], LAYERS[18])
_DECODE = {16: LAYERS[:4] + LAYERS[8:12], 64: LAYERS[4:8], 128: LAYERS[12:16]}
_FP8_DECODE = {64: LAYERS[4:8], 128: LAYERS[12:16]}

SHAPES = {shape.name: shape for shape in (
    *(Shape(layer, "prefill", layer.prefill, "bf16") for layer in LAYERS),
    *(Shape(layer, "prefill", layer.prefill, "fp8") for layer in _FP8_PREFILL),
    *(Shape(layer, "decode", rows, "bf16") for rows, layers in _DECODE.items() for layer in layers),
    *(Shape(layer, "decode", rows, "fp8") for rows, layers in _FP8_DECODE.items() for layer in layers))}
