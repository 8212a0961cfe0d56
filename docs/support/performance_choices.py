"""Which configuration the library chooses today for a row of docs/performance.md: a row of another one is said to be so.

Input: a row as a benchmark kept it. Output: whether it is of the configuration that a user gets. For example:

    shipped(row)        True; False of an earlier choice, or of a candidate of a search; None where there is nothing to choose

A field that a row does not have is as by default: the row is older than the field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from benchmarks.attention_varlen import lengths
from mimw.kernels import (
    all_gather_gemm,
    attention,
    attention_backward,
    attention_decode,
    attention_varlen,
    batched_gemm,
    block_scaled_gemm,
    collectives,
    cross_entropy,
    gemm,
    gemm_reduce_scatter,
    grouped_gemm,
    lightning_indexer,
    moe,
    moe_align,
    moe_combine,
    moe_dispatch,
    norm,
    norm_backward,
    simplicial_attention,
    skinny_gemm,
    topk,
    topk_selector,
)

SMS = 132
BYTES = {"bf16": 2, "fp16": 2, "tf32": 4, "fp8": 1}


def of_gemm(name: str, shape: dict) -> Any:
    return gemm.configuration(shape["M"], shape["N"], shape["K"], BYTES[name.split("-")[1]])


def of_epilogue(name: str, shape: dict) -> Any:
    fp8 = "fp8" in name
    return gemm.chosen_for(shape["M"], shape["N"], shape["K"], 1 if fp8 else 2, fp8 and not name.endswith("fast"))


def of_batches(name: str, shape: dict) -> Any:
    m, n, k = (shape[extent] for extent in "MNK")
    return batched_gemm.chosen_for(m, n, k, 2)


def of_norm(name: str, shape: dict) -> Any:
    kind, way, _ = name.split("-")
    if way == "backward":
        return norm_backward.configuration(shape["B"], shape["N"], 2, 2, 2)
    return norm.configuration(shape["B"], shape["N"], 2, kept_bytes=4 if kind == "layer_norm" else 2)


def of_topk(name: str, shape: dict) -> Any:
    m, n, k = (shape[extent] for extent in "MNK")
    return topk_selector.configuration(m, n, k) if topk_selector.streamed(m, n) else topk.configuration(n)


def of_row(name: str, shape: dict) -> int:
    """Bytes of a token's row, scales included."""
    return shape["hidden"] + shape["hidden"] // 32 if "fp8" in name else 2 * shape["hidden"]


def of_collective(name: str, shape: dict) -> Any:
    collective = name.split("-")[0]
    part = shape["bytes"] // (1 if collective == "all_reduce" else shape["ranks"])
    return collectives.configuration(collective, shape["ranks"], part, False)


def of_gradients(name: str, shape: dict) -> attention_backward.Configuration:
    """Of wide heads only the order of programs may be chosen."""
    wide = shape["dim"] > 128
    return attention_backward.Configuration() if wide else attention_backward.configuration(shape["dim"], "causal" in name)


# how a row's name starts -> the configuration of its name and shape; the first that fits counts
CHOICES: dict[str, Callable[[str, dict], Any]] = {
    "gemm_epilogue-": of_epilogue,
    "gemm-": of_gemm,
    "distributed-gemm-gather": lambda name, shape: all_gather_gemm.chosen_for(shape["M"], shape["N"], shape["K"], False),
    "distributed-gemm-": lambda name, shape: gemm_reduce_scatter.chosen_for(shape["M"], shape["N"], shape["K"] // shape["gpus"],
                                                                            "reduce" in name, True, shape["gpus"]),
    "grouped_gemm-": lambda name, shape: grouped_gemm.configuration(shape["G"] * shape["M"], shape["G"]),
    "batched_gemm-": of_batches,
    "skinny_gemm-": lambda name, shape: skinny_gemm.configuration(shape["M"], shape["N"], SMS),
    "block_scaled_gemm-": lambda name, shape: block_scaled_gemm.configuration(shape["M"], shape["N"],
                                                                              "plain" if shape["G"] == 1 else "groups", SMS),
    "attention-backward-": of_gradients,
    "attention-": lambda name, shape: attention.configuration(shape["dim"], "causal" in name),
    "attention_varlen-": lambda name, shape: attention_varlen.configuration(shape["dim"], "causal" in name, False,
                                                                            max(lengths(shape["case"])[0])),
    "indexer-decode": lambda name, shape: lightning_indexer.paged_configuration(64, 128, 1, shape["queries"], 64),
    "indexer-": lambda name, shape: lightning_indexer.configuration(64, 128, 2 if "bf16" in name else 1),
    "attention_decode": lambda name, shape: attention_decode.configuration(shape["dim"],
                                                                           shape["queries"] * shape["heads"] // shape["kv_heads"],
                                                                           0, 1 if shape.get("e4m3") else 2),
    "layer_norm-": of_norm,
    "rms_norm-": of_norm,
    "cross_entropy-fused": lambda name, shape: cross_entropy.configuration(shape["B"], shape["N"], 2),
    "topk-": of_topk,
    "topk_selector": lambda name, shape: topk_selector.configuration(shape["M"], shape["N"], shape["K"]),
    "simplicial_attention": lambda name, shape: simplicial_attention.configuration(128),
    "moe_dispatch-": lambda name, shape: moe_dispatch.chosen_for(shape["tokens"], shape["k"], of_row(name, shape), SMS,
                                                                 shape["ranks"]),
    "moe_dispatch_rows-": lambda name, shape: moe_dispatch.rows_chosen_for(shape["tokens"], of_row(name, shape), SMS,
                                                                          shape["ranks"], shape["k"]),
    "moe_combine-": lambda name, shape: moe_combine.configuration(shape["hidden"], shape["tokens"], SMS, shape["ranks"],
                                                                  True),
    "moe-fp8-": lambda name, shape: moe.scaled_configuration(shape["tokens"] * shape["k"], shape["experts"]),
    "moe-": lambda name, shape: moe.configuration(shape["tokens"] * shape["k"], shape["experts"]),
    **dict.fromkeys((f"{name}-" for name in collectives.COLLECTIVES), of_collective),
    "moe_align-": lambda name, shape: moe_align.configuration(shape["tokens"], shape["experts"]),
}


def shipped(row: dict) -> bool | None:
    """Whether the row, an object of the results, is of the configuration that the library chooses today."""
    choice = next((choice for start, choice in CHOICES.items() if row["name"].startswith(start)), None)
    if choice is None or not row.get("configuration"):
        return None
    chosen, found = choice(row["name"], row["shape"]), row["configuration"]
    usual = asdict(type(chosen)())
    return all(found.get(name, usual[name]) == value for name, value in asdict(chosen).items())
