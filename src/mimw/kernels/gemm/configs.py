"""Which configuration for which problem. The measured choices are data, in `configs.json`, with the command that made
them.

Input: M, N, K and the bytes of an input element. Output: a `Configuration`, which gives the kernel's tiles, and the
blocks of its descriptors. For example:

    chosen = configuration(4096, 4096, 4096)    Configuration(bm=128, bn=128, group_m=8, stages=6, ping_pong=True, ...)
    chosen.tiles(2, 2, False)                   Tiles(BM=128, BN=128, GROUP_M=8, BK=64, CONSUMERS=2, PIECES=2, ...)
    chosen.blocks(2, 2, False)                  [128, 64], [64, 128], [128, 64]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import gcd
from pathlib import Path
from typing import Any

import triton

from mimw import TensorDescriptor

from ..chosen import because
from ..descriptors import Maps, described
from ..measured import by_chip
from .pieces import widths
from .rounds import by_rounds
from .tiles import Form, LoadedForm, Tiles, is_between, whole_lines

RING_BYTES_PER_ROW = 128  # one swizzle row: BK elements of any type
CHUNK, SUMS, HANDED_ON = 0.34, 4.0, 3.0     # microseconds: of a chunk of a tile, of adding others' sums, of leaving sums to others
# Programs a tile. Triton 3.8 moves sums that a `while` carries through shared memory, 32 KB of it, which tail.py has not.
PARTS = () if triton.__version__.startswith("3.8.") else (2, 3, 4, 6, 8, 16)
SHARED_BYTES, BESIDES = 227 << 10, 2048     # of a CTA on sm_90; of them barriers, and what Triton's ops take besides
STOLEN_K, STOLEN_ROUNDS = 256, 16           # bytes of a row of A, and tiles a program: where stealing tiles is quicker (`steals`)
FEW = 66    # tiles of 128 x 128 that leave half of the chip's programs without work


@dataclass(frozen=True)
class Configuration:
    """BM x BN output tiles by `consumers` warpgroups, loaded by `load_warps`; the rest as in kernel.py. BK and PIECES follow from
    the types. `together` is for promoted sums alone: the products of so many chunks overlap (promoted.py)."""

    bm: int = 128
    bn: int = 256
    group_m: int = 8
    stages: int = 4
    consumers: int = 2
    staging: int = 2
    ping_pong: bool = False
    together: int = 1
    load_warps: int = 1

    def tiles(self, in_bytes: int, out_bytes: int, b_is_nk: bool, cut: bool = False, a_is_km: bool = False) -> Tiles:
        """The kernel's tiles for element sizes in bytes; `cut`: of a kernel that stores pieces of several widths.

        Staging tiles are used in turn and each output tile starts with the first, so their number divides that of equal pieces.
        """
        pieces = self.pieces(out_bytes, cut)
        staging = min(self.staging, pieces.count(pieces[0])) if isinstance(pieces, tuple) else gcd(self.staging, pieces)
        return Tiles(self.bm, self.bn, self.group_m, RING_BYTES_PER_ROW // in_bytes, self.consumers, pieces, staging,
                     self.ping_pong, b_is_nk, a_is_km)

    def form(self, in_bytes: int, out_bytes: int, b_is_nk: bool, cut: bool = False) -> Form:
        """The constants of a launch that has no others."""
        return Form(self.tiles(in_bytes, out_bytes, b_is_nk, cut), self.stages)

    def loaded(self, in_bytes: int, out_bytes: int, b_is_nk: bool, cut: bool = False) -> LoadedForm:
        """Those of a kernel whose load takes `load_warps`."""
        return LoadedForm(self.tiles(in_bytes, out_bytes, b_is_nk, cut), self.stages, self.load_warps)

    def blocks(self, in_bytes: int, out_bytes: int, b_is_nk: bool, a_is_km: bool = False) -> tuple[list[int], list[int], list[int]]:
        """Blocks of A, B and C that their descriptors copy at a time."""
        bk = RING_BYTES_PER_ROW // in_bytes
        b = [self.bn, bk] if b_is_nk else [bk, whole_lines(self.bn, bk)]
        return [bk, self.bm] if a_is_km else [self.bm, bk], b, [self.rows(), self.bn // self.pieces(out_bytes)]

    def stored(self, out_bytes: int) -> list[int]:
        """The widths of C's blocks, the widest first, for a kernel that stores pieces of several widths."""
        pieces = self.pieces(out_bytes, cut=True)
        return sorted(set(pieces), reverse=True) if isinstance(pieces, tuple) else [self.bn // pieces]

    def output(self, c: Any, describe: Callable[[Any, list[int]], TensorDescriptor] = described) -> TensorDescriptor | Maps:
        """C as such a kernel takes it: a descriptor, or one for each width, made by `describe` of C and a block."""
        made = [describe(c, [self.rows(), columns]) for columns in self.stored(c.dtype.itemsize)]
        return Maps(made) if is_between(self.bn) else made[0]

    def pieces(self, out_bytes: int, cut: bool = False) -> int | tuple[int, ...]:
        """Pieces, a line wide, in which a tile is stored. Of a tile as wide as no power of two one, of stripes as TMA swizzles it,
        or `cut` the widths of several."""
        if is_between(self.bn):
            return widths(self.bn, RING_BYTES_PER_ROW // out_bytes) if cut else 1
        return max(1, self.bn * out_bytes // RING_BYTES_PER_ROW)

    def shared_bytes(self, in_bytes: int, out_bytes: int, b_is_nk: bool = True) -> int:
        """Of the ring and of the staging tiles; barriers and Triton's own ops take some more (BESIDES)."""
        tiles, (widest, *narrower) = self.tiles(in_bytes, out_bytes, b_is_nk, cut=True), self.stored(out_bytes)
        columns = self.bn if b_is_nk else whole_lines(self.bn, RING_BYTES_PER_ROW // in_bytes)
        staging = tiles.STAGING.value * widest + sum(narrower)
        return (self.stages * (self.bm + columns) * RING_BYTES_PER_ROW
                + self.consumers * self.rows() * staging * out_bytes)

    def fitted(self, in_bytes: int, out_bytes: int, b_is_nk: bool, residual: bool = False,
               activated: bool = False) -> Configuration:
        """The same with as many stages as fit, never more than it has. A tile as wide as no power of two has a residual's tiles
        beside its own, and an activation takes registers that its consumers lack when they take turns."""
        most = SHARED_BYTES - BESIDES
        if residual and is_between(self.bn):
            tiles = self.tiles(in_bytes, out_bytes, b_is_nk, cut=True)
            most -= tiles.STAGING.value * self.consumers * self.rows() * RING_BYTES_PER_ROW
        of = replace(self, ping_pong=self.ping_pong and not (activated and is_between(self.bn)))
        while of.stages > 2 and of.shared_bytes(in_bytes, out_bytes, b_is_nk) > most:
            of = replace(of, stages=of.stages - 1)
        return of

    def sharers(self, m: int, n: int, k: int, in_bytes: int, programs: int) -> int | None:
        """The number of programs that best share out the tiles of the last round (tail.py); None where whole tiles are as good."""
        return self.last_round(m, n, k, in_bytes, programs)[1]

    def steals(self, m: int, n: int, k: int, in_bytes: int, programs: int) -> bool:
        """True where programs are to steal tiles: of 8-bit inputs with few chunks, whose stores bound a launch. SMs get unequal
        shares of the memory then, and with as many tiles each the first one ends after 71 % of the time. Of 16-bit inputs equal
        shares were quicker (benchmarks/notes/gemm.md, "Stolen tiles")."""
        tiles = -(-m // self.bm) * -(-n // self.bn)
        return in_bytes == 1 and k <= STOLEN_K and tiles >= STOLEN_ROUNDS * programs

    def tile_time(self, k: int, in_bytes: int) -> float:
        """Microseconds of a tile: a chunk takes the tensor cores 512 cycles for each 128 x 128."""
        return -(-k * in_bytes // RING_BYTES_PER_ROW) * CHUNK * self.bm * self.bn / (128 * 128)

    def last_round(self, m: int, n: int, k: int, in_bytes: int, programs: int) -> tuple[float, int | None]:
        """(microseconds, sharers) of the last round.

        Who ends a tile waits for the sums of each program in front, one after the other: so measured by shapes that gain nothing
        (benchmarks/notes/gemm.md).
        """
        steps, tiles = -(-k * in_bytes // RING_BYTES_PER_ROW), -(-m // self.bm) * -(-n // self.bn)
        left, size = tiles % programs, self.bm * self.bn / (128 * 128)
        found = [(self.tile_time(k, in_bytes), None)]
        for parts in PARTS if left and programs ** 2 * steps < 1 << 31 else ():
            sharers = min(programs, parts * left)
            others = -(-sharers // left) - (sharers % left == 0)
            found.append((-(-left * steps // sharers) * CHUNK * size + HANDED_ON + others * SUMS * size, sharers))
        return min(found, key=lambda one: one[0])

    def rows(self) -> int:
        """Rows of C that one consumer stores at a time."""
        return self.bm if self.ping_pong else self.bm // self.consumers


# Configurations for AMD's chips: what fits their shared memory, with four waves that load, so that nothing spills. Each was
# compiled (tests/kernels/test_on_amd.py); nothing was measured.
ON_AMD = {"gfx942": Configuration(bm=64, bn=64, stages=3, consumers=1, staging=1, load_warps=4),
          "gfx950": Configuration(bm=128, bn=128, stages=2, staging=1, load_warps=4),
          "gfx1250": Configuration(bm=128, bn=128, stages=3, staging=1, load_warps=4)}


@by_chip(Path(__file__).parent / "configs.json")
def _measured(rows: list[dict]) -> dict[tuple[int, int, int, int], Configuration]:
    """(M, N, K, bytes per input element) -> the fastest configuration found on the chip that the file names, of powers of two."""
    return {_key(row): Configuration(**row["configuration"]) for row in rows if "columns" not in row}


@by_chip(Path(__file__).parent / "configs.json")
def _of_any_columns(rows: list[dict]) -> dict[tuple[int, int, int, int], Configuration]:
    """The same of tiles as wide as no power of two, which rounds decide: they hold for their very shapes."""
    return {_key(row): Configuration(**row["configuration"]) for row in rows if "columns" in row}


def _key(row: dict) -> tuple[int, int, int, int]:
    m, n, k = row["shape"]
    return m, n, k, row["in_bytes"]


def configuration(m: int, n: int, k: int, in_bytes: int = 2, programs: int | None = None) -> Configuration:
    """The configuration for a problem: the measured one of the nearest shape class; for so many `programs`, where the very shape
    was not measured, another one if its tiles leave fewer of them without work (rounds.py).

    Nearness counts factors of two in each extent; other element sizes fall back on the 16-bit rows. Problems of FEW tiles have
    rows of their own, if there are any: what is best for them, small tiles, is not for a long matrix that is as narrow.
    """
    chosen, key = _nearest(m, n, k, in_bytes), (m, n, k, in_bytes)
    if programs is not None and key in _of_any_columns():
        return _of_any_columns()[key]
    if programs is None or key in _measured():
        return chosen
    found = by_rounds(chosen, m, n, k, in_bytes, programs)
    if found != chosen:
        because("gemm", f"then other tiles, which leave fewer of {programs} programs without work")
    return found


def _nearest(m: int, n: int, k: int, in_bytes: int) -> Configuration:
    rows = _measured()
    same = [key for key in rows if key[3] == in_bytes] or list(rows)
    same = [key for key in same if _few(*key[:2]) == _few(m, n)] or same

    def distance(key) -> float:
        return sum(abs((extent / other) - 1) if extent == other else abs(_log2(extent) - _log2(other))
                   for extent, other in zip((m, n, k), key))

    return rows[min(same, key=distance)] if same else Configuration()


def _few(m: int, n: int) -> bool:
    return -(-m // 128) * -(-n // 128) <= FEW


def _log2(extent: int) -> int:
    return max(1, extent).bit_length()


def as_row(shape: tuple[int, int, int], in_bytes: int, chosen: Configuration) -> dict:
    """One row of `configs.json`; one of a tile as wide as no power of two stands beside that of powers of two."""
    columns = {"columns": "any"} if is_between(chosen.bn) else {}
    return {"shape": list(shape), "in_bytes": in_bytes, **columns, "configuration": asdict(chosen)}


__all__ = ["ON_AMD", "Configuration", "as_row", "configuration", "replace"]
