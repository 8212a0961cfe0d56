"""Attention of new queries on caches: shapes BxQxHxKxLxD of Q queries of H heads on L keys of K heads, `:paged` in pages of 64.

Input: shapes. Output: candidates of `mimw.kernels.attention_decode`. For example:

    mimw tune attention_decode --shapes 8x1x64x8x8192x128 8x1x64x8x8192x128:paged
"""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import numpy as np

from ...kernels import attention_decode
from ...kernels.attention_decode.configs import (
    BLOCK_BYTES,
    FEW_DIM,
    FEW_KEYS,
    FEW_ROWS,
    HEAD_DIMS,
    RING_BYTES,
    ROWS,
    Configuration,
    as_row,
    few_stages,
    tile_of,
)
from ..arrays import blank, empty, normal, relative_error
from ..graphs import graphed
from ..operator import Operator, Problem, Trial

PAGE = 64
OUTSIDE_L2, MOST_CACHES = 256 << 20, 32     # bytes of caches that the calls of a graph go through, and how many at most


class AttentionDecode(Operator):
    """Blocks of half, whole and twice 16 KB, rings that are full or three fifths of that, one unit for each worker at least, or
    two; no stealing of keys, or of an eighth or two of them. Of up to 16 rows also few_rows and few_rows_epilogue,
    with blocks of 64 and 128 keys and two or more of them."""

    name, names, dtypes, words = "attention_decode", ("B", "Q", "H", "K", "L", "D"), ("bf16", "fp16"), ("paged", )
    configuration_type = Configuration
    file = Path(attention_decode.__file__).parent / "configs.json"

    def used(self, problem: Problem, sms: int) -> Configuration | None:
        _, queries, heads, kv_heads, _, dim = problem.extents
        return attention_decode.configuration(dim, queries * heads // kv_heads) if dim <= HEAD_DIMS[-1] else None

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        dim = problem.extents[5]
        if dim > HEAD_DIMS[-1]:
            return []
        dim, rows = tile_of(dim), problem.extents[1] * problem.extents[2] // problem.extents[3]
        streams = 2 if rows <= ROWS else 1
        blocks = {max(16, BLOCK_BYTES * size // (4 * dim)) for size in (1, 2, 4)}
        full = {bn: RING_BYTES[dim] // (streams * bn * dim * 2) for bn in sorted(blocks)}
        few = ((bn, stages, 1, least, drawn, form) for form in (1, 2) for bn in (FEW_KEYS, 2 * FEW_KEYS)
               for stages in range(2, 1 + min(6, few_stages(dim, bn))) for least in (1, 2) for drawn in (0, 1))
        others = ((bn, stages, streams, least, drawn) for bn in full for stages in sorted({full[bn], max(2, full[bn] * 3 // 5)})
                  for least in (1, 2) for drawn in (0, 1, 2))
        return [Configuration(*one) for one in (*(few if rows <= FEW_ROWS and dim <= FEW_DIM else ()), *others)]

    def _arrays(self, problem: Problem, make) -> tuple:
        """(q, k, v, lse), by `make(shape)`."""
        batch, queries, heads, kv_heads, length, dim = problem.extents
        front = (batch * -(-length // PAGE), PAGE) if problem.words else (batch, length)
        return make((batch, queries, heads, dim)), make((*front, kv_heads, dim)), make((*front, kv_heads, dim))

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        q, k, v = self._arrays(problem, lambda shape: empty(shape, problem.dtype))
        batch, queries, heads, kv_heads = problem.extents[:4]
        table = np.zeros((batch, k.shape[0] // batch), np.int32) if problem.words else None
        room = np.empty(attention_decode.room_for(q, kv_heads, sms, chosen), np.float32)
        lse, lengths = np.empty((batch, heads, queries), np.float32), np.zeros(batch, np.int32)
        flags = np.zeros(attention_decode.flags_for(sms, chosen), np.int32)
        return attention_decode.arguments(q, k, v, lengths, q, lse, room, sms, table, chosen=chosen, flags=flags)

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        from torch.nn.functional import scaled_dot_product_attention
        batch, queries, heads, kv_heads, length, dim = problem.extents
        torch.manual_seed(0)
        one = 4 * batch * length * kv_heads * dim
        count = max(2, min(MOST_CACHES, -(-OUTSIDE_L2 // one)))
        made = [self._arrays(problem, lambda shape: normal(shape, problem.dtype)) for _ in range(count)]
        q, caches = made[0][0], [(k, v) for _, k, v in made]
        table = torch.randperm(caches[0][0].shape[0], device="cuda").int().view(batch, -1) if problem.words else None
        lengths = torch.full((batch, ), length, dtype=torch.int32, device="cuda")
        o, lse = blank(tuple(q.shape), problem.dtype), torch.empty(batch, heads, queries, device="cuda")
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        room = torch.empty(attention_decode.room_for(q, kv_heads, sms, chosen), device="cuda")
        flags = torch.zeros(attention_decode.flags_for(sms, chosen), dtype=torch.int32, device="cuda")
        turns = cycle([[kernel.freeze(grid, *args, **meta) for kernel, grid, args, meta in attention_decode.arguments(
            q, k, v, lengths, o, lse, room, sms, table, chosen=chosen, flags=flags)] for k, v in caches])
        others = cycle(caches)

        def run():
            for launch in next(turns):
                launch()

        def torch_call():
            """Call torch on caches in one piece, whatever ours are; torch's mask of several queries is built once a call."""
            k, v = (x.view(batch, -1, kv_heads, dim).transpose(1, 2) for x in next(others))
            return scaled_dot_product_attention(q.transpose(1, 2), k, v, enable_gqa=heads != kv_heads)

        def check() -> float:
            """One head of the first and the last sequence against fp64, on the caches of the graph's last call."""
            k, v = caches[-1]
            errors = []
            for number, head in ((0, 0), (batch - 1, heads - 1)):
                keys, values = (x[number] if table is None else x[table[number].long()].flatten(0, 1) for x in (k, v))
                keys, values = (x[:length, head * kv_heads // heads].double() for x in (keys, values))
                scores = q[number, :, head].double() @ keys.mT / dim**0.5
                last = torch.arange(queries, device="cuda") + length - queries
                scores.masked_fill_(torch.arange(length, device="cuda") > last[:, None], float("-inf"))
                errors.append(relative_error(o[number, :, head], scores.softmax(-1) @ values))
            if not max(errors) < 1e-2:
                raise AssertionError(f"wrong: error {max(errors):.2e} (allowed 1e-2)")
            return max(errors)

        return Trial(graphed(run, count), check, {"torch": graphed(torch_call, count)}, count)

    def rate(self, problem: Problem, microseconds: float) -> str:
        batch, _, _, kv_heads, length, dim = problem.extents
        return f"{4 * batch * length * kv_heads * dim / microseconds / 1e3:.0f} GB/s"

    def row(self, problem: Problem, chosen: Configuration) -> dict:
        _, queries, heads, kv_heads, _, dim = problem.extents
        return as_row(dim, queries * heads // kv_heads, chosen)
