"""How much work a row of docs/performance.md is: operations, and bytes that cross the memory at least.

Input: a row. Output: (floating-point operations, bytes). For example:

    product(row)            2 M N K of a GEMM, and its operands and result
    norm(row)               no product, x read and y written
"""

from __future__ import annotations

from benchmarks.attention_sinks import operations
from mimw.kernels.attention.configs import value_dim

from .performance_rows import Row

SIZES = {"bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4, "fp8": 1}


def product(row: Row) -> tuple[float, float]:
    """Matrices of M x K by K x N, perhaps G or B of them."""
    m, n, k = (row.shape[name] for name in "MNK")
    many = row.shape.get("G", row.shape.get("B", 1))
    size = next((size for name, size in SIZES.items() if name in row.name), 2)
    return 2.0 * many * m * n * k, many * (size * (m * k + k * n) + max(size, 2.0) * m * n)


def collective(row: Row) -> tuple[float, float]:
    """No operations that count; the bytes that leave a GPU, and as many come in. All-reduce sends and gathers parts of sums."""
    ranks = row.shape["ranks"]
    return 0.0, (2.0 if row.name.startswith("all_reduce") else 1.0) * row.shape["bytes"] * (ranks - 1) / ranks


def of_experts(row: Row) -> tuple[float, float]:
    """No operations that count; a row for each token and other GPU that has experts of it."""
    return 0.0, float(row.shape["bytes"])


def product_of_ranks(row: Row) -> tuple[float, float]:
    """One GPU's part: of a gathered A all M rows, of sums K / gpus of the inner extent."""
    m, n, k = (row.shape[name] for name in "MNK")
    k = k if "gather" in row.name else k // row.shape["gpus"]
    return 2.0 * m * n * k, 2.0 * (m * k + k * n + m * n)


def attention(row: Row) -> tuple[float, float]:
    """Two products; of causal ones half; five for the gradients."""
    shape, size = row.shape, 2
    share = (0.5 if "causal" in row.name else 1.0) * (2.5 if "backward" in row.name else 1.0)
    heads = shape["heads"] + shape.get("kv_heads", shape["heads"])
    widths = shape["dim"] + value_dim(shape["dim"])
    moved = size * shape["batch"] * shape["seq"] * widths * heads * (2.0 if "backward" in row.name else 1.0)
    return 2.0 * shape["batch"] * shape["heads"] * shape["seq"]**2 * widths * share, moved


def attention_of_ranks(row: Row) -> tuple[float, float]:
    """One GPU's part: all ranks have the same."""
    flops, moved = attention(row)
    return flops / row.shape["gpus"], moved / row.shape["gpus"]


def norm(row: Row) -> tuple[float, float]:
    """x and y, or x, dy and dx, of 2 bytes."""
    return 0.0, (6.0 if "backward" in row.name else 4.0) * row.shape["B"] * row.shape["N"]


def cross_entropy(row: Row) -> tuple[float, float]:
    """Logits read, and where there is a gradient written."""
    return 0.0, (2.0 if "forward" in row.name else 4.0) * row.shape["B"] * row.shape["N"]


def linear_cross_entropy(row: Row) -> tuple[float, float]:
    """One product, or three, of tokens, hidden and classes; inputs read, and gradients written."""
    tokens, hidden, classes = (float(row.shape[name]) for name in ("tokens", "hidden", "classes"))
    train = "-train-" in row.name
    return (6.0 if train else 2.0) * tokens * hidden * classes, (4.0 if train else 2.0) * (tokens + classes) * hidden


def rope(row: Row) -> tuple[float, float]:
    shape = row.shape
    return 0.0, 4.0 * shape["batch"] * shape["length"] * (shape["heads"] + shape["kv_heads"]) * shape["dim"]


def topk(row: Row) -> tuple[float, float]:
    return 0.0, (2.0 if "fp16" in row.name else 4.0) * row.shape["M"] * row.shape["N"]


def simplicial(row: Row) -> tuple[float, float]:
    """Two products for each head and pair of keys in windows of 512 and 32, five for the gradients; q, o and gradients."""
    heads, dim, back = 64, 128, "backward" in row.name
    pairs = sum(min(i + 1, 512) * min(i + 1, 32) for i in range(row.shape["seq"]))
    return (10.0 if back else 4.0) * dim * heads * pairs, (8.0 if back else 4.0) * heads * dim * row.shape["seq"]


def sparse_mla(row: Row) -> tuple[float, float]:
    """Both products of 4096 queries of 128 heads with 2048 listed rows of 576 columns, 512 of them values."""
    return 2.0 * 4096 * 128 * 2048 * (576 + 512), 2.0 * (row.shape["rows"] * 576 + 4096 * 128 * (576 + 512))


def indexer(row: Row) -> tuple[float, float]:
    """The products of 64 heads of 128 columns with the keys that each query looks at; keys with scales, queries and scores."""
    shape, size = row.shape, 2 if "bf16" in row.name else 1
    of_a_sequence = shape["keys"] * (128.0 * size + 4) + shape["queries"] * 64 * (128 * size + 4)
    return 2.0 * 64 * 128 * shape["pairs"], shape["sequences"] * of_a_sequence + 4 * shape["pairs"]


def sinks(row: Row) -> tuple[float, float]:
    """As attention_sinks.py counts; q and o, of 64 heads, and k and v, of 8, and backward all of them twice more."""
    return operations(row), (3.0 if "both" in row.name else 1.0) * 2 * row.shape["seq"] * row.shape["dim"] * 2 * (64 + 8)


def mla_decode(row: Row) -> tuple[float, float]:
    """Both products of all heads and queries with each key, and the rows of the cache."""
    return float(row.shape["operations"]), float(row.shape["bytes"])


def linear_attention(row: Row) -> tuple[float, float]:
    """q, k, v and o of 2 bytes, with the gates and betas; with gradients q, k, v and the gradient of o read once more, and three
    gradients written."""
    shape, by_key = row.shape, any(f"-{family}-" in row.name for family in ("kda", "gla"))
    rows = 2.0 * shape["batch"] * shape["rows"] * shape["heads"]
    passes = 3 if "-training" in row.name else 1
    return 0.0, rows * (shape["columns"] * (4.0 + by_key) * passes + 2)


def linear_attention_step(row: Row) -> tuple[float, float]:
    """States of 32 heads of 128 x 128 in fp32, read and written."""
    return 0.0, 8.0 * row.shape["sequences"] * 32 * 128**2


def moe_align(row: Row) -> tuple[float, float]:
    return 0.0, 12.0 * row.shape["tokens"]


def experts(row: Row) -> tuple[float, float]:
    """Both products; the matrices of the experts that tokens are expected to choose, tokens and results."""
    tokens, experts, k, hidden, inner = (row.shape[name] for name in ("tokens", "experts", "k", "hidden", "inner"))
    read = experts * (1 - (1 - k / experts)**tokens)
    return 6.0 * tokens * k * hidden * inner, (1 if "fp8" in row.name else 2) * 3.0 * read * hidden * inner + 4.0 * tokens * hidden


def layer(row: Row) -> tuple[float, float]:
    """As `experts`, one GPU's share: its experts' rows of all ranks' tokens, as many as the own tokens have choices."""
    tokens, experts, k, hidden, inner, ranks = (row.shape[name] for name in ("tokens", "experts", "k", "hidden", "inner", "ranks"))
    read = experts / ranks * (1 - (1 - k / experts)**(tokens * ranks))
    return 6.0 * tokens * k * hidden * inner, 6.0 * read * hidden * inner + 4.0 * tokens * hidden


def varlen(row: Row) -> tuple[float, float]:
    """As `attention`: pairs of queries and keys that see each other, of all sequences."""
    shape, way = row.shape, 2.5 if "backward" in row.name else 1.0
    widths = shape["dim"] + value_dim(shape["dim"])
    moved = 2.0 * widths * (shape["queries"] * shape["heads"] + shape["keys"] * shape["kv_heads"])
    return 2.0 * shape["heads"] * shape["pairs"] * widths * way, moved * (2 if "backward" in row.name else 1)


def decode(row: Row) -> tuple[float, float]:
    """Keys and values read once."""
    return 0.0, float(row.shape["bytes"])
