"""A mixture of experts on Hopper: tokens sorted by expert, two products with SwiGLU between, a weighted sum; bf16, fp16, tf32.

Input: tokens, the experts' weights, and the experts and weights of each token. Output: out (tokens, hidden). For example:

    launches(x, gate_up, down, ids, weights, out, room, programs)       [(kernel, grid, args, meta), ...] to launch or simulate
    room_for(tokens, k, experts, inner, hidden)     the shape of each array of `room`, by name
    scaled_launches(...), scaled_room_for(...)      the same of fp8 weights with scales of blocks: fp8.py
    blocked_launches(...), blocked_room_for(...)    of rows that came from other GPUs in blocks, with their scales: blocked.py

Nothing waits for the device: grids and rooms are those of the worst case, and the device says how many rows there are.
"""

from __future__ import annotations

from ..checks import PROGRAMS, lie, work_fits
from ..contract import Contract
from ..contract.memory import strides
from ..contract.types import of as type_name
from ..descriptors import described
from ..moe_align import arguments as align_arguments
from ..moe_align import outputs
from .blocked import blocked_launches, blocked_room_for, quantise_arguments
from .configs import Configuration, columns_of, configuration, product_meta
from .few_rows import few_rows_gemm
from .few_tokens import FEW, few
from .fp8 import FP8, scaled_configuration, scaled_launches, scaled_room_for
from .kernel import expert_gemm as kernel
from .nouns import FewRowsForm, Form
from .rows import combine, quantise, spread, spread_few
from .scaled import scaled_expert_gemm

CONTRACT = Contract(
    "x: float (tokens, hidden) rows", "gate_up: =x (experts, 2 * inner, hidden) tma", "down: =x (experts, hidden, inner) tma",
    "ids: int (tokens, k)", "weights: any (tokens, k)", "out: float (tokens, hidden) contiguous", PROGRAMS)
BLOCK = 1024                # columns of a token that one program spreads or sums

__all__ = ["CONTRACT", "FP8", "Configuration", "blocked_launches", "blocked_room_for", "combine", "configuration", "few_rows_gemm",
           "kernel",
           "launches", "product", "quantise", "quantise_arguments", "room_for", "scaled_configuration",
           "scaled_expert_gemm", "scaled_launches", "scaled_room_for", "spread", "spread_few"]


def room_for(tokens: int, k: int, experts: int, inner: int, hidden: int, chosen: Configuration | None = None) -> dict:
    """Name -> shape of what `launches` needs for work: the first six int32, the last two of x's type. What is in them does not
    matter."""
    bm, numel = (chosen or configuration(tokens * k, experts)).bm, tokens * k
    length, blocks, total = outputs(numel, experts, bm)
    rows = -(-min(numel * bm, length) // bm) * bm
    return dict(tokens=(length, ), experts=(blocks, ), total=(total, ), places=(numel, ), counters=(experts, ), drawn=(1, ),
                inner=(rows, inner), rows=(rows, hidden))


def product(a, b, c, tokens, experts, total, k: int, n: int, rows: int, programs: int, chosen: Configuration, gated: bool,
            picked: bool, counter=None) -> tuple:
    """(kernel, grid, args, meta) of c = a b^T for blocks of rows, or of silu(a gate^T) (a up^T). Rows of a may be picked: row r is
    row tokens[r] // k. `rows` of all are some token's."""
    count = b.shape[0]
    bn = columns_of(chosen, n, rows, count, programs, gated)
    constants = product_meta(chosen, bn, a.dtype.itemsize, c.dtype.itemsize, gated, picked)
    width = bn // 2 if gated else bn
    tiles = c.shape[0] // chosen.bm * -(-n // width)
    grid, given = (min(programs * chosen.ctas, tiles), ), (described(a, [1 if picked else chosen.bm, constants["BK"]]),
                                                           described(b, [1, width, constants["BK"]]))
    threads = 128 * (constants["CONSUMERS"] + 1)
    options = {} if chosen.ctas == 1 else {"maxnreg": 65536 // chosen.ctas // threads // 8 * 8}
    options |= {"num_warps": 4, "launch_pdl": True}
    if chosen.swapped:
        args = *given, c, experts, total, counter, n, a.shape[1]
        return few_rows_gemm, grid, args, {"FORM": FewRowsForm(**constants), **options}
    share = chosen.bm if chosen.ping_pong else chosen.bm // chosen.consumers
    args = *given, described(c, [share, width // constants["PIECES"]]), tokens, experts, total, n, a.shape[1], k
    return kernel, grid, args, {"FORM": Form(**constants), **options}


def launches(x, gate_up, down, ids, weights, out, room: dict, programs: int, chosen: Configuration | None = None) -> list[tuple]:
    """[(kernel, grid, args, meta), ...], one after the other, that compute
    out[t] = sum over j of weights[t, j] down[e] (silu(gate[e] x[t]) up[e] x[t]), e = ids[t, j].

    args:      x         (tokens, hidden), rows contiguous; bf16, fp16, or fp32, computed as tf32
               gate_up   (experts, 2 inner, hidden) of x's type, rows contiguous: each expert's gate, then its up
               down      (experts, hidden, inner) of x's type, rows contiguous
               ids       (tokens, k), contiguous, int32 or int64, from 0 to experts - 1
               weights   (tokens, k) of any type, any strides
               out       (tokens, hidden) of any of x's types, contiguous
               room      arrays as `room_for` says, by name
               programs  one a multiprocessor
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of = CONTRACT.check(x=x, gate_up=gate_up, down=down, ids=ids, weights=weights, out=out, programs=programs)
    tokens, hidden, k, experts, inner = of.tokens, of.hidden, of.k, of.experts, of.inner
    chosen = chosen or configuration(tokens * k, experts)
    work_fits(room, {name: (shape, type_name(x) if name in ("inner", "rows") else "int32")
                     for name, shape in room_for(tokens, k, experts, inner, hidden, chosen).items()})
    read = {"room['inner']": room["inner"], "out": out} | (dict(x=x) if chosen.load_warps else {})
    lie("tma", **read)
    lists, columns = [room[name] for name in ("tokens", "experts", "total")], -(-hidden // BLOCK)
    given, slots = x if chosen.load_warps else room["rows"], tokens * k
    counter = room["drawn"] if chosen.drawn else None
    before = [align_arguments(ids, *lists, room["counters"], experts, chosen.bm, programs, places=room["places"])]
    meta = dict(TOP_K=k, BLOCK=BLOCK, num_warps=4)
    if slots <= FEW and not chosen.load_warps:
        before = [few(x, ids, room["rows"], None, room["places"], *lists[1:], experts, chosen.bm, counter)]
    elif not chosen.load_warps:
        args = (x, room["places"], room["rows"], counter, hidden, strides(x)[0])
        before.append((spread, (tokens, columns), args, meta))
    first = product(given, gate_up, room["inner"], *lists, k, inner, slots, programs, chosen, True, chosen.load_warps > 0,
                    counter)
    second = product(room["inner"], down, room["rows"], *lists, k, hidden, slots, programs, chosen, False, False,
                     counter)
    args = (room["rows"], room["places"], weights, out, hidden, *strides(weights))
    return [*before, first, second, (combine, (tokens, columns), args, {**meta, "launch_pdl": True})]
