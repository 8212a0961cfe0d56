"""The part "Speed" of an operator's page: its lines of the table against the peers, and links to its rows in docs/performance.md.

    lines("matmul", "../performance.md")    a table, with a chip, versions and dates, and links to the sections
    short("matmul")                         "1.00 to 1.05 cuBLAS, ..."

Input: the title of a page, the way to docs/performance.md. Output: lines of Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from docs.support import peers

# Operator -> names in the table against the peers, sections of docs/performance.md.
MEASURED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "matmul": (("GEMM, bf16, fp16, tf32", "GEMM, fp8", "GEMM of few rows"), ("GEMM", "GEMM, fp8", "Few rows", "Batches")),
    "addmm": ((), ("What a GEMM does on the way out", )),
    "scaled_mm": ((), ("Scales of blocks", )),
    "grouped_matmul": (("grouped GEMM", ), ("Groups", )),
    "gather_matmul_scatter": ((), ("gather_matmul_scatter", )),
    "attention": (("attention, forward", "attention, backward"),
                  ("Attention, forward", "Attention, backward", "Attention with sinks")),
    "attention_varlen": (("attention, packed sequences", ), ("Attention, packed sequences", )),
    "attention_decode": (("attention, decoding", ), ("Attention, decoding", )),
    "simplicial_attention": (("2-simplicial attention", ), ("2-simplicial attention", )),
    "linear_attention": (("linear attention", ), ("Linear attention", )),
    "linear_attention_step": (("linear attention", ), ("Linear attention, one token", )),
    "mla_decode": ((), ("MLA decoding", )),
    "sparse_mla": ((), ("Sparse MLA", )),
    "lightning_indexer": ((), ("Lightning indexer", )),
    "lightning_indexer_decode": ((), ("Lightning indexer", )),
    "layer_norm": (("layer norm, RMS norm", ), ("Norms", )),
    "rms_norm": (("layer norm, RMS norm", ), ("Norms", )),
    "softmax": (("softmax", ), ("Softmax", )),
    "log_softmax": (("softmax", ), ("Softmax", )),
    "cross_entropy": (("cross entropy", ), ("Cross entropy", )),
    "linear_cross_entropy": ((), ("Last layer and cross entropy", )),
    "rope": (("rotary embedding", ), ("Rotary embedding", )),
    "topk": (("top-k", ), ("Top-k", )),
    "topk_selector": ((), ("Top-k selector", )),
    "moe": (("mixture of experts, bf16, fp8", ), ("Mixture of experts", "Mixture of experts, fp8")),
    "moe_align": ((), ("MoE alignment", )),
    "distributed.all_reduce": (("all-reduce, 2 GPUs", ), ("Collectives", )),
    "distributed.all_reduce_": (("all-reduce, 2 GPUs", ), ("Collectives", )),
    "distributed.all_gather": (("all-gather, reduce-scatter, 2 GPUs", ), ("Collectives", )),
    "distributed.reduce_scatter": (("all-gather, reduce-scatter, 2 GPUs", ), ("Collectives", )),
    "distributed.all_gather_matmul": (("GEMM with a gather or a sum, 2 GPUs", ), ("Products over several GPUs", )),
    "distributed.matmul_reduce_scatter": (("GEMM with a gather or a sum, 2 GPUs", ), ("Products over several GPUs", )),
    "distributed.matmul_all_reduce": (("GEMM with a gather or a sum, 2 GPUs", ), ("Products over several GPUs", )),
    "distributed.ring_attention": (("attention and its gradients, 2 GPUs", ), ("Attention over several GPUs", )),
    "distributed.moe_dispatch": (("tokens to experts and back, 2 GPUs", ), ("Tokens to experts on other GPUs", )),
    "distributed.moe_combine": (("tokens to experts and back, 2 GPUs", ), ("Tokens to experts on other GPUs", )),
    "distributed.moe": ((), ("A mixture of experts over two GPUs", "A layer of experts in fp8, in micro-batches")),
    "distributed.moe_experts": ((), ("A mixture of experts over two GPUs", )),
    "distributed.moe_dispatch_rows": ((), ("A mixture of experts over two GPUs", )),
}
NOT_BY_ITSELF = "It is not measured by itself."


def standings_of(title: str) -> list[peers.Standing]:
    """Those lines of the table against the peers; a line without a name belongs to the one above."""
    wanted, _ = MEASURED.get(title, ((), ()))
    found, name = [], ""
    for one in peers.standings():
        name = one.peer.operator or name
        found += [one] * (name in wanted)
    return found


def lines(title: str, page: str) -> Iterator[str]:
    """The part of the page."""
    found, (_, sections) = standings_of(title), MEASURED.get(title, ((), ()))
    if found:
        yield from (f"{peers.measured_on()}: time of the peer over ours, in the same run; above 1 we are faster.", "")
        yield from peers.rows_of(found).splitlines()
        yield ""
    linked = ", ".join(f"[{section}]({page}#{anchor(section)})" for section in sections)
    yield from (f"Each row, and what bounds it: {linked}." if sections else NOT_BY_ITSELF, "")


def short(title: str) -> str:
    """The means, for a cell; of several lines against one peer, from the lowest to the highest."""
    means: dict[str, list[str]] = {}
    for one in standings_of(title):
        means.setdefault((one.peer.name or one.peer.baseline).partition(",")[0], []).append(f"{one.mean:.2f}")
    return ", ".join(f"{' to '.join(sorted({min(found), max(found)}))} {peer}" for peer, found in means.items()) or "-"


def anchor(heading: str) -> str:
    """How code hosts, and the site, call a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
