"""A mixture of experts on Hopper: tokens sorted by expert, two products with SwiGLU between, a weighted sum; bf16, fp16, tf32.

Input: tokens, the experts' weights, and the experts and weights of each token. Output: out (tokens, hidden). For example:

    moe(x, gate_up, down, ids, weights)             on torch tensors of a GPU
    launches(x, gate_up, down, ids, weights, out, room, programs)       [(kernel, grid, args, meta), ...] to launch or simulate
    room_for(tokens, k, experts, inner, hidden)     the shape of each array of `room`, by name
    scaled_launches(...), scaled_room_for(...)      the same of fp8 weights with scales of blocks: fp8.py
    blocked_launches(...), blocked_room_for(...)    of rows that came from other GPUs in blocks, with their scales: blocked.py

Nothing waits for the device: grids and rooms are those of the worst case, and the device says how many rows there are.
"""

from __future__ import annotations

from ..checks import of_rank, on_one_gpu, one_of, persistent, rows_for_tma, strides, type_name
from ..descriptors import described
from ..moe_align import arguments as align_arguments
from ..moe_align import outputs
from .blocked import blocked_launches, blocked_room_for, quantise_arguments
from .configs import Configuration, columns_of, configuration, product_meta
from .few_rows import few_rows_gemm
from .few_tokens import FEW, few
from .fp8 import FP8, scaled_configuration, scaled_launches, scaled_room_for
from .kernel import expert_gemm as kernel
from .rows import combine, quantise, spread, spread_few
from .scaled import scaled_expert_gemm

TYPES = ("bfloat16", "float16", "float32")
BLOCK = 1024                # columns of a token that one program spreads or sums

__all__ = ["FP8", "Configuration", "blocked_launches", "blocked_room_for", "combine", "configuration", "few_rows_gemm", "kernel",
           "launches", "moe", "product", "quantise", "quantise_arguments", "room_for", "scaled_configuration",
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
    meta = product_meta(chosen, bn, a.dtype.itemsize, c.dtype.itemsize, gated, picked)
    width = bn // 2 if gated else bn
    tiles = c.shape[0] // chosen.bm * -(-n // width)
    grid, given = (min(programs * chosen.ctas, tiles), ), (described(a, [1 if picked else chosen.bm, meta["BK"]]),
                                                           described(b, [1, width, meta["BK"]]))
    threads = 128 * (meta["CONSUMERS"] + 1)
    options = {} if chosen.ctas == 1 else {"maxnreg": 65536 // chosen.ctas // threads // 8 * 8}
    meta = {**meta, **options, "num_warps": 4, "launch_pdl": True}
    if chosen.swapped:
        return few_rows_gemm, grid, (*given, c, experts, total, counter, n, a.shape[1]), meta
    share = chosen.bm if chosen.ping_pong else chosen.bm // chosen.consumers
    return kernel, grid, (*given, described(c, [share, width // meta["PIECES"]]), tokens, experts, total, n, a.shape[1], k), meta


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
    of_rank(2, x=x, ids=ids, weights=weights, out=out)
    of_rank(3, gate_up=gate_up, down=down)
    programs = persistent(programs)
    one_of(TYPES, x=x, gate_up=gate_up, down=down, out=out)
    (tokens, hidden), (_, k), (experts, twice, _) = x.shape, ids.shape, gate_up.shape
    inner = twice // 2
    wanted = dict(gate_up=(experts, 2 * inner, hidden), down=(experts, hidden, inner), ids=(tokens, k), weights=(tokens, k),
                  out=(tokens, hidden))
    for (name, shape), array in zip(wanted.items(), (gate_up, down, ids, weights, out)):
        if tuple(array.shape) != shape:
            raise ValueError(f"x is {_by(x.shape)} and gate_up {_by(gate_up.shape)}, so {name} should be {_by(shape)}; it is "
                             f"{_by(array.shape)}")
        if name in ("gate_up", "down") and array.dtype != x.dtype:
            raise ValueError(f"x is {x.dtype} and {name} {array.dtype}; both must be one type")
    chosen = chosen or configuration(tokens * k, experts)
    for name, shape in room_for(tokens, k, experts, inner, hidden, chosen).items():
        if tuple(room[name].shape) != shape:
            raise ValueError(f"room[{name!r}] is {_by(room[name].shape)}; it must be {_by(shape)}")
    if any(type_name(room[name]) != type_name(x) for name in ("inner", "rows")):
        raise ValueError(f"room['inner'] and room['rows'] must be of x's type, {x.dtype}")
    read = dict(x=x) if chosen.load_warps else {}
    rows_for_tma(gate_up=gate_up, down=down, **{"room['inner']": room["inner"], "out": out}, **read)
    if strides(x)[1] != 1:
        raise ValueError(f"the columns of x must be contiguous; they are {strides(x)[1]} elements apart")
    if strides(out)[0] != hidden and tokens > 1:
        raise ValueError(f"out must be contiguous; its rows are {strides(out)[0]} elements apart for {hidden}")
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


def _by(shape) -> str:
    return " x ".join(map(str, shape))


def moe(x, gate_up, down, ids, weights, out=None, chosen: Configuration | None = None):
    """The mixture on the GPU that holds its tensors; arguments and errors as `launches`. `mimw.ops.moe` is its operator."""
    import torch
    on_one_gpu("moe", x=x, gate_up=gate_up, down=down, ids=ids, weights=weights, **({} if out is None else {"out": out}))
    out = torch.empty_like(x, memory_format=torch.contiguous_format) if out is None else out
    shapes = room_for(*ids.shape, gate_up.shape[0], gate_up.shape[1] // 2, x.shape[1], chosen)
    room = {name: torch.empty(shape, dtype=x.dtype if name in ("inner", "rows") else torch.int32, device=x.device)
            for name, shape in shapes.items()}
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
    for launched, grid, args, meta in launches(x, gate_up, down, ids, weights, out, room, programs, chosen):
        launched[grid](*args, **meta)
    return out
