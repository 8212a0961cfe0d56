"""What each word of a pipe orders, in words: the comments of an orchestrated kernel's text.

Input: a program. Output: a comment for some of its ops. For example, of a pipe that line 12 of the plain kernel fills:

    pipe_acquire        free again: line 13 has read the chunk before
    pipe_commit         line 13 waits for what line 12 loads
    pipe_wait           what line 12 loads
    pipe_release        line 13 has read it: line 12 may load there
    for                 line 12
    named_barrier_wait  this consumer's turn

Lines are those of the ops' sites, which the orchestration keeps from the plain kernel.
"""

from __future__ import annotations

from ...ir import Op, Program, Value
from ..analysis.uses import Uses, uses_of


def comments(program: Program) -> dict[Op, str]:
    """The comments, by op."""
    uses = uses_of(program)
    found = {op: _line(program, op) for op in program.walk() if "loop" in op.row.traits}
    found |= {op: "this consumer's turn" for op in program.named("named_barrier_wait")}
    found |= {op: "the next consumer's turn" for op in program.named("named_barrier_arrive")}
    for make in program.named("pipe_make"):
        found |= _of_pipe(uses, make)
    return {op: note for op, note in found.items() if note}


def _line(program: Program, op: Op) -> str:
    """The line of a loop in the plain kernel; nothing if the program does not say."""
    site = op.site
    if site.line <= 0:
        return ""
    return f"line {site.line}" if site.file == program.site.file else f"line {site.line} of {_stem(site.file)}"


def _stem(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _of_pipe(uses: Uses, make: Op) -> dict[Op, str]:
    calls = [use.op for use in uses.of(make.result) if use.op.row.end]
    writes = _Lines(_reached(uses, calls, "pipe_acquire", written=True))
    slots = "1 slot" if make.capacity == 1 else f"{make.capacity} slots"
    found = {make: f"{slots} of {', '.join(make.attrs['names'])}" + writes.does(": what {} load{s}")}
    for op in calls:
        who = op.attrs.get("reader")
        theirs = [call for call in calls if call.name == "pipe_wait" and (who is None or call.attrs.get("reader") == who)]
        reads = _Lines(_reached(uses, theirs, "pipe_wait", written=False))
        found[op] = _said(op.name, writes, reads, bool(make.attrs.get("one_shot")))
    return found


def _said(name: str, writes: _Lines, reads: _Lines, once: bool) -> str:
    if name == "pipe_acquire":
        return "" if once else reads.does("free again: {} {has} read the chunk that was here")
    if name == "pipe_commit":
        return reads.does("{} wait{s} for it") + (writes.does(": for what {} load{s}") if reads.numbers else "")
    if name == "pipe_wait":
        return writes.does("until what {} load{s} is here")
    if name == "pipe_release" and not once:
        return reads.does("{} {has} read it") + (writes.does(": {} may load there") if reads.numbers else "")
    return ""


class _Lines:
    """The lines of some ops, in words."""

    def __init__(self, ops: list[Op]):
        self.numbers = sorted({op.site.line for op in ops if op.site.line > 0})

    def does(self, sentence: str) -> str:
        """A sentence about the lines, with its verbs in the right number; nothing if there are none."""
        if not self.numbers:
            return ""
        *most, last = map(str, self.numbers)
        one = not most
        return sentence.format(f"line {last}" if one else f"lines {', '.join(most)} and {last}", s="s" if one else "",
                               has="has" if one else "have")


def _reached(uses: Uses, calls: list[Op], name: str, written: bool) -> list[Op]:
    """The ops that write, or read, the slots that these calls give."""
    found = []
    for call in calls:
        if call.name == name:
            for value in call.results:
                found += [op for op in _through(uses, value, set()) if not written or _fills(op)]
    return found


def _through(uses: Uses, value: Value, seen: set[Value]):
    """The ops that take a buffer, or a view of it; of one that is read into registers those that take the tile."""
    if value in seen:
        return
    seen.add(value)
    for op, _ in uses.of(value):
        if op.row.view_of or op.name == "local_load":
            for result in op.results:
                yield from _through(uses, result, seen)
        elif "terminator" not in op.row.traits:
            yield op


def _fills(op: Op) -> bool:
    return bool(op.row.writes) or op.row.copy == "in"
