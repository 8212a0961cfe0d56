"""The facts of an operator that has a page: its function, row in docs/OPERATORS.md, its file, the operators of torch behind it.

    shown()                             the functions of `mimw.ops`, then those of `mimw.ops.distributed`
    shown()[9].row["on sm_90"]          "`gemm`, `batched_gemm`; ..."

Input: the modules, and the tables of docs/OPERATORS.md that people write. Output: `Operator`s, in the order of the pages.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType, ModuleType

import mimw.ops
import mimw.ops.distributed
from docs.support.operator_examples import OF_ONE, OF_SEVERAL
from mimw.ops.operator import OPERATORS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TABLES = DOCS / "OPERATORS.md"
BEGIN, END = "<!-- made by docs/support/operator_pages.py -->\n", "<!-- end of what is made -->\n"
SEVERAL = "## Of several GPUs"
# Operators of torch that a function calls for some of its arguments, and whose names do not begin with its own.
BEHIND = {"add_layer_norm": "layer_norm", "add_rms_norm": "rms_norm", "norm_backward": "layer_norm", "scale_rows_": "cross_entropy",
          "linear_sums": "linear_cross_entropy", "add_product_": "linear_cross_entropy", "all_rows": "all_gather_matmul"}
# Functions that are no operators of torch, and so have no row.
MADE_OF_OTHERS = {
    "moe": {"on sm_90": "`moe_dispatch`, `moe_experts` and `moe_combine`",
            "types": "bf16, fp16, fp32; matrices also of fp8, with scales", "derivative": "no"},
    "scaled_dot_product_attention": {
        "on sm_90": "what `attention` says, and for masks of keys what `attention_varlen` says; torch for other masks and dropout",
        "elsewhere": "the same", "types": "bf16, fp16, fp32; the others by torch", "shapes and strides": "all of torch's",
        "derivative": "yes, the first; torch's where torch computes", "under autocast": "the region's type", "tested on": "CPU"}}
TOOLS = frozenset({"available", "explain"})      # functions that say something of operators, and have no page


@dataclass(frozen=True)
class Operator:
    """One function of `room`."""

    room: ModuleType
    name: str

    @property
    def function(self) -> FunctionType:
        return getattr(self.room, self.name)

    @property
    def several(self) -> bool:
        """True if it is of several GPUs."""
        return self.room is mimw.ops.distributed

    @property
    def file(self) -> str:
        """The page, under docs/."""
        return f"operators/{'distributed/' * self.several}{self.name}.md"

    @property
    def title(self) -> str:
        return f"{'distributed.' * self.several}{self.name}"

    @property
    def up(self) -> str:
        """From the page's folder to docs/."""
        return "../../" if self.several else "../"

    @property
    def example(self) -> str:
        return (OF_SEVERAL if self.several else OF_ONE)[self.name]

    @property
    def first(self) -> str:
        """The first paragraph of the docstring."""
        return " ".join(inspect.getdoc(self.function).partition("\n\n")[0].split())

    @cached_property
    def row(self) -> dict[str, str]:
        """Its cells in docs/OPERATORS.md, by column."""
        found = rows(self.several)
        return found.get(self.name) or MADE_OF_OTHERS[self.name]

    @property
    def operators(self) -> list[str]:
        """The operators of torch behind it."""
        return sorted(name for name, room in operators_of_torch().items() if room is self.room and owner(name, room) == self.name)


@cache
def shown() -> tuple[Operator, ...]:
    return tuple(Operator(room, name) for room in (mimw.ops, mimw.ops.distributed) for name in sorted(room.__all__)
                 if isinstance(getattr(room, name), FunctionType) and name not in TOOLS)


def operators_of_torch() -> dict[str, ModuleType]:
    """Ours, each with the room that it belongs to."""
    return {name: mimw.ops.distributed if one.run.__module__.startswith("mimw.ops.distributed") else mimw.ops
            for name, one in OPERATORS.items() if one.run.__module__.startswith("mimw.ops.")}


def owner(operator: str, room: ModuleType) -> str:
    """The function of `room` on whose page an operator of torch stands: the longest name that its own begins with."""
    return BEHIND.get(operator) or max((name for name in room.__all__ if operator.startswith(name)), key=len)


@cache
def rows(several: bool) -> dict[str, dict[str, str]]:
    """Operator -> column -> cell, of the tables that people write."""
    text = TABLES.read_text().partition(END)[2]
    part = text.partition(SEVERAL)[2 if several else 0]
    head, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("| ")]
    return {name: dict(zip(head[1:], row[1:])) for row in body for name in re.findall(r"`(\w+)`", row[0])}
