"""A mixture of experts forward, all its launches, against torch's grouped products.

Input: shapes TOKENSxEXPERTSxKxHIDDENxINNER, K experts a token. Output: candidates of `mimw.kernels.moe`. For example:

    mimw tune moe --shapes 64x128x8x2048x768
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np

from ...kernels import moe
from ...kernels.moe import Configuration
from ...kernels.moe.configs import SHARED_BYTES
from ..arrays import bytes_of, empty, normal, relative_error
from ..graphs import graphed
from ..operator import Operator, Problem, Trial

ALLOWED = 8e-3      # relative to the norm: three roundings to bf16 of 2^-9 each, two of them inside of sums
TOKENS = 4          # that are checked against fp64
BLOCKS = (16, 32, 64, 128)


class Moe(Operator):
    """Blocks of half to four times the rows that an expert has; two schedules, small tiles of one consumer and several CTAs an SM,
    or weights as the rows of the products; chunks of 128 bytes and more of a row of weights; rows of tokens copied, or picked by
    TMA."""

    name, names, dtypes = "moe", ("TOKENS", "EXPERTS", "K", "HIDDEN", "INNER"), ("bf16", "fp16")
    configuration_type = Configuration
    file = Path(moe.__file__).parent / "configs.json"

    def used(self, problem: Problem, sms: int) -> Configuration:
        tokens, experts, k, *_ = problem.extents
        return moe.configuration(tokens * k, experts)

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        has = rows_of(problem)
        blocks = [bm for bm in BLOCKS if has / 2 <= bm <= max(16, 4 * has)] or [BLOCKS[-1]]
        found = [Configuration(bm, bn, group_m, 2, 1, True, 0, lines)
                 for bm, bn, group_m, lines in product(blocks, (128, 256), (8, 16), (1, 2)) if bm < 128 or (bn, lines) == (128, 1)]
        found += [Configuration(bm, bn, 8, 1, 1, False, 0, lines, ctas)
                  for bm, bn, lines, ctas in product(blocks, (64, 128), (1, 2, 4), (1, 2))
                  if bm <= 64 and lines * bn <= 256 // ctas]
        found += [Configuration(bm, bn, group_m, 2, staging, False)
                  for bm, bn, group_m, staging in product(blocks, (128, 256), (8, 16), (1, 2)) if bm >= 128]
        found += [Configuration(bm, bn, group_m, lines=lines, ctas=ctas, swapped=True)
                  for bm, bn, group_m, lines, ctas in product(blocks, (64, 128, 256), (1, 8), (1, 2, 4), (1, 2))
                  if bm <= 64 and lines * bn <= 512 // ctas and 128 * lines * (bm + max(bn, 128)) * 3 <= SHARED_BYTES // ctas]
        return found + [Configuration(bm, 256, 8, 2, 1, True, 4) for bm in blocks if bm < 128]

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        """The first product first: it has two thirds of the work."""
        (tokens, experts, k, hidden, inner), dtype = problem.extents, problem.dtype
        room = {name: empty(shape, dtype) if name in ("inner", "rows") else np.zeros(shape, np.int32)
                for name, shape in moe.room_for(tokens, k, experts, inner, hidden, chosen).items()}
        fill(room, problem, chosen)
        x, out, gate_up, down = (empty(shape, dtype) for shape in (
            (tokens, hidden), (tokens, hidden), (experts, 2 * inner, hidden), (experts, hidden, inner)))
        arrays = x, gate_up, down, np.zeros((tokens, k), np.int32), np.zeros((tokens, k), np.float32), out
        found = moe.launches(*arrays, room, sms, chosen)
        return sorted(found, key=lambda launch: launch[0] not in (moe.kernel, moe.few_rows_gemm))

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        (tokens, experts, k, hidden, inner), dtype = problem.extents, problem.dtype
        torch.manual_seed(0)
        x, gate_up, down = (normal(shape, dtype).mul_(scale) for shape, scale in (
            ((tokens, hidden), 1), ((experts, 2 * inner, hidden), hidden**-0.5), ((experts, hidden, inner), inner**-0.5)))
        best = torch.randn(tokens, experts, device="cuda").topk(k)
        ids, weights, out = best.indices.int(), best.values.softmax(1), torch.empty_like(x)
        room = {name: torch.empty(shape, dtype=x.dtype if name in ("inner", "rows") else torch.int32, device="cuda")
                for name, shape in moe.room_for(tokens, k, experts, inner, hidden, chosen).items()}
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        ready = [(kernel[grid], args, meta)
                 for kernel, grid, args, meta in moe.launches(x, gate_up, down, ids, weights, out, room, sms, chosen)]

        def run():
            for launch, args, meta in ready:
                launch(*args, **meta)

        given = x, gate_up, down, ids, weights
        return Trial(graphed(run, 1), lambda: check(out, *given), {"torch": graphed(lambda: by_torch(*given), 1)})

    def rate(self, problem: Problem, microseconds: float) -> str:
        tokens, experts, k, hidden, inner = problem.extents
        read = experts * (1 - (1 - k / experts)**tokens)
        return (f"{6 * tokens * k * hidden * inner / microseconds / 1e6:.0f} TFLOP/s, "
                f"{3 * read * hidden * inner * bytes_of(problem.dtype) / microseconds / 1e3:.0f} GB/s")

    def row(self, problem: Problem, chosen: Configuration) -> dict:
        return {"rows": rows_of(problem), "configuration": asdict(chosen)}


def rows_of(problem: Problem) -> int:
    """The rows that an expert has on average, if it has any."""
    tokens, experts, k, *_ = problem.extents
    return -(-tokens * k // min(tokens * k, experts))


def fill(room: dict, problem: Problem, chosen: Configuration) -> None:
    """Fill the workspace `room` with the results of the alignment that the products read, for equal loads of all experts: a
    prediction runs the products alone."""
    tokens, experts, k, *_ = problem.extents
    blocks = min(experts, tokens * k) * -(-rows_of(problem) // chosen.bm)
    blocks = min(blocks, room["experts"].shape[0], room["inner"].shape[0] // chosen.bm)
    room["total"][:] = blocks * chosen.bm
    room["experts"][:blocks] = np.arange(blocks) * min(experts, tokens * k) // blocks
    room["tokens"][:] = np.arange(room["tokens"].shape[0]) % (tokens * k)


def by_torch(x, gate_up, down, ids, weights, adds: bool = True):
    """The same by torch's grouped products, with index_add or a gather and a sum; nothing waits for the device."""
    import torch
    (experts, *_), k = down.shape, ids.shape[1]
    found, order = ids.flatten().long().sort()
    ends = torch.zeros(experts, dtype=torch.int64, device="cuda").scatter_add_(0, found, torch.ones_like(found)).cumsum(0).int()
    tokens = order // k
    gate, up = torch._grouped_mm(x.index_select(0, tokens), gate_up.mT, offs=ends).chunk(2, 1)
    y = torch._grouped_mm(torch.nn.functional.silu(gate) * up, down.mT, offs=ends)
    if adds:
        return torch.zeros_like(x).index_add_(0, tokens, y * weights.flatten()[order].to(y.dtype)[:, None])
    back = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device="cuda"))
    return torch.bmm(weights.to(y.dtype)[:, None], y.index_select(0, back).view(*ids.shape, -1))[:, 0]


def check(out, x, gate_up, down, ids, weights, most: float = ALLOWED) -> float:
    """The error of `out` on some tokens against fp64; an AssertionError if it is too large."""
    import torch
    some = torch.randperm(x.shape[0], device="cuda")[:TOKENS].tolist()
    exact = torch.zeros(len(some), x.shape[1], dtype=torch.float64, device="cuda")
    for row, token in enumerate(some):
        for expert, weight in zip(ids[token].tolist(), weights[token].double()):
            gate, up = (gate_up[expert].double() @ x[token].double()).chunk(2)
            exact[row] += weight * (down[expert].double() @ (torch.nn.functional.silu(gate) * up))
    error = relative_error(out[some], exact)
    if not error < most:
        raise AssertionError(f"wrong: error {error:.2e} against fp64 on tokens {some} ({most:.1e})")
    return error
