"""From the tree to the two texts: the kernel's module and the numpy side.

Input: segments, each a block with or without tasks. Output: the module's source with the marks of its lines, and the numpy source.

    lines = serial(nodes)                                   # a block run by all warps
    source, marks = kernel_source(make, [lines, ..])
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .maker import Maker
from .tree import Branch, Line, Loop, Mark, Step

HEAD = """import mimw
import mimw.tle as tle
import triton
import triton.language as tl
from mimw import tlx
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

USED = tle, tlx, triton, libdevice, gdc_wait, gdc_launch_dependents
"""


def indented(lines: Iterable[Line]) -> list[Line]:
    return [Line("    " + line.text, line.mark) for line in lines]


def loop_lines(node: Loop, body: list[Line]) -> list[Line]:
    """A loop around kernel lines."""
    inside = list(body)
    if node.step.startswith("@"):
        inside = [Line(node.step[1:]), *inside]
    elif node.step:
        inside = [*inside, Line(node.step)]
    before = [Line(node.before)] if node.before else []
    return [*before, Line(node.kernel), *indented(inside)]


def branch_lines(node: Branch, then: list[Line], other: list[Line]) -> list[Line]:
    if not then and not other:
        return []
    lines = [Line(f"if {node.kernel}:"), *indented(then or [Line("pass")])]
    return [*lines, Line("else:"), *indented(other)] if other else lines


def serial(nodes) -> list[Line]:
    """A block as the whole CTA runs it."""
    lines: list[Line] = []
    for node in nodes:
        if isinstance(node, Step):
            lines += node.kernel
        elif isinstance(node, Loop):
            body = serial(node.body)
            lines += loop_lines(node, body) if body else []
        else:
            lines += branch_lines(node, serial(node.then), serial(node.else_))
    return lines


def counters(lines: Iterable[Line]) -> list[Line]:
    """The names that are counted on from nothing: `r_bar0 += 1`, `c3 += 1`."""
    names = [match[1] for line in lines if (match := re.match(r" *(r_\w+|c\d+) \+= 1$", line.text))]
    return [Line(f"{name} = 0") for name in dict.fromkeys(names)]


def reading_lines(nodes, transfers: dict[str, str]) -> list[str]:
    """A block in numpy. `transfers`: tile -> the channel that carries it, whose uses are counted."""
    lines: list[str] = []
    for node in nodes:
        if isinstance(node, Step):
            lines += node.reading
            if node.makes is not None and node.makes.kernel in transfers:
                lines.append(f"seen({transfers[node.makes.kernel]!r})")
        elif isinstance(node, Loop):
            body = reading_lines(node.body, transfers) or ["pass"]
            if node.step and not node.step.startswith("@"):
                body = [*body, node.step]
            lines += [*([node.before] if node.before else []), node.reading, *("    " + line for line in body)]
        else:
            lines += [
                f"if {node.reading}:",
                *("    " + line for line in reading_lines(node.then, transfers) or ["pass"]),
            ]
            if node.else_:
                lines += ["else:", *("    " + line for line in reading_lines(node.else_, transfers))]
    return lines


def parameters(make: Maker) -> list[str]:
    """The kernel's parameters, constants last."""
    return [f"{one.name}: tl.constexpr" if one.kind == "constant" else one.name for one in ordered(make)]


def ordered(make: Maker):
    return sorted(make.arguments.values(), key=lambda one: one.kind == "constant")


def kernel_source(
    make: Maker, functions: list[list[Line]], body: list[Line], dimensions: int
) -> tuple[str, tuple[tuple[int, Mark], ...]]:
    """(the module, line number -> mark)."""
    pid = "tl.program_id(0)" if dimensions == 1 else "tl.program_id(0) + tl.num_programs(0) * tl.program_id(1)"
    head = [
        Line(f"pid = {pid}"),
        Line("flag = tl.load(flags)"),
        *(one if isinstance(one, Line) else Line(one) for one in make.head),
    ]
    lines = [Line(text) for text in "\n".join([HEAD, *make.functions]).split("\n")]
    for function in functions:
        lines += [Line(""), *function]
    lines += [
        Line(""),
        Line("@mimw.jit"),
        Line(f"def kernel({', '.join(parameters(make))}):"),
        *indented([*head, *body]),
    ]
    texts, marks = [], []
    for line in lines:
        for text in line.text.split("\n"):
            texts.append(text)
        if line.mark is not None:
            marks.append((len(texts), line.mark))
    return "\n".join(texts) + "\n", tuple(marks)


def reading_source(make: Maker, lines: list[str]) -> str:
    """The numpy side without the prelude."""
    names = ", ".join(one.name for one in ordered(make) if one.kind != "descriptor")
    body = [f"def program(pid, rank, peers, {names}):", "    flag = int(flags[0])"]
    body += ["    " + line for line in [*make.reading_head, *lines]]
    return "\n".join([*make.reading_functions, *body, "    if False:", "        yield", ""])
