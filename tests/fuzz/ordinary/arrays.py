"""Arrays of an ordinary kernel, and the lines that load and store their tiles: by descriptors or by pointers.

Input: which axes an array has, and choices. Output: expressions in `tl`, the arguments of the kernel, and numpy's side of them.
For example:

    a = Array("a", ("M", "K"), ("R", "C"), "fp16", "pointers")
    a.load("m", "k0", masks=("M", ))        tl.load(a + (m + ri)[:, None] * a_s + (k0 + ci)[None, :], mask=(m + ri)[:, None] < M,
    other=0.0)

Tiles are `R` x `C` or `C` x `C`; `ri` and `ci` are their positions. Arrays are as large as whole tiles, and the extents `M`, `N`,
`K` may
be smaller: so a load without a mask stays inside.
"""

from __future__ import annotations

from dataclasses import dataclass

TL = {"fp16": "tl.float16", "bf16": "tl.bfloat16", "fp32": "tl.float32", "fp8e4nv": "tl.float8e4nv", "i8": "tl.int8",
    "i32": "tl.int32"}
POSITIONS = {"R": "ri", "C": "ci"}


@dataclass
class Array:
    """`axes`: the names of its extents; `tile`: the names of its tile's; `mode`: host, kernel or pointers; `turned`: it lies in
    memory
    with its axes exchanged; `gap`: elements between two rows, more than its columns; `named`: rows in memory are those that a
    vector names, `a_at` of `a`."""

    name: str
    axes: tuple[str, str]
    tile: tuple[str, str]
    element: str
    mode: str = "host"
    turned: bool = False
    gap: int = 0
    wide: bool = False
    named: bool = False
    loaded: bool = False
    stored: bool = False

    @property
    def parameters(self) -> list[str]:
        pointer = [] if self.mode == "host" else [self.name]
        return [*([f"{self.name}_desc"] if self.mode == "host" else pointer), *([f"{self.name}_s"] if self.mode != "host" else [])]

    @property
    def made(self) -> list[str]:
        """The lines in front of all others: a descriptor that the kernel makes."""
        if self.mode != "kernel":
            return []
        shape, block = (f"[{one}, {other}]" for one, other in (self.in_memory(self.axes), self.in_memory(self.tile)))
        return [f"{self.name}_desc = tl.make_tensor_descriptor({self.name}, {shape}, [{self.name}_s, 1], {block})"]

    def in_memory(self, pair: tuple) -> tuple:
        return pair[::-1] if self.turned else pair

    def load(self, row: str, col: str, masks=(), other: str = "0.0") -> str:
        """The tile at (row, col), as an expression; `masks` has the axes that are masked."""
        self.loaded = True
        if self.mode != "pointers":
            at = ", ".join(self.in_memory((row, col)))
            return f"{self.name}_desc.load([{at}]){'.T' if self.turned else ''}"
        mask = self.mask(row, col, masks)
        return f"tl.load({self.address(row, col)}{f', mask={mask}, other={other}' if mask else ''})"

    def store(self, row: str, col: str, value: str, masks=()) -> str:
        self.stored = True
        value = f"{value}.to({TL[self.element]})"
        if self.mode != "pointers":
            at = ", ".join(self.in_memory((row, col)))
            return f"{self.name}_desc.store([{at}], {value}{'.T' if self.turned else ''})"
        mask = self.mask(row, col, masks)
        return f"tl.store({self.address(row, col)}, {value}{f', mask={mask}' if mask else ''})"

    def address(self, row: str, col: str) -> str:
        row, col = f"({row} + {POSITIONS[self.tile[0]]})", f"({col} + {POSITIONS[self.tile[1]]})"
        if self.named:
            row, col = (row, f"tl.load({self.name}_at + {col})") if self.turned else (f"tl.load({self.name}_at + {row})", col)
        rows, cols = f"{row}[:, None]", f"{col}[None, :]"
        cast = ".to(tl.int64)" if self.wide else ""
        if self.turned:
            return f"{self.name} + {rows} + {cols}{cast} * {self.name}_s"
        return f"{self.name} + {rows}{cast} * {self.name}_s + {cols}"

    def mask(self, row: str, col: str, masks) -> str:
        found = []
        if self.axes[0] in masks:
            found.append(f"(({row} + {POSITIONS[self.tile[0]]})[:, None] < {self.axes[0]})")
        if self.axes[1] in masks:
            found.append(f"(({col} + {POSITIONS[self.tile[1]]})[None, :] < {self.axes[1]})")
        return " & ".join(found)
