"""Results of experts back to the GPUs of their tokens, weighted and added: the second half of a mixture of experts over several
GPUs.

Input: at each GPU the results for its experts by row, `places` as `moe_dispatch` has found them, the tokens' experts and weights.
Output: at each GPU a row for each of its tokens. For example:

    sizes = room_for(4096, 8, 7168, programs, ranks)                            what a launch needs of symmetric memory
    workspace = {name: world.symmetric(*one, name) for name, one in sizes.items()}
    arguments(y, places, ids, weights, out, workspace, world, experts, programs)    (grid, args, meta) of a launch

`world` is a `mimw.World`, and the arrays are then one for each rank, or what `mimw.distributed` makes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..checks import of_rank, one_of, persistent, type_name
from ..moe_dispatch import rounds_of
from ..ranks import at_one, size_of
from .kernel import combine as kernel

TYPES = ("bfloat16", "float16", "float32")

__all__ = ["TYPES", "Configuration", "arguments", "chosen_for", "configuration", "kernel", "room_for"]

TELL = 1024                 # weights that a program tells at a time
SHARED = 208 << 10          # bytes of shared memory for the rings
EACH = 32                   # columns of a thread that adds up


@dataclass(frozen=True)
class Configuration:
    """Slots of the rings of rows and of sums that leave, how many rounds behind those a program finishes its own tokens, and warps
    that add up."""

    stages: int = 10
    out: int = 3
    lag: int = 2
    warps: int = 8

    def __post_init__(self):
        if self.stages < 1 or self.out < 2 or self.lag < 1:
            raise ValueError(f"{self}: a slot for rows, two for sums, and a round behind are the least")


def configuration(row_bytes: int, size: int = 2, tables: int = 0) -> Configuration:
    """The configuration for rows of so many bytes, `size` bytes a number, beside `tables` bytes in shared memory."""
    row = max(16, 1 << (row_bytes - 1).bit_length())
    slots = min(28, (SHARED - tables) // row)
    if slots < 5:
        raise ValueError(f"rows of {row_bytes} bytes: {max(0, slots)} of them fit into shared memory beside {tables} bytes of "
                         "tables, and 5 are needed; combine parts of a row, or fewer tokens, one after the other")
    out = 3 if slots > 8 else 2
    return Configuration(stages=slots - out, out=out, warps=min(16, max(4, row // size // (32 * EACH))))


def chosen_for(most: int, k: int, hidden: int, size: int, programs: int, ranks: int) -> Configuration:
    """The configuration that `arguments` takes by itself, for numbers of `size` bytes."""
    tables = 4 * rounds_of(most, programs) * (1 + 2 * (1 << (ranks - 1).bit_length()) * (1 << (k - 1).bit_length()))
    return configuration(hidden * size, size, tables)


def room_for(most: int, k: int, hidden: int, programs: int, ranks: int, dtype: str = "bfloat16") -> dict:
    """What a launch needs of symmetric memory: name -> (shape, type). `all_weights` and `partials` may hold anything before; the
    words of the others are 0 before the first launch. All belong to launches of these numbers.

    args:  most, k      tokens of a rank, at most, and their experts
           hidden       columns, of rows of `dtype`
           programs     how many programs the launch has
    """
    return dict(all_weights=((ranks, most, k), "float32"), partials=((max(1, ranks - 1), most, hidden), dtype),
                told=((ranks, ), "int64"), arrived=((ranks, programs), "int64"), calls=((programs, ), "int64"))


def arguments(y, places, ids, weights, out, workspace: dict, world, experts: int, programs: int, tokens=None,
              chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill out: for each token the sum of its rows by weight.

    args:      y           (rows, hidden), contiguous; bf16, fp16 or fp32: what this rank's experts have made. A row is a multiple
                           of 16 bytes
               places      (ranks, most, k) int32: which row of y each choice of each rank is, -1 for those of other ranks' experts
               ids         (tokens, k), contiguous, int32 or int64: this rank's tokens' experts, as dispatched
               weights     (tokens, k), contiguous: bf16, fp16 or fp32
               out         (tokens, hidden), contiguous, of y's type
               workspace   symmetric arrays of the shapes and types that `room_for` says
               experts     of all ranks together
               programs    how many persistent programs, the same at all ranks, that run at the same time: at most one a
                           multiprocessor
               tokens      (opt) how many tokens there are here, at most `most`; a number for each rank in a simulated world. By
                           default out's
               chosen      by default that for this size
    order:     a rank's choices in the order of j, in fp32, rounded to y's type on their way to another rank; the own rank's first,
               then those of the next rank and so on
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    ranks, programs = size_of(world), persistent(programs)
    one_y, one_ids, one_weights, one_out, one_places = map(at_one, (y, ids, weights, out, places))
    of_rank(2, y=one_y)
    of_rank(3, places=one_places)
    one_of(TYPES, y=one_y, out=one_out, weights=one_weights)
    (held, most, k), hidden, size = one_places.shape, one_y.shape[1], one_y.dtype.itemsize
    if type_name(one_places) != "int32" or type_name(one_ids) not in ("int32", "int64"):
        raise ValueError(f"places are {one_places.dtype} and ids {one_ids.dtype}; they must be int32, and ids may be int64")
    if held != ranks or one_ids.shape[1] != k or one_weights.shape[1] != k or one_out.shape[1] != hidden:
        raise ValueError(f"y is {tuple(one_y.shape)}, places {tuple(one_places.shape)}, ids {tuple(one_ids.shape)}, weights "
                         f"{tuple(one_weights.shape)} and out {tuple(one_out.shape)} on {ranks} ranks; k and columns must agree")
    if hidden * size % 16 or type_name(one_out) != type_name(one_y) or type_name(at_one(workspace["partials"])) != type_name(one_y):
        raise ValueError(f"y is {one_y.dtype} with {hidden} columns, out {one_out.dtype} and partials "
                         f"{at_one(workspace['partials']).dtype}; all must be of one type, and a row a multiple of 16 bytes")
    chosen = chosen or chosen_for(most, k, hidden, size, programs, ranks)
    rounds, width = rounds_of(most, programs), 1 << (k - 1).bit_length()
    symmetric = (workspace[name] for name in ("all_weights", "partials", "told", "arrived", "calls"))
    args = (y, places, ids, weights, out, *symmetric, world, one_out.shape[0] if tokens is None else tokens)
    meta = dict(TOKENS=most, HIDDEN=hidden, K=k, RANKS=ranks, LOCAL=experts // ranks, TELL=TELL, STAGES=chosen.stages,
                OUT=chosen.out, LAG=chosen.lag, ROUNDS=rounds, SLOTS=min(rounds, max(1, 512 // width)), num_warps=chosen.warps)
    return (programs, ), args, meta
