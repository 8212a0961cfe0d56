"""What docs/performance.md says of each operator: which rows, how much work a row is, what bounds it, where the notes are.

Input: a row's shape. Output: operations and bytes. For example:

    SECTIONS[0].work(row)           (floating-point operations, bytes that cross the memory)

Bytes are the least there is to move: each operand once and each result once. Files that no section names get one of their own at
the end of the page, without a ceiling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .performance_rows import Row

Work = Callable[[Row], tuple[float, float]]
SIZES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1}


@dataclass(frozen=True)
class Section:
    """`starts` of the rows' names; `goal` against the best of `against`; `curves`: charts and where their rows' names start."""

    title: str
    command: str
    files: tuple[str, ...]
    starts: str
    work: Work
    unit: str
    bound: str
    against: tuple[str, ...] = ()
    goal: float = 1.0
    kind: str = "bf16"
    curves: tuple[tuple[str, str], ...] = ()


def product(row: Row) -> tuple[float, float]:
    """Matrices of M x K by K x N, perhaps G or B of them."""
    m, n, k = (row.shape[name] for name in "MNK")
    many = row.shape.get("G", row.shape.get("B", 1))
    size = next((size for name, size in SIZES.items() if name in row.name), 2)
    return 2.0 * many * m * n * k, many * (size * (m * k + k * n) + 2.0 * m * n)


def attention(row: Row) -> tuple[float, float]:
    """Two products; of causal ones half; five for the gradients."""
    shape, size = row.shape, 2
    share = (0.5 if "causal" in row.name else 1.0) * (2.5 if "backward" in row.name else 1.0)
    heads = shape["heads"] + shape.get("kv_heads", shape["heads"])
    moved = size * shape["batch"] * shape["seq"] * shape["dim"] * 2.0 * heads * (2 if "backward" in row.name else 1)
    return 4.0 * shape["batch"] * shape["heads"] * shape["seq"]**2 * shape["dim"] * share, moved


def norm(row: Row) -> tuple[float, float]:
    """x and y, or x, dy and dx, of 2 bytes."""
    return 0.0, (6.0 if "backward" in row.name else 4.0) * row.shape["B"] * row.shape["N"]


def cross_entropy(row: Row) -> tuple[float, float]:
    """Logits read, and where there is a gradient written."""
    return 0.0, (2.0 if "forward" in row.name else 4.0) * row.shape["B"] * row.shape["N"]


def rope(row: Row) -> tuple[float, float]:
    shape = row.shape
    return 0.0, 4.0 * shape["batch"] * shape["length"] * (shape["heads"] + shape["kv_heads"]) * shape["dim"]


def topk(row: Row) -> tuple[float, float]:
    return 0.0, (2.0 if "fp16" in row.name else 4.0) * row.shape["M"] * row.shape["N"]


def moe_align(row: Row) -> tuple[float, float]:
    return 0.0, 12.0 * row.shape["tokens"]


def experts(row: Row) -> tuple[float, float]:
    """Both products; the matrices of the experts that tokens are expected to choose, tokens and results."""
    tokens, experts, k, hidden, inner = (row.shape[name] for name in ("tokens", "experts", "k", "hidden", "inner"))
    read = experts * (1 - (1 - k / experts)**tokens)
    return 6.0 * tokens * k * hidden * inner, (1 if "fp8" in row.name else 2) * 3.0 * read * hidden * inner + 4.0 * tokens * hidden


POWER = ("The tensor cores at the rate that 700 W sustain with normal numbers: 0.68 of what they do at 1980 MHz (`power` in "
         "src/mimw/costs/sm_90a.toml)")

SECTIONS = (
    Section("GEMM", "python -m benchmarks.gemm", ("gemm-bf16", "gemm-fp16"), "gemm-", product, "TFLOP/s",
            f"{POWER}. What is above that ceiling ran before the clock fell. A tile of 128 x 128 reads 1/64 byte of L2 an "
            f"operation; "
            "larger tiles read less and hide less of their epilogue, so ping-pong wins where K is short and cooperative 256 x "
            "128 at "
            "GH6 (NOTES, \"GEMM\").", ("cuBLAS", ), 1.05, curves=(("gemm", "gemm-bf16-GH"), )),
    Section("GEMM, fp8", "python -m benchmarks.gemm --dtype fp8", ("gemm-fp8", ), "gemm-", product, "TFLOP/s",
            f"{POWER}, twice the rate of bf16.", ("cuBLAS", ), 1.03, "fp8"),
    Section("What a GEMM does on the way out", "python -m benchmarks.gemm_epilogue", ("gemm_epilogue", ), "gemm_epilogue-", product,
            "TFLOP/s", "As the GEMM. A bias costs 0.5 us an output tile, a residual 3 us, at any K: where K is short, L2 is what "
            "bounds it (NOTES, \"What the GEMM does on the way out\").", ("torch", ), 1.0),
    Section("Groups", "python -m benchmarks.grouped_gemm", ("grouped_gemm", ), "grouped_gemm-", product, "TFLOP/s",
            "Large groups as the GEMM; with 128 rows and fewer a group, the bytes of the weights.", ("torch", ), 1.1,
            curves=(("grouped", "grouped_gemm-"), )),
    Section("Batches", "python -m benchmarks.batched_gemm", ("batched_gemm", ), "batched_gemm-", product, "TFLOP/s",
            "As the GEMM; of K = 128 the stores.", ("torch", ), 1.0),
    Section("Few rows", "python -m benchmarks.skinny_gemm", ("skinny_gemm", ), "skinny_gemm-", product, "GB/s",
            "The bytes of the weights. 16 us of each launch are fixed, where cuBLAS has 10 (NOTES, \"Few "
            "rows\").", ("cuBLAS", ), 1.0,
            curves=(("skinny", "skinny_gemm-"), )),
    Section("Scales of blocks", "python -m benchmarks.block_scaled_gemm", ("block_scaled_gemm", ), "block_scaled_gemm-", product,
            "TFLOP/s", f"{POWER}, twice the rate of bf16; each product of a chunk of K is waited for and added up in fp32 "
            f"before its "
            "registers are free (NOTES, \"Scales of blocks\").", ("torch", ), 1.0, "fp8"),
    Section("Attention, forward", "python -m benchmarks.attention", ("attention-bf16", "attention-fp16"), "attention-", attention,
            "TFLOP/s", f"{POWER}. From length 4096 on the clock is 1410 to 1470 MHz and the tensor cores are busy 81 % of the "
            f"time; at "
            "1024 the clock is 1590 MHz and latency decides (NOTES, \"Attention forward\").", ("cuDNN", "FlashAttention"), 1.05,
            curves=(("attention-full", "attention-bf16-full"), ("attention-causal", "attention-bf16-causal"))),
    Section("Attention, backward", "python -m benchmarks.attention "
                                   "--backward", ("attention-backward-bf16", ), "attention-backward-",
            attention, "TFLOP/s", f"{POWER}. dQ, a fifth of the products, takes 35 % of the time: its sums go through shared "
            f"memory and "
            "L2 (NOTES, \"Attention backward\").", ("cuDNN", "FlashAttention"), 1.05,
            curves=(("attention-backward-full", "attention-backward-bf16-full"),
                    ("attention-backward-causal", "attention-backward-bf16-causal"))),
    Section("Norms", "python -m benchmarks.norm", ("norm", ), "", norm, "GB/s",
            "Bytes: x read and y written. Some SMs get 10 to 30 % more of the memory than others, and rows are dealt evenly: "
            "the last "
            "ones have it to themselves. Few rows are bound by their launch (NOTES, \"Norms\").", ("torch", "torch.compile"), 1.1,
            curves=(("layer-norm", "layer_norm-forward-LN"), ("rms-norm", "rms_norm-forward-LN"))),
    Section("Cross entropy", "python -m benchmarks.cross_entropy --kind fused forward "
                             "backward", ("cross_entropy", ), "cross_entropy-",
            cross_entropy, "GB/s", "Bytes: each logit read, and where there is a gradient written, once.",
            ("torch", "torch.compile", "Quack"), 1.0, curves=(("cross-entropy", "cross_entropy-fused"), )),
    Section("Rotary embedding", "python -m benchmarks.rope", ("rope", ), "rope-", rope, "GB/s",
            "Bytes: queries and keys read once and written once.", ("torch", "torch.compile"), 1.0),
    Section("Top-k", "python -m benchmarks.topk", ("topk", ), "topk-", topk, "GB/s",
            "Bytes where rows are long; else the launch and the rounds over digits: some 90 instructions a number, many "
            "around atomics "
            "(NOTES, \"Top-k\").", ("torch", ), 1.5, curves=(("topk", "topk-fp32"), )),
    Section("Mixture of experts", "python -m benchmarks.moe", ("moe-bf16", ), "moe-", experts, "TFLOP/s",
            "Up to some 100 rows an expert the bytes of the matrices that tokens choose; then the tensor cores as in a GEMM, and "
            "rows of padding, half a block an expert (NOTES, \"A mixture of experts\").", ("torch", "triton"), 1.0),
    Section("Mixture of experts, fp8", "python -m benchmarks.moe --fp8", ("moe-fp8", ), "moe-fp8-", experts, "TFLOP/s",
            "As in bf16 with half the bytes, twice the rate, and two launches that quantise rows.", ("triton", ), 1.0, "fp8"),
    Section("MoE alignment", "python -m benchmarks.moe_align", ("moe_align", ), "moe_align-", moe_align, "GB/s",
            "One launch with two barriers of the grid, or a cluster's: latency, not bytes.", ("triton", ), 1.0,
            curves=(("moe-align", "moe_align-grid"), )),
)
