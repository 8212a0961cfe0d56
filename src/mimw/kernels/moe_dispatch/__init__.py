"""Tokens to the GPUs of their experts: the first half of a mixture of experts over several GPUs, one kernel on Hopper.

Input: at each GPU rows of any type and the experts of each. Output: at each GPU the rows for its experts. For example:

    sizes = room_for(4096, 8, 256, 14336, programs, ranks)                      what a launch needs of symmetric memory
    workspace = {name: world.symmetric(*one, name) for name, one in sizes.items()}
    arguments(x, ids, rows, ends, places, workspace, world, programs)           (grid, args, meta) of a launch, or of mimw.simulate

`world` is a `mimw.World`, and the arrays are then one for each rank, or what `mimw.distributed` makes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..checks import persistent, type_name
from ..ranks import at_one, size_of
from .kernel import dispatch as kernel

__all__ = ["Configuration", "arguments", "chosen_for", "configuration", "kernel", "room_for"]

SHARED = 200 << 10          # bytes of shared memory for the two rings


@dataclass(frozen=True)
class Configuration:
    """Slots of the rings for rows that leave and for rows that go to their places; how many of the latter may be on their way while
    the next are copied; after how many rounds a program tells the peers of its rows; how many choices it ranks at a time, and
    counts at a time."""

    out: int = 4
    home: int = 8
    unread: int = 4
    group: int = 2
    tile: int = 128
    count: int = 4096

    def __post_init__(self):
        if not 1 <= self.group <= self.out or not 1 <= self.unread < self.home:
            raise ValueError(f"{self}: a ring has room for what is on its way: out for a group, home for more than unread")


def configuration(row_bytes: int, tables: int = 0) -> Configuration:
    """The configuration for rows of so many bytes, scales included, beside `tables` bytes in shared memory."""
    slots = (SHARED - tables) // max(16, 1 << (row_bytes - 1).bit_length())
    if slots >= 24:
        return Configuration(out=8, home=16, unread=8, group=4)
    if slots >= 12:
        return Configuration()
    if slots < 6:
        raise ValueError(f"rows of {row_bytes} bytes: {max(0, slots)} of them fit into shared memory beside {tables} bytes of "
                         "tables, and 6 are needed; dispatch parts of a row, or fewer tokens, one after the other")
    return Configuration(out=2, home=slots - 2, unread=slots - 4)


def rounds_of(most: int, programs: int) -> int:
    """A power of two of tokens that a program may have."""
    return 1 << (-(-most // programs) - 1).bit_length()


def chosen_for(most: int, k: int, row_bytes: int, programs: int, ranks: int) -> Configuration:
    """The configuration that `arguments` takes by itself."""
    return configuration(row_bytes, 4 * rounds_of(most, programs) * (1 + ranks * (1 << (k - 1).bit_length())))


def room_for(tokens: int, k: int, experts: int, row_bytes: int, programs: int, ranks: int, scale_bytes: int = 0) -> dict:
    """What a launch needs of symmetric memory: name -> (shape, type). `staging`, `staging_scales`, `choices` and `counts` may hold
    anything before; the words of the others are 0 before the first launch. All belong to launches of these numbers.

    args:  tokens       of a rank, at most
           k            experts of a token
           experts      of all ranks together, the same number at each
           row_bytes    of a token, and scale_bytes of its scales
           programs     how many programs the launch has
    """
    room = dict(staging=((max(1, ranks - 1), tokens, row_bytes // 4), "int32"), choices=((2, ranks, tokens * k), "int64"),
                counts=((2, ranks, experts), "int32"), told=((ranks, ), "int64"), started=((ranks, ), "int64"),
                arrived=((ranks, programs), "int64"), calls=((programs, ), "int64"))
    if scale_bytes:
        room["staging_scales"] = (max(1, ranks - 1), tokens, scale_bytes // 4), "int32"
    return room


def arguments(x, ids, rows, ends, places, workspace: dict, world, programs: int, x_scales=None, row_scales=None, tokens=None,
              chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill rows, ends and places.

    args:      x           (tokens, words) int32, contiguous: this rank's rows as words, multiples of 16 bytes
               ids         (tokens, k), contiguous, int32 or int64: the experts of each; others than 0 to experts - 1 are none
               rows        (count, words) int32, count enough for all rows, at most ranks * most * k: becomes the rows for this
                           rank's experts, in the order of experts, then of ranks, then of tokens, then of j; what is behind is not
                           written
               ends        (experts / ranks) int32: becomes the row behind the last one of each
               places      (ranks, most, k) int32: becomes the row of each choice of each rank that is here, and -1 for others
               workspace   symmetric arrays of the shapes and types that `room_for` says
               programs    how many persistent programs, the same at all ranks, that run at the same time: at most one a
                           multiprocessor
               x_scales, row_scales    (opt) of x and rows, likewise
               tokens      (opt) how many of x there are, at most `most`; a number for each rank in a simulated world. By default
                           x's
               chosen      by default that for rows of this size
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    ranks, programs = size_of(world), persistent(programs)
    one_x, one_ids, one_rows = map(at_one, (x, ids, rows))
    of_places, of_scales = at_one(places), at_one(x_scales)
    words, (held, most, k), local = one_x.shape[1], of_places.shape, at_one(ends).shape[0]
    given = dict(x=one_x, rows=one_rows, ends=at_one(ends), places=of_places)
    scales = 0
    if x_scales is not None:
        scales, given["x_scales"], given["row_scales"] = of_scales.shape[1], of_scales, at_one(row_scales)
    for name, array in given.items():
        if type_name(array) != "int32":
            raise ValueError(f"{name} is {array.dtype}; it must be int32: see rows of other types as words")
    if type_name(one_ids) not in ("int32", "int64"):
        raise ValueError(f"ids are {one_ids.dtype}; they may be int32 or int64")
    if words % 4 or scales % 4 or not words:
        raise ValueError(f"rows of {4 * words} bytes with {4 * scales} of scales; both must be multiples of 16 bytes")
    if held != ranks or one_rows.shape[1] != words or one_ids.shape[1] != k:
        raise ValueError(f"x is {tuple(one_x.shape)}, ids {tuple(one_ids.shape)}, rows {tuple(one_rows.shape)} and places "
                         f"{tuple(of_places.shape)}; {ranks} ranks of {most} tokens with {k} experts each need "
                         f"rows of {words} words, and places for {ranks} ranks")
    if most * k >= 1 << 31 or ranks * most * k >= 1 << 31:
        raise ValueError(f"{ranks} ranks of {most} tokens with {k} experts each need places beyond 32 bits")
    rounds, width = rounds_of(most, programs), 1 << (k - 1).bit_length()
    chosen = chosen or chosen_for(most, k, 4 * (words + scales), programs, ranks)
    tokens = one_x.shape[0] if tokens is None else tokens
    meta = dict(TOKENS=most, K=k, RANKS=ranks, LOCAL=local, WORDS=words, SCALES=scales, OUT=chosen.out, HOME=chosen.home,
                UNREAD=chosen.unread, GROUP=chosen.group, TILE=chosen.tile, COUNT=chosen.count, ROUNDS=rounds,
                SLOTS=min(rounds, max(1, 512 // width)), num_warps=4)
    symmetric = ("choices", "counts", "told", "started", "arrived", "calls")
    args = (x, x if x_scales is None else x_scales, ids, rows, rows if row_scales is None else row_scales, ends, places,
            workspace["staging"], workspace.get("staging_scales", workspace["staging"]), *map(workspace.get, symmetric), world,
            tokens)
    return (programs, ), args, meta
