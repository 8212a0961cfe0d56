"""A random ordinary Triton kernel with loops, and what it is launched with.

Input: a seed, or a record of draws. Output: an `Ordinary`. For example:

    program, draws = drawn(7)
    print(program.source)           a module with `kernel`, in `tl` words alone
    program.arguments()             its arguments: numbers, arrays and descriptors of numpy's, the same ones at each call

A kernel is a frame (programs of a grid, tiles in turn, heads in a loop) around loops (`for`, `while`, nested, one behind the
other), whose bodies
`statements` fills, and an epilogue. Numbers are small enough to stay finite; a run is compared with another run, and by no other
rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np

from ..draws import Draws
from .arrays import TL, Array

DTYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp8e4nv": ml_dtypes.float8_e4m3fn, "i8": np.int8,
          "i32": np.int32}
ENTRIES = 64        # of the table
BOUND = "(0, K, C)"     # of a loop, whose end may be loaded


@dataclass(frozen=True)
class Ordinary:
    """A program. `sizes` are the numbers that its kernel takes; `arrays` its arrays in the order of its parameters; of a `whole`
    one numbers are integers, so small that most sums are exact in every order (`exact.py` says whether all are)."""

    seed: int
    source: str
    grid: tuple[int, ...]
    arrays: tuple[Array, ...]
    vectors: tuple[str, ...]
    sizes: dict[str, int]
    constants: dict[str, int]
    extents: dict[str, int]
    warps: int
    alias: tuple[str, str] | None = None
    whole: bool = False

    def arguments(self, **changed: int) -> list[Any]:
        """The arguments, anew; of sizes some may be others."""
        import mimw
        rng, made, given = np.random.default_rng(self.seed), {}, []
        lengths = {**self.extents, **self.constants}
        for array in self.arrays:
            rows, cols = (lengths[axis] for axis in array.in_memory(array.axes))
            base = _random(rng, (rows, cols + array.gap), array.element, self.whole)
            if self.alias and self.alias[0] == array.name:
                base = made[self.alias[1]]
            made[array.name] = base
            if array.mode == "host":
                shape = [self.sizes.get(axis, lengths[axis]) for axis in array.in_memory(array.axes)]
                block = [self.constants[axis] for axis in array.in_memory(array.tile)]
                given.append(mimw.TensorDescriptor(base, shape, [base.shape[1], 1], block))
            else:
                given += [base, base.shape[1]]
        for name in self.vectors:
            if name == "table":
                given.append(rng.integers(0, 2, ENTRIES).astype(np.int32))
            elif name == "ends":
                given.append(np.array([self.sizes["K"]], np.int32))
            elif name.endswith("_at"):
                given.append(rng.permutation(len(made[name.removesuffix("_at")])).astype(np.int32))
            else:
                given.append(_random(rng, (lengths["T"] if name == "peaks" else 1024, ), "fp32", self.whole))
        return given + list({**self.sizes, **changed}.values())


def _random(rng, shape: tuple[int, ...], element: str, whole: bool = False) -> np.ndarray:
    if element in ("i8", "i32"):
        return rng.integers(-4, 5, shape).astype(DTYPES[element])
    if whole:
        most = 1 if element == "fp8e4nv" else 2
        return rng.integers(-most, most + 1, shape).astype(DTYPES[element])
    return (rng.standard_normal(shape, np.float32) * 0.25).astype(DTYPES[element])


@dataclass
class Frame:
    """What stands around the loops while they are drawn: choices, lines, arrays, and the tiles that are in sight."""

    draws: Draws
    element: str
    whole: bool = False     # numbers stay integers
    seed: int = 0
    lines: list[str] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    vectors: list[str] = field(default_factory=list)
    tiles: list[tuple[str, str, str]] = field(default_factory=list)     # (name, shape, kind)
    depth: int = 0
    number: int = 0
    own: str = "0"          # the first row of what this program alone writes
    has_dot: bool = False

    @property
    def sum(self) -> str:
        """The kind of products' sums."""
        return "i32" if self.element == "i8" else "fp32"

    def put(self, line: str) -> None:
        self.lines.append("    " * (self.depth + 1) + line)

    def times(self, value: str, factor: str) -> str:
        """The product of a tile and a factor of at most 1; rounded down where numbers stay integers."""
        return f"tl.floor({value} * {factor})" if self.whole else f"{value} * {factor}"

    def power(self, exponent: str, least: float, added: float = 0.0) -> str:
        """2 to a power of at most 0; where numbers stay integers, at least `least`, and `added` more."""
        if not self.whole:
            return f"tl.exp2({exponent})"
        return f"tl.exp2(tl.maximum({exponent}, {least}){f' + {added}' if added else ''})"

    def new(self, base: str) -> str:
        self.number += 1
        return f"{base}{self.number}"

    def let(self, base: str, text: str, shape: str, kind: str) -> str:
        name = self.new(base)
        self.put(f"{name} = {text}")
        self.tiles.append((name, shape, kind))
        return name

    def some(self, shape: str, kind: str | None = None) -> list[str]:
        return [name for name, *what in self.tiles if what[0] == shape and kind in (None, what[1])]

    def besides(self, what: str, percent: int) -> bool:
        """A choice by the seed alone, which leaves all draws as they are."""
        return crc32(f"{self.seed} {what}".encode()) % 100 < percent

    def vector(self, name: str) -> str:
        if name not in self.vectors:
            self.vectors.append(name)
        return name

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """A block under `head`, whose tiles go out of sight at its end."""
        self.put(head)
        self.depth += 1
        tiles, start = list(self.tiles), len(self.lines)
        yield
        if len(self.lines) == start:
            self.put("pass")
        self.depth -= 1
        self.tiles = tiles


def drawn(seed: int, record=None, whole: bool = False) -> tuple[Ordinary, Draws]:
    """The program of a seed, or of a record of draws, and its draws. As a `whole` one it has the same statements, with
    exponents and fractions that leave integers integers."""
    draws = Draws(seed * 7919 + 13, record)
    return _program(seed, draws, whole), draws


def _program(seed: int, draws: Draws, whole: bool) -> Ordinary:
    from .statements import epilogue, loops, outside
    frame = Frame(draws, draws.pick(["fp16", "bf16", "fp32", "fp8e4nv", "i8"], [10, 4, 1.5, 1.5, 1.5]), whole, seed)
    constants = {"R": draws.pick([64, 128], [1, 2]), "C": draws.pick([64, 32, 128], [8, 1, 1])}
    if whole and seed % 3:      # a quarter of the code to be compiled
        constants["C"] = 32
    warps = draws.pick([4, 8])
    tiles_m, tiles_n = draws.pick([1, 2], [3, 1]), draws.pick([1, 2], [3, 1])
    trips = draws.pick([2, 1, 3, 0, 4, 5], [3, 2, 3, 1, 2, 1])
    ragged = [draws.pick([0, 1, 8, 16, 24], [5, 1, 2, 1, 1]) for _ in range(3)]
    extents = {"M": tiles_m * constants["R"], "N": tiles_n * constants["C"], "K": max(1, trips) * constants["C"],
               "T": tiles_m * tiles_n * constants["R"]}
    sizes = {"M": extents["M"] - ragged[0], "N": extents["N"] - ragged[1], "K": max(0, trips * constants["C"] - ragged[2]),
             "T": extents["T"], "flag": draws.pick([1, 0])}
    style = draws.pick(["grid", "flat", "tiles", "heads"], [4, 2, 3, 1])
    grid: tuple[int, ...] = (tiles_m, tiles_n)
    if style == "grid":
        frame.put("m, n = tl.program_id(0) * R, tl.program_id(1) * C")
        frame.own = "(tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * R"
    else:
        grid = (tiles_m * tiles_n, )
        frame.put("tiles_n = tl.cdiv(N, C)")
    frame.put("ri, ci = tl.arange(0, R), tl.arange(0, C)")
    frame.put("pid = tl.program_id(0)")
    if style == "flat":
        frame.put("m, n, own = pid // tiles_n * R, pid % tiles_n * C, pid * R")
    if style == "grid":
        frame.put(f"own = {frame.own}")
    frame.own = "own"
    if style == "tiles":
        programs = draws.pick([1, 2, 3], [3, 2, 1])
        grid = (min(programs, tiles_m * tiles_n), )
        sizes["tiles"] = tiles_m * tiles_n
        with frame.inside("for tile in range(pid, tiles, tl.num_programs(0)):"):
            frame.put("m, n, own = tile // tiles_n * R, tile % tiles_n * C, tile * R")
            outside(frame)
            epilogue(frame, loops(frame))
    elif style == "heads":
        sizes["heads"] = draws.pick([2, 1, 3, 0], [3, 1, 1, 0.3])
        frame.put("m, n, own = pid // tiles_n * R, pid % tiles_n * C, pid * R")
        outside(frame)
        with frame.inside("for head in range(heads):"):
            epilogue(frame, loops(frame))
    else:
        outside(frame)
        epilogue(frame, loops(frame))
    if frame.besides("ends", 15) and any(BOUND in line for line in frame.lines):
        ends = frame.vector("ends")
        frame.lines = [line.replace(BOUND, BOUND.replace("K", f"tl.load({ends})")) for line in frame.lines]
    arrays = tuple(frame.arrays.values())
    for array in arrays:        # rows of a byte or two that 16 bytes do not divide, now and then
        array.gap = draws.pick([0, 16, 1], [12, 3, 0.3]) if array.mode == "pointers" else draws.pick([0, 16], [4, 1])
    alias = None
    stored, loaded = ([one for one in arrays if getattr(one, how)] for how in ("stored", "loaded"))
    pairs = [(one.name, other.name) for one in stored for other in loaded if one is not other and _alike(one, other)
             and arrays.index(other) < arrays.index(one)]
    if pairs and grid in ((1, ), (1, 1)) and draws.chance(15):
        alias = draws.pick(pairs)
    names = [*(name for array in arrays for name in array.parameters), *frame.vectors, *sizes,
             *(f"{name}: tl.constexpr" for name in constants)]
    made = [f"    {line}" for array in arrays for line in array.made]
    source = "\n".join(("import triton.language as tl", "", "import mimw", "", "", "@mimw.jit", f"def kernel({', '.join(names)}):",
                        *made, *frame.lines, ""))
    return Ordinary(seed, source, grid, arrays, tuple(frame.vectors), sizes, constants, extents, warps, alias, whole)


def _alike(one: Array, other: Array) -> bool:
    """True if one array can stand in place of the other."""
    return (one.element, one.in_memory(one.axes), one.gap) == (other.element, other.in_memory(other.axes), other.gap)


def cast(text: str, kind: str) -> str:
    return f"{text}.to({TL[kind]})"
