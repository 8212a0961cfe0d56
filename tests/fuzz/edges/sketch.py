"""A program under construction: kernel text, numpy text, arguments, planted mistakes.

    s = Sketch(draws)
    x, y = s.array("i32", (64,), ("edges", 1)), s.output("i32", (64,))
    s.kernel(f"tl.store({y} + tl.arange(0, 64), -tl.load({x} + tl.arange(0, 64)))")
    s.reads(f"{y}[...] = (-{x}.astype(np.int64)).astype(np.int32)")
    s("numbers", 3)                                 # the `Program`

The numpy text is the body of a function of one CTA, `program(pid, rank, peers, ..)`: it may `yield` where CTAs meet (prelude.py).
"""

from __future__ import annotations

import re
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod

from ..draws import Draws
from ..printer import HEAD
from ..tree import Argument, Break, Program


@dataclass
class Sketch:
    """`cluster`: CTAs of a cluster; `meshed`: a mesh of the kernel's makes it; `chip`: whose rules hold. Texts are dedented, and
    stand as deep as the blocks that are open."""

    draws: Draws
    grid: tuple[int, ...] = (1,)
    cluster: int = 1
    meshed: bool = False
    chip: str = "sm_90a"
    warps: tuple[int, ...] = (4, 8, 2, 1)
    arguments: dict[str, Argument] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    reading: list[str] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    meta: dict = field(default_factory=dict)
    skips: dict[str, str] = field(default_factory=dict)
    depth: int = 0
    marks: int = 0

    @property
    def programs(self) -> int:
        return prod(self.grid)

    def _named(self, stem: str) -> str:
        return f"{stem}{sum(name.startswith(stem) for name in self.arguments)}"

    def array(self, element: str, shape, fill: tuple | None = None) -> str:
        """An input; without `fill` small integers, drawn by a seed of its own."""
        name = self._named("x")
        fill = fill or ("ints", 0 if element[0] == "u" else -8, 8, len(self.arguments))
        self.arguments[name] = Argument(name, "array", element, tuple(shape), fill)
        return name

    def output(self, element: str, shape, fill: tuple = ("zeros",), tolerance: float = 0.0) -> str:
        name = self._named("y")
        self.arguments[name] = Argument(name, "array", element, tuple(shape), fill, output=True, tolerance=tolerance)
        return name

    def number(self, value: int) -> str:
        name = self._named("n")
        self.arguments[name] = Argument(name, "number", value=value)
        return name

    def descriptor(self, array: str, block) -> str:
        name = self._named("d")
        self.arguments[name] = Argument(name, "descriptor", of=array, block=tuple(block))
        return name

    def seed(self) -> int:
        """A seed for an array's numbers."""
        return self.draws.integer(0, 9999)

    # ---- texts -----------------------------------------------------------------------------------------------------------

    def function(self, text: str) -> None:
        """A function of the kernel's module, once."""
        text = textwrap.dedent(text).strip("\n")
        if text not in self.functions:
            self.functions.append(text)

    def helper(self, text: str) -> None:
        """A function of the numpy side, once."""
        text = textwrap.dedent(text).strip("\n")
        if text not in self.helpers:
            self.helpers.append(text)

    def kernel(self, *texts: str) -> None:
        self.lines += [textwrap.indent(textwrap.dedent(text).strip("\n"), "    " * self.depth) for text in texts]

    def reads(self, *texts: str) -> None:
        self.reading += [textwrap.dedent(text).strip("\n") for text in texts]

    @contextmanager
    def block(self, head: str):
        """What is written inside stands under `head`."""
        self.kernel(head)
        self.depth += 1
        yield
        self.depth -= 1

    def tasks(self, *texts: str) -> None:
        """One task of TLX for each text, in this order or the other; the first one's warps are the launch's."""
        with self.block("with tlx.async_tasks():"):
            for index, text in enumerate(texts if self.draws.chance(50) else texts[::-1]):
                workers = f"with tlx.async_task(num_warps={self.draws.pick([4, 2, 1])}):"
                with self.block(workers if index else 'with tlx.async_task("default"):'):
                    self.kernel(text)
        self.meta["num_warps"] = self.draws.pick([4, 8])

    def partitions(self, *parts: tuple[str, str, str]) -> None:
        """One partition of TLE for each (text, name of its end of a pipe, that end), in this order or the other; it knows the
        kernel's arguments and `pid`."""
        names, calls, workers = ", ".join(self.arguments), [], []
        for index, (text, name, end) in enumerate(parts if self.draws.chance(50) else parts[::-1]):
            self.function(f"@mimw.jit\ndef part{index}({names}, pid, {name}):\n" + textwrap.indent(text, "    "))
            calls.append(f"(part{index}, ({names}, pid, {end}))")
            workers += [self.draws.pick([4, 2, 1])] if index else []
        self.kernel(f"tle.gpu.warp_specialize([{', '.join(calls)}], {workers}, {[64] * len(workers)})")
        self.meta["num_warps"] = self.draws.pick([4, 8])

    def mark(self) -> str:
        """A comment that tells a line from all others."""
        self.marks += 1
        return f"  # m{self.marks}"

    def mistake(self, old: str, new: str, why: str) -> None:
        """A planted mistake: `old`, which stands in the kernel once, becomes `new`. Lines of either stand equally deep."""
        self.breaks.append(Break(old, new, why))

    def dropped(self, line: str, why: str) -> str:
        """A line that is needed, marked; the mistake is that it is not there."""
        line += self.mark()
        self.mistake(line, "pass", why)
        return line

    # ---- the program -----------------------------------------------------------------------------------------------------

    def __call__(self, name: str, seed: int) -> Program:
        if "num_warps" not in self.meta:
            self.meta["num_warps"] = self.draws.pick(list(self.warps))
        self.meta.setdefault("enable_fp_fusion", False)
        if not any(word in line for line in self.lines for word in ("tlx.", "tle.")) and self.draws.chance(50):
            self.lines.insert(
                0, "ours = tlx.alloc_barriers(1)"
            )  # a kernel without our words is compiled by Triton alone
        ordered = list(self.arguments.values())
        pid = "tl.program_id(0)"
        if len(self.grid) == 2:
            pid += " + tl.num_programs(0) * tl.program_id(1)"
        body = [f"pid = {pid}", *"\n".join(self.lines).split("\n")]
        names = ", ".join(one.name for one in ordered)
        kernel = (
            "\n".join(
                [
                    HEAD,
                    *(f"{text}\n\n" for text in self.functions),
                    "@mimw.jit",
                    f"def kernel({names}):",
                    *("    " + line if line else line for line in body),
                ]
            )
            + "\n"
        )
        given = ", ".join(one.name for one in ordered if one.kind != "descriptor")
        reading = "\n".join(
            [
                *(f"{text}\n\n" for text in self.helpers),
                f"def program(pid, rank, peers, {given}):",
                textwrap.indent("\n".join(self.reading or ["pass"]), "    "),
                "    if False:",
                "        yield",
                "",
            ]
        )
        return Program(
            name,
            seed,
            kernel,
            reading,
            tuple(ordered),
            self.grid,
            dict(self.meta),
            self.cluster,
            self.meshed,
            skips=dict(self.skips),
            chip=self.chip,
            breaks=tuple(deepened(one, kernel) for one in self.breaks),
        )


def deepened(one: Break, kernel: str) -> Break:
    """The break with its lines as deep as they stand in the kernel."""
    first, _, more = one.old.partition("\n")
    if "\n" not in one.old + one.new:
        return one
    pattern = re.escape(first) + "".join(r"\n +" + re.escape(line) for line in more.split("\n") if line)
    found = re.search(r"^( *)" + pattern, kernel, re.M)
    assert found, f"{one.old!r} does not stand in\n{kernel}"
    return Break(found[0].lstrip(), one.new.replace("\n", "\n" + found[1]), one.why)


def places(shape) -> str:
    """The row-major element numbers of a tile of any rank, in a kernel."""
    terms, size = [], prod(shape)
    for dim, extent in enumerate(shape):
        size //= extent
        spread = ", ".join(":" if one == dim else "None" for one in range(len(shape)))
        at = f"tl.arange(0, {extent})" + (f"[{spread}]" if len(shape) > 1 else "")
        terms.append(at if size == 1 else f"{at} * {size}")
    return f"({' + '.join(terms)})" if len(terms) > 1 else terms[0]
