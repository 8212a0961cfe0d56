"""The arrays of several simulated GPUs, as arguments of one launch on all of them (docs/DISTRIBUTED.md).

Input: how many GPUs; then shapes, or a function from rank to array. Output: arguments that hold one array for each rank. For
example:

    world = mimw.World(2)
    x = world.symmetric((256, ), "float32", name="x")            x[0], x[1]: numpy arrays, at the same offset of each rank's heap
    y = world.each(lambda rank: np.full(256, rank, "float32"))   private ones: no other rank reaches them
    mimw.simulate(kernel, (4, ), x, y, world, 256)               the launch at both ranks, side by side

In a kernel a `PerRank` is the array of its own rank, and the world is a pointer to a table of int64, which says who this rank is
and where the heaps of all ranks begin. `mimw.tlx.peer_pointer` and `mimw.tle.remote` find a peer's copy of a symmetric array by
that table, `mimw.tle.distributed_barrier` uses the signal pads that lie at the start of each heap.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import SimulatorMisuse
from .tuples import like

HEAP = 1 << 28          # bytes of a rank's arrays; the system gives memory only to what is touched
PROGRAMS = 4096         # programs of a launch that may synchronise with their counterparts on other ranks
ALIGNED = 256           # where symmetric arrays begin
WORKSPACE = 1 << 24       # bytes behind the pads through which words that move tiles between GPUs (`tle.reshard`) pass them
# The table of a rank: its rank, how many there are, PROGRAMS, then where each rank's heap begins (as this rank reaches it), and
# behind the last of these MULTICAST, where the heaps of all ranks begin for multimem instructions, and WORKSPACE's bytes.
RANK, SIZE, CAPACITY, BASES = range(4)
MULTICAST, WORKSPACE_BYTES = range(2)     # behind BASES + how many ranks there are


class PerRank(Sequence):
    """One array, number or descriptor for each rank; as an argument of a launch, each rank gets its own.

    `is_symmetric` says that the arrays lie at the same offset of every rank's heap, where peers reach them."""

    def __init__(self, values: Sequence[Any], name: str = "", symmetric: bool = False):
        self.values, self.name, self.is_symmetric = tuple(values), name, symmetric

    def __getitem__(self, rank):
        return self.values[rank]

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"{'symmetric' if self.is_symmetric else 'one'} of {len(self)} ranks{f' {self.name!r}' if self.name else ''}"


class World(PerRank):
    """`gpus` simulated GPUs. As an argument of a launch it is each rank's table.

    args:      gpus     how many, 1 or more; by default MIMW_GPUS, which `--gpus` of the commands sets, or 1
               heap     bytes of symmetric arrays at each rank, behind what is reserved
               scratch  bytes of workspace, through which `tle.reshard` passes tiles between GPUs
               dies     by rank, after how many of its steps that GPU dies: it does nothing more, and the run ends in a `RankDied`
                        that says what each of the others would report, unless all of them come to their end; 0: it never starts
               late     by rank, how many steps the others make before that GPU's first, or until they can make none without it
               multicast  whether there is an address of all heaps, for multimem functions; many GPUs have none
    errors:    SimulatorMisuse for a number of GPUs that is none, for a heap that is full, and for a rank that there is not

    A step is an op that others can notice, such as an access to memory or a wait, with the arithmetic before it.
    """

    def __init__(self, gpus: int | None = None, heap: int = HEAP, scratch: int = WORKSPACE, dies: Mapping[int, int] | None = None,
                 late: Mapping[int, int] | None = None, multicast: bool = False):
        asked = os.environ.get("MIMW_GPUS") or "1"
        if gpus is None and not asked.isdecimal():
            raise SimulatorMisuse(f"MIMW_GPUS is {asked!r}", hint="give the number of GPUs")
        gpus = int(asked) if gpus is None else gpus
        if isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 1:
            raise SimulatorMisuse(f"a world of {gpus!r} GPUs", hint="give their number, 1 or more")
        self.dies, self.late = dict(dies or {}), dict(late or {})
        for what, faults in (("dies", self.dies), ("late", self.late)):
            for rank, steps in faults.items():
                if rank not in range(gpus) or isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
                    raise SimulatorMisuse(f"{what}={faults!r} in a world of {gpus} GPUs",
                                          hint=f"give numbers of steps by ranks from 0 to {gpus - 1}: {what}={{0: 40}}")
        self._used = reserved(gpus, scratch)
        self.heaps = [aligned(self._used + heap) for _ in range(gpus)]
        bases = [array.ctypes.data for array in self.heaps]
        # Bytes that are never accessed, for their addresses; of a single GPU the address of all heaps is that of its own.
        self.everyone = None if not multicast else aligned(self._used + heap) if gpus > 1 else self.heaps[0]
        above = self.everyone.ctypes.data if multicast else 0
        super().__init__([np.array(table(rank, bases, above, scratch), np.int64) for rank in range(gpus)], "world")

    def symmetric(self, shape: int | Sequence[int], dtype: Any, name: str = "") -> PerRank:
        """An array of zeros at every rank, at the same offset of each heap, so that peers reach it; `name` is for messages."""
        shape = shape if isinstance(shape, (tuple, list)) else (shape, )
        if not all(isinstance(extent, (int, np.integer)) and not isinstance(extent, bool) and extent >= 0 for extent in shape):
            raise SimulatorMisuse(f"a symmetric array of the shape {tuple(shape)}", hint="give its extents as ints: (64, 32)")
        shape, dtype = tuple(map(int, shape)), _numpys(dtype)
        start = -(-self._used // ALIGNED) * ALIGNED
        size = prod(shape) * dtype.itemsize
        if start + size > self.heaps[0].nbytes:
            raise SimulatorMisuse(f"the symmetric heap of {self.heaps[0].nbytes} bytes has no room for {size} bytes more",
                                  hint=f"World({len(self)}, heap=...) with more bytes")
        self._used = start + size
        return PerRank([heap[start:start + size].view(dtype).reshape(shape) for heap in self.heaps], name, symmetric=True)

    def each(self, values: Callable[[int], Any] | Sequence[Any], name: str = "") -> PerRank:
        """One value for each rank, which only that rank reaches: given as a function of the rank, or as a sequence."""
        values = [values(rank) for rank in range(len(self))] if callable(values) else list(values)
        if len(values) != len(self):
            raise SimulatorMisuse(f"{len(values)} values for a world of {len(self)} GPUs", hint="give one for each rank")
        return PerRank(values, name)

    def __repr__(self) -> str:
        return f"World({len(self)})"


def table(rank: int, bases: Sequence[int], multicast: int = 0, workspace: int = WORKSPACE) -> list[int]:
    """The table of `rank`: int64 entries, in order (docs/DISTRIBUTED.md).

    args:      bases      where each rank's heap begins, as this rank reaches it
               multicast  where the heaps of all ranks begin for multimem instructions; 0 where the GPUs have no such address
               workspace  the bytes that `reserved` has kept for it
    """
    return [rank, len(bases), PROGRAMS, *bases, multicast, workspace]


def reserved(gpus: int, workspace: int = WORKSPACE) -> int:
    """The bytes at the start of a heap that are no array's: the signal pads (zeros, a word for each program and peer), then the
    workspace, which begins at a multiple of ALIGNED and holds anything."""
    return -(-PROGRAMS * gpus * 4 // ALIGNED) * ALIGNED + workspace


def gpus_of(arguments: Sequence[Any], wanted: int | None) -> int:
    """The number of GPUs of a launch: `wanted`, or the number of ranks of its arguments. SimulatorMisuse if these differ."""
    counts = {len(value): value for value in per_rank(arguments)}
    if len(counts) > 1:
        raise SimulatorMisuse(f"arguments of one launch are for {' and for '.join(map(str, sorted(counts)))} ranks",
                              hint="make them all of one mimw.World")
    found = next(iter(counts), 1)
    if wanted is not None and wanted != found:
        what = f"is for {found} ranks" if counts else "is for one GPU: no argument is a mimw.World's"
        raise SimulatorMisuse(f"gpus={wanted}, and the launch {what}",
                              hint=f"world = mimw.World({wanted}); pass arrays of world.symmetric(...) and world.each(...)")
    return found


def per_rank(values: Any) -> Iterator[PerRank]:
    """All `PerRank`s among values, in tuples and lists, too."""
    for value in values:
        if isinstance(value, PerRank):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from per_rank(value)


def at_rank(value: Any, rank: int) -> Any:
    """The value of an argument at a rank."""
    if isinstance(value, PerRank):
        return value[rank]
    if isinstance(value, (tuple, list)) and any(True for _ in per_rank(value)):
        return like(value, [at_rank(item, rank) for item in value])
    return value


def _numpys(dtype: Any) -> np.dtype:
    """numpy's dtype for one of numpy's or torch's."""
    import ml_dtypes  # noqa: F401  numpy learns its types
    try:
        return np.dtype(str(dtype).removeprefix("torch.") if "torch" in str(dtype) else dtype)
    except TypeError:
        raise SimulatorMisuse(f"a symmetric array of the type {dtype!r}", hint='give a type of numpy or torch, or its name: '
                              '"float16", "bfloat16", "float8_e4m3fn"') from None


def aligned(size: int) -> np.ndarray:
    """Bytes of zeros that begin at a multiple of ALIGNED."""
    whole = np.zeros(size + ALIGNED, np.uint8)
    skip = -whole.ctypes.data % ALIGNED
    return whole[skip:skip + size]
