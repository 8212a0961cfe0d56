"""All-gather and GEMM over the GPUs of a world, the product beginning while rows arrive, for Hopper: bf16 and fp16, fp32
accumulation.

Input: at each GPU its rows a (M / ranks, K) of A, and b (K, N). Output: c = A b, (M, N). For example:

    sizes = room_for(m, n, k, programs, ranks)                          what a launch needs of symmetric memory
    workspace = {name: world.symmetric(*one, name) for name, one in sizes.items()}
    arguments(a, b, c, workspace, world, programs)                      (grid, args, meta) of a launch, or of mimw.simulate
    opening(workspace, world, m, n, k, chosen)                          the same of `open_gather`, where copy engines bring the rows

`world` is a `mimw.World`, and the arrays are then one for each rank, or what `mimw.distributed` makes.
"""

from __future__ import annotations

from math import gcd, log2
from pathlib import Path

from ..checks import PROGRAMS
from ..contract import Contract
from ..contract.memory import strides
from ..descriptors import described
from ..gemm.configs import Configuration, configuration
from ..gemm.tiles import Sizes
from ..measured import by_chip
from ..products import lying
from ..ranks import at_each, at_one, size_of
from .kernel import GatherForm, open_gather
from .kernel import all_gather_gemm as kernel

CONTRACT = Contract("a: bf16|fp16 (rows, K) tma", "b: =a (K, N)", "c: =a (rows * ranks, N) tma", PROGRAMS)
PIECE, SLOTS = 4096, 4      # elements that a copy takes at most, and how many of a program are under way
SHORT = 256                 # elements: copies of fewer take longer than the product, if there are many
PUSHED = Configuration(bm=128, bn=128, stages=5, staging=1, ping_pong=True)     # leaves the slots' 32 KiB

__all__ = ["CONTRACT", "PIECE", "PUSHED", "SLOTS", "Configuration", "arguments", "bands", "chosen_for", "kernel",
           "launched", "open_gather", "opening", "piece_of_rows", "room_for"]


@by_chip(Path(__file__).parent / "configs.json")
def _measured(rows: list[dict]) -> dict[tuple[int, int, int], Configuration]:
    """(M, N, K) -> the fastest configuration found on the chip that the file names, where copy engines bring the rows."""
    return {tuple(row["shape"]): Configuration(**row["configuration"]) for row in rows}


def chosen_for(m: int, n: int, k: int, push: bool) -> Configuration:
    """The configuration that `arguments` takes by itself: with `push` one that leaves room for the slots; else the measured one of
    the nearest shape, by factors of two, and for few output tiles the GEMM's, which are smaller."""
    if push:
        return PUSHED
    small, rows = configuration(m, n, k), _measured()
    if small.bm < 128:
        return small
    return rows[min(rows, key=lambda shape: sum(abs(log2(one / other)) for one, other in zip(shape, (m, n, k))))]


def bands(rows: int, chosen: Configuration) -> int:
    """In how many bands, each with a signal, a rank's rows arrive."""
    return -(-rows // (chosen.bm * chosen.group_m))


def launched(rows: int, n: int, programs: int, ranks: int, chosen: Configuration) -> int:
    """How many programs a launch has, never more than output tiles; `rows` of each rank."""
    return min(programs, ranks * -(-rows // chosen.bm) * -(-n // chosen.bn))


def piece_of_rows(rows: int, k: int, chosen: Configuration, longest: int = PIECE) -> int:
    """The longest copy, a multiple of 16 bytes, of which a rank's rows and their bands are whole numbers. ValueError where all
    are SHORT."""
    elements = k * gcd(rows, chosen.bm * chosen.group_m)
    found = max((one for one in range(8, longest + 1, 8) if elements % one == 0), default=0)
    if found < min(SHORT, longest, rows * k):
        raise ValueError(f"{rows} rows of {k}, and their bands, are no whole number of copies of {SHORT} to {longest} elements: "
                         "use push=False")
    return found


def room_for(m: int, n: int, k: int, programs: int, ranks: int, dtype: str = "bfloat16", push: bool = True,
             chosen: Configuration | None = None) -> dict[str, tuple[int, str]]:
    """What a launch needs of symmetric memory: name -> (elements, type). `gathered` may hold anything before, and other launches
    may use it between two; the others are 0 before the first launch, and belong to launches of these arguments.

    args:  m, n, k     of the product: m rows of all ranks
           programs    as `arguments`
           ranks       how many GPUs, 2 or more
           push        the programs bring the rows; else copy engines
    """
    chosen = chosen or chosen_for(m, n, k, push)
    programs = launched(m // ranks, n, programs, ranks, chosen)
    room = {"gathered": (m * k, dtype), "arrived": (ranks * bands(m // ranks, chosen), "int64")}
    return room | ({"started": (ranks * programs, "int64"), "calls": (programs, "int64")} if push else {})


def arguments(a, b, c, workspace: dict, world, programs: int, chosen: Configuration | None = None, push: bool = True,
              longest: int = PIECE) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c = A b, A being the rows of all ranks one under another.

    args:      a          (M / ranks, K) at each rank, contiguous; bf16, fp16; K a multiple of 8
               b          (K, N), rows or columns contiguous, of a's type
               c          (M, N), contiguous, of a's type; N a multiple of 8
               workspace  symmetric arrays of the sizes and types that `room_for` says
               world      of 2 or more ranks: a `mimw.World`, the arrays being one for each rank, or this process's own
               programs   how many persistent programs, the same at all ranks, that run at the same time: one per SM. Never more
                          than output tiles
               chosen     by default what `chosen_for` gives; the same at all ranks
               push       the programs bring the rows to the peers; else somebody copies band after band of them (`bands`) into
                          the peers' `gathered`, and sets the band's word of `arrived` to 1 behind it, after `opening`
               longest    copy of a push, in elements
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    ranks = size_of(world)
    one_a, one_b = map(at_one, (a, b))
    of = CONTRACT.check(a=one_a, b=one_b, c=at_one(c), ranks=ranks, programs=programs)
    rows, k, n = of.rows, of.K, of.N
    m, (_, b_is_nk) = rows * ranks, lying(one_b)
    if push and strides(one_a) != (k, 1):
        raise ValueError(f"the rows of a must lie one behind the other to be copied in one; they have {k} elements, and are "
                         f"{strides(one_a)[0]} apart")
    chosen = chosen or chosen_for(m, n, k, push)
    piece = piece_of_rows(rows, k, chosen, longest) if push else PIECE
    a_block, b_block, c_block = chosen.blocks(2, 2, b_is_nk)
    args = (at_each(world, lambda one: described(one[None], [1, *a_block]), a),
            at_each(world, lambda one: described(one.reshape(ranks, rows, k), [1, *a_block]), workspace["gathered"]),
            at_each(world, lambda one: described(one.T if b_is_nk else one, b_block), b),
            at_each(world, lambda one: described(one.reshape(ranks, rows, n), [1, *c_block]), c))
    args += (a if push else None, workspace["gathered"] if push else None, workspace["arrived"], workspace.get("started"),
             workspace.get("calls"), world, Sizes(rows, n, k))
    form = GatherForm(chosen.tiles(2, 2, b_is_nk), chosen.stages, push, piece, 1 << (piece - 1).bit_length(), SLOTS)
    return (launched(rows, n, programs, ranks, chosen), ), args, {"FORM": form, "num_warps": 4}


def opening(workspace: dict, world) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) of `open_gather`, before copy engines bring rows."""
    count = at_one(workspace["arrived"]).shape[0]
    return (1, ), (workspace["arrived"], world), {"COUNT": count, "BLOCK": max(32, 1 << (count - 1).bit_length()), "num_warps": 1}
