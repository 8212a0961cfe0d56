"""GEMM and reduce-scatter, or all-reduce, over the GPUs of a world in one kernel for Hopper: bf16 and fp16, fp32 accumulation.

Input: at each GPU its a (M, K) and b (K, N). Output: the sum of all a b: c (M / ranks, N), this rank's rows, or c (M, N). For
example:

    sizes = room_for(m, n, k, programs, ranks)                          what a launch needs of symmetric memory
    workspace = {name: world.symmetric(*one, name) for name, one in sizes.items()}
    arguments(a, b, c, workspace, world, programs)                      (grid, args, meta) of a launch, or of mimw.simulate

`world` is a `mimw.World`, and the arrays are then one for each rank, or what `mimw.distributed` makes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..checks import PROGRAMS
from ..contract import Contract
from ..descriptors import described
from ..gemm.configs import Configuration as OfGemm
from ..gemm.configs import configuration
from ..gemm.tiles import Sizes
from ..measured import by_chip
from ..products import lying
from ..ranks import at_each, at_one, size_of
from .kernel import ScatterForm
from .kernel import reduce_scatter_gemm as kernel

CONTRACT = Contract("a: bf16|fp16 (M, K) tma", "b: =a (K, N)", "c: =a (own, N) tma", PROGRAMS)     # own: rows of C that a rank has
CARRIED = 8 << 20       # bytes of sums for one owner from which on it was faster to carry them; 4 MiB were not enough
PARCEL_OF_MANY = 8 << 20    # bytes of a parcel where there are more than two ranks, and so more parcels for a product
DEEP = 2048             # inner extent of a rank, whose products last as long as the copies; 4096 was enough, 1024 was not

__all__ = ["CARRIED", "CONTRACT", "DEEP", "Configuration", "arguments", "chosen_for", "kernel", "launched", "room_for",
           "rows_each"]


@dataclass(frozen=True)
class Configuration(OfGemm):
    """The GEMM's, and how sums come to other ranks. `parcel_bytes` 0: programs put them there; else they leave them here, and
    somebody carries 16-bit sums of so many bytes at once, as `mimw.ops.distributed.sum_engine` does."""

    parcel_bytes: int = 0

    def parcel(self) -> int | None:
        """How many tiles are carried at once; None: they are put."""
        return max(1, self.parcel_bytes // (2 * self.bm * self.bn)) if self.parcel_bytes else None

    def sharers_of_tile(self) -> int:
        """How many consumers work on one tile."""
        return 1 if self.ping_pong else self.consumers


@by_chip(Path(__file__).parent / "configs.json")
def _measured(rows: list[dict]) -> dict[tuple[bool, bool], Configuration]:
    """(everywhere, carried) -> the fastest configuration found on the chip that the file names."""
    return {(row["everywhere"], row["carried"]): Configuration(**row["configuration"]) for row in rows}


def chosen_for(m: int, n: int, k: int, everywhere: bool = False, carried: bool = False, ranks: int = 2) -> Configuration:
    """The configuration that `arguments` takes by itself: the measured one; for few output tiles the GEMM's, which are smaller.
    `carried`: there is somebody who carries; if that pays, the configuration of sums that are carried. Of more than two ranks it
    does not where all get all of C: one stream would carry each finished tile to every other rank (four H100s: 0.73 to 0.94 of the
    speed of sums that programs put)."""
    small = configuration(m, n, k)
    if small.bm < 128:
        return Configuration(**asdict(small))
    pays = 2 * m * n // ranks >= CARRIED and k >= DEEP and not (everywhere and ranks > 2)
    chosen = _measured()[everywhere, carried and pays]
    return replace(chosen, parcel_bytes=PARCEL_OF_MANY) if chosen.parcel_bytes and ranks > 2 else chosen


def rows_each(m: int, ranks: int, everywhere: bool, chosen: Configuration) -> int:
    """How many rows of C a rank owns: an equal part, or, if all get all of C, whole tiles."""
    if everywhere:
        tiles = -(-m // chosen.bm)
        return -(-tiles // ranks) * chosen.bm
    if m % ranks:
        raise ValueError(f"{m} rows cannot be scattered over {ranks} ranks: they must be a multiple of {ranks}")
    return m // ranks


def launched(m: int, n: int, programs: int, ranks: int, everywhere: bool, chosen: Configuration) -> tuple[int, int]:
    """(programs of a launch, never more than output tiles; output tiles of each rank)."""
    rows = rows_each(m, ranks, everywhere, chosen)
    tiles = -(-rows // chosen.bm) * -(-n // chosen.bn)
    return min(programs, ranks * tiles), tiles


def room_for(m: int, n: int, k: int, programs: int, ranks: int, dtype: str = "bfloat16", everywhere: bool = False,
             chosen: Configuration | None = None) -> dict[str, tuple[int, str]]:
    """What a launch needs of symmetric memory: name -> (elements, type). `slots` and `results` may hold anything before, and other
    launches may use them between two; the others are 0 before the first launch, and belong to launches of these arguments.

    args:  m, n, k     of a and b at each rank
           programs    as `arguments`
           ranks       how many GPUs, 2 or more
           dtype       of the sums on their way: c's, or "float32" for sums that are rounded once, for twice the bytes
           everywhere  all ranks get all of c
           chosen      as `arguments`
    """
    chosen = chosen or chosen_for(m, n, k, everywhere)
    (programs, tiles), parcel = launched(m, n, programs, ranks, everywhere, chosen), chosen.parcel()
    each, words = tiles * chosen.bm * chosen.bn, tiles * chosen.sharers_of_tile() if parcel is None else -(-tiles // parcel)
    room = {"slots": (ranks * each, dtype), "arrived": (ranks * words, "int64"), "calls": (programs, "int64")}
    room["started"] = (ranks * programs if parcel is None else ranks), "int64"
    if parcel is not None:
        room["done"] = (ranks if everywhere else ranks - 1) * words, "int64"
    if everywhere or parcel is not None:
        room["results"] = ranks * each, dtype
    return room | ({"finished": (ranks * words, "int64")} if everywhere else {})


def arguments(a, b, c, workspace: dict, world, programs: int, chosen: Configuration | None = None,
              everywhere: bool = False) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c = the sum over the ranks of a b, of this rank's rows, or with `everywhere` of all rows.

    args:      a          (M, K) at each rank, rows contiguous; bf16, fp16
               b          (K, N), rows or columns contiguous, of a's type
               c          (M / ranks, N), rows contiguous, of a's type, rank r having rows r M / ranks to (r + 1) M / ranks;
                          everywhere: (M, N)
               workspace  symmetric arrays of the sizes and types that `room_for` says
               world      of 2 or more ranks: a `mimw.World`, the arrays being one for each rank, or this process's own
               programs   how many persistent programs, the same at all ranks, that run at the same time: one per SM. Never more
                          than output tiles
               chosen     by default what `chosen_for` gives; the same at all ranks
    order:     sums are in fp32: the own rank's, then what came from the next rank and so on, rounded to the slots' type on its
               way. So a result is the same each time, to the bit
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    ranks = size_of(world)
    one_a, one_b = map(at_one, (a, b))
    (m, k), n = one_a.shape, one_b.shape[1]
    chosen = chosen or chosen_for(m, n, k, everywhere)
    rows = rows_each(m, ranks, everywhere, chosen)
    CONTRACT.check(a=one_a, b=one_b, c=at_one(c), own=m if everywhere else rows, programs=programs)
    _, b_is_nk = lying(one_b)
    a_block, b_block, c_block = chosen.blocks(2, 2, b_is_nk)
    matrices = 1 if everywhere else ranks
    args = (at_each(world, lambda one: described(one.reshape(matrices, -1, k), [1, *a_block]), a),
            at_each(world, lambda one: described(one.T if b_is_nk else one, b_block), b),
            at_each(world, lambda one: described(one[None], [1, *c_block]), c))
    names = ("slots", "arrived", "started", "results", "finished", "results", "done")       # sums lie where results will come
    count, _ = launched(m, n, programs, ranks, everywhere, chosen)
    args += (*map(workspace.get, names), chosen.parcel(), workspace["calls"], world, Sizes(rows, n, k))
    form = ScatterForm(chosen.tiles(2, 2, b_is_nk), chosen.stages, everywhere, chosen.parcel() is not None)
    return (count, ), args, {"FORM": form, "num_warps": 4}
