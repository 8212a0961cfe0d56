"""Which thread touches which address: accesses of global memory that leave it, and two threads at one address.

Input: the map of a tile of pointers (`layouts.tile_map`), its addresses and mask as a simulator has them. Output: threads, and
sentences about them. For example:

    access = Access(tile_map(text, (64, 128)), addresses, mask, size=2, writes=True)
    strays(access, [(x, x + 8192)]).lines()                  ["warp 3, lane 17, register 2: element (5, 64)", "and 7 more"]
    meetings(store, load).lines()                            a warp reads what another one has written: right only behind a barrier

An element that its layout gives to several threads is stored by the first of them, and loaded by all: so does Triton's lowering
(it masks the others of a store, PTX `@p st.global`). Stores of one value to one address by several threads are no race.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

import numpy as np

from .layouts import TileMap

SHOWN = 8


@dataclass(frozen=True, eq=False)
class Access:
    """One load or store of a tile of pointers: the address of each element in bytes, int64 of the tile's shape, which of them are
    accessed (None: all), and the bytes of an element. ValueError for arrays of another shape."""

    tile: TileMap
    addresses: np.ndarray
    mask: np.ndarray | None
    size: int
    writes: bool

    def __post_init__(self):
        for name, array in (("addresses", self.addresses), ("mask", self.mask)):
            if array is not None and np.shape(array) != self.tile.shape:
                raise ValueError(f"{name} of shape {np.shape(array)}, but the tile has {self.tile.shape}: broadcast them first")

    @property
    def taken(self) -> np.ndarray:
        return np.ones(self.tile.shape, bool) if self.mask is None else np.asarray(self.mask, bool)


@dataclass(frozen=True)
class Touch:
    """A thread's register that holds an element; `block` is the CTA of the cluster, None in a program of one CTA."""

    warp: int
    lane: int
    register: int
    element: tuple[int, ...]
    address: int
    block: int | None = None

    def __str__(self) -> str:
        return f"{self.thread}: element {self.place}"

    @property
    def thread(self) -> str:
        cta = "" if self.block is None else f"CTA {self.block}, "
        return f"{cta}warp {self.warp}, lane {self.lane}, register {self.register}"

    @property
    def place(self) -> str:
        return f"({', '.join(map(str, self.element))})"


@dataclass(frozen=True)
class Strays:
    """The number of elements that were accessed outside, and the first of them in the order of threads."""

    count: int
    touches: tuple[Touch, ...]

    def lines(self) -> list[str]:
        return _with_rest(list(map(str, self.touches)), self.count)


@dataclass(frozen=True)
class Meeting:
    """Two threads at one address, of which one writes at least."""

    address: int
    one: Touch
    other: Touch
    one_writes: bool
    other_writes: bool

    def __str__(self) -> str:
        return (f"address {self.address:#x}: {self.one.thread} {_does(self.one_writes)} element {self.one.place}, "
                f"{self.other.thread} {_does(self.other_writes)} element {self.other.place}")


@dataclass(frozen=True)
class Meetings:
    """The number of addresses (in the unit in which the accesses overlap) at which threads meet, and the first of them."""

    count: int
    shown: tuple[Meeting, ...]

    def lines(self) -> list[str]:
        return _with_rest(list(map(str, self.shown)), self.count)


def strays(access: Access, spans: Iterable[tuple[int, int]], limit: int = SHOWN) -> Strays:
    """The elements of an access that lie, with a byte at least, outside all `spans`, (first byte, byte behind the last)."""
    addresses, inside = np.asarray(access.addresses, np.int64), np.zeros(access.tile.shape, bool)
    for first, end in spans:
        inside |= (addresses >= first) & (addresses + access.size <= end)
    threads = np.sort(_first_threads(access.tile)[(access.taken & ~inside).reshape(-1)])
    return Strays(len(threads), tuple(_touch(access, int(thread)) for thread in threads[:limit]))


def meetings(one: Access, other: Access, limit: int = SHOWN, replicas: bool = True) -> Meetings:
    """The addresses at which threads of different warps meet, in two accesses of which one writes: races without a barrier between.

    Threads of one warp are left out: what a warp does to memory it does in the order of its program. Without `replicas` an element
    is loaded by the first thread that holds it, alone: right where nobody needs the value in the others, as where it is only stored
    again in the same layout.
    """
    if not (one.writes or other.writes):
        return Meetings(0, ())
    unit = _unit(one, other)
    mine, theirs = _Units.of(one, unit, replicas), _Units.of(other, unit, replicas)
    at = np.searchsorted(mine.places, theirs.units).clip(max=max(0, len(mine.places) - 1))
    if not len(mine.places) or not len(theirs.units):
        return Meetings(0, ())
    warps = theirs.threads // theirs.of_warp
    lowest, highest = mine.lowest[at], mine.highest[at]
    apart = np.where(lowest // mine.of_warp != warps, lowest, highest)
    met = (mine.places[at] == theirs.units) & (apart // mine.of_warp != warps)
    places, firsts = np.unique(theirs.units[met], return_index=True)
    pairs = zip(places[:limit], apart[met][firsts[:limit]], theirs.threads[met][firsts[:limit]])
    return Meetings(len(places), tuple(_meeting(one, other, int(place) * unit, int(a), int(b)) for place, a, b in pairs))


def overwritten(store: Access, values: np.ndarray | None = None, limit: int = SHOWN) -> Meetings:
    """Addresses that different elements of one store go to: which of them remains nobody says, neither between warps nor between
    the lanes of a warp. With `values`, of the tile's shape, elements that store the same are left out."""
    unit = gcd(_unit(store, store), store.size)
    found = _Units.of(store, unit)
    elements = store.tile.elements().reshape(-1)
    places = np.searchsorted(found.places, found.units)
    differs = found.threads != found.lowest[places]
    if values is not None:      # compared as bits, and only where the elements cover each other
        held = np.ascontiguousarray(values).reshape(-1)
        addresses, bits = np.asarray(store.addresses, np.int64).reshape(-1), held.view(f"V{held.dtype.itemsize}")
        mine, theirs = elements[found.threads], elements[found.lowest[places]]
        differs &= (bits[mine] != bits[theirs]) | (addresses[mine] != addresses[theirs])
    met, firsts = np.unique(found.units[differs], return_index=True)
    shown = zip(met[:limit], found.lowest[places][differs][firsts[:limit]], found.threads[differs][firsts[:limit]])
    return Meetings(len(met), tuple(_meeting(store, store, int(place) * unit, int(a), int(b)) for place, a, b in shown))


@dataclass(frozen=True)
class _Units:
    """The pieces of memory that the threads of an access touch, `unit` bytes each: of each register a row of `units` and `threads`;
    and of each piece, in `places` in order, the first and the last of its threads."""

    units: np.ndarray
    threads: np.ndarray
    places: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    of_warp: int

    @classmethod
    def of(cls, access: Access, unit: int, replicas: bool = True) -> _Units:
        held = access.tile.elements()
        elements = held.reshape(-1)
        alone = access.writes or not replicas
        threads = np.sort(_first_threads(access.tile)) if alone else np.arange(len(elements))
        threads = threads[access.taken.reshape(-1)[elements[threads]]]
        starts = np.asarray(access.addresses, np.int64).reshape(-1)[elements[threads]] // unit
        pieces = access.size // unit
        units = (starts[:, None] + np.arange(pieces)).reshape(-1)
        threads = np.repeat(threads, pieces)
        order = np.lexsort((threads, units))
        units, threads = units[order], threads[order]
        places, first = np.unique(units, return_index=True)
        last = np.append(first[1:], len(units)) - 1
        return cls(units, threads, places, threads[first], threads[last], held.shape[2] * held.shape[3])


def _unit(one: Access, other: Access) -> int:
    """The bytes of which all addresses and sizes of two accesses are multiples."""
    found = gcd(one.size, other.size)
    for access in (one, other):
        found = gcd(found, int(np.gcd.reduce(np.asarray(access.addresses, np.int64)[access.taken], initial=0)))
    return found


@lru_cache(maxsize=256)
def _first_threads(tile: TileMap) -> np.ndarray:
    """For each element, by its row-major number, the first thread's register that holds it, as an index into all of them."""
    elements = tile.elements().reshape(-1)
    found = np.empty(int(np.prod(tile.shape)), np.int64)
    found[elements[::-1]] = np.arange(len(elements))[::-1]      # of equal indices numpy keeps the last
    return found


def _touch(access: Access, thread: int) -> Touch:
    held = access.tile.elements()
    block, warp, lane, register = (int(part) for part in np.unravel_index(thread, held.shape))
    element = tuple(int(part) for part in np.unravel_index(held.reshape(-1)[thread], access.tile.shape))
    return Touch(warp, lane, register, element, int(np.asarray(access.addresses)[element]), block if access.tile.blocks else None)


def _meeting(one: Access, other: Access, address: int, first: int, second: int) -> Meeting:
    return Meeting(address, _touch(one, first), _touch(other, second), one.writes, other.writes)


def _does(writes: bool) -> str:
    return "writes" if writes else "reads"


def _with_rest(lines: list[str], count: int) -> list[str]:
    return lines + ([f"and {count - len(lines)} more"] if count > len(lines) else [])
