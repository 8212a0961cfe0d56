"""Every single edit of a TTGIR module that breaks what orders its memory: one wait, fence, index, phase, arrival, count, predicate,
mask, swizzle or initialisation at a time.

    for edit in edits(text):
        edit.kind, edit.op, edit.line       "wait gone", "ttng.wait_barrier", 65
        edit.text                           the module after the edit

Input: the text as Triton prints it, an op a line. Output: `Edit`s in the order of the text. An edit is one of the text, so that
what is judged is what a pass of a compiler could have left behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

FENCES = ("ttng.fence_async_shared", "ttng.tensormap_fenceproxy_acquire", "ttng.fence_mbarrier_init_release_cluster", "ttg.barrier",
          "gpu.barrier", "amdg.cond_barrier")
KINDS = ("wait gone", "wait weaker", "fence gone", "other index", "phase flipped", "arrival gone", "expect gone", "other bytes",
         "other count", "predicate dropped", "mask dropped", "swizzle changed", "init gone")
_OP = re.compile(r"^\s*(?:(%\S+?)(?::(\d+))? = )?\"?([a-z]\w*\.[\w.]+)")
_COUNTED = {"ttg.async_wait": "num", "ttng.warp_group_dot_wait": "pendings", "ttng.async_tma_store_wait": "pendings"}
_INDEX = re.compile(r"(ttg\.memdesc_index \S+)\[(%[^\]]+)\] : !ttg\.memdesc<(\d+)x")
_PHASE = re.compile(r"(ttng\.wait_barrier \S+), (%[\w$.#-]+)")
VALUE = r"%[\w$.-]+(?:#\d+)?"
_LAYOUT = re.compile(r"^(#\w+) = (#ttg\.(?:nvmma_shared|swizzled_shared|padded_shared)<.*>)$")
_TYPE = re.compile(r"!(?:ttg\.memdesc|tt\.tensordesc)<((?:\d+x)+\w+), (#\w+)(, [^>]*)?>")
# The operand of an op that says whether it happens, as the op is printed.
_PREDICATES = {
    "ttng.barrier_expect": re.compile(rf"(ttng\.barrier_expect {VALUE}, \d+, )({VALUE})"),
    "ttng.async_tma_copy_global_to_local": re.compile(
        rf"(ttng\.async_tma_copy_global_to_local {VALUE}\[[^\]]*\] {VALUE}, {VALUE}, )({VALUE})"),
    "ttng.wait_barrier": re.compile(rf"(ttng\.wait_barrier {VALUE}, {VALUE}, )({VALUE})"),
    "ttng.arrive_barrier": re.compile(rf"(ttng\.arrive_barrier {VALUE}, \d+, )({VALUE})"),
    "ttng.tc_gen5_mma": re.compile(rf"(ttng\.tc_gen5_mma (?:{VALUE}, ){{4}})({VALUE})"),
    "ttng.tmem_store": re.compile(rf"(ttng\.tmem_store {VALUE}, {VALUE}, )({VALUE})"),
    "ttng.tc_gen5_commit": re.compile(rf"(ttng\.tc_gen5_commit {VALUE}, )({VALUE})"),
}
_MASKS = {
    "tt.load": re.compile(rf"(tt\.load {VALUE})(, {VALUE}(?:, {VALUE})?)( )"),
    "tt.store": re.compile(rf"(tt\.store {VALUE}, {VALUE})(, {VALUE})( )"),
    "ttg.async_copy_global_to_local": re.compile(
        rf"(ttg\.async_copy_global_to_local {VALUE}, {VALUE})( mask {VALUE}(?: other {VALUE})?)( )"),
}
_ARRIVAL = re.compile(rf", ({VALUE})\[({VALUE})\]")


@dataclass(frozen=True)
class Edit:
    """One edit: its kind, the op it changes and how, the line of the module it is at, and the module behind it."""

    kind: str
    op: str
    change: str
    line: int
    text: str


def edits(text: str) -> Iterator[Edit]:
    """Every edit of a module, in the order of its lines."""
    lines = text.splitlines()
    true = set(re.findall(r"(%\S+) = arith\.constant true", text))
    for at, line in enumerate(lines):
        found = _OP.match(line)
        if found is None:
            continue
        for kind, change, new in (*_waits(lines, at, found), *_orders(line, found[3]), *_numbers(line, found[3]),
                                  *_conditions(line, found[3], true)):
            yield Edit(kind, found[3], change, at + 1, joined(new) if len(new) == len(lines) else inserted(lines, at, new))
    yield from _swizzles(lines)


def joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def inserted(lines: list[str], at: int, new: list[str]) -> str:
    """The text of a module with other lines in the place of one."""
    return joined([*lines[:at], *new, *lines[at + 1:]])


def _waits(lines: list[str], at: int, found: re.Match[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Waits that are gone, and waits that let one more be under way. What a wait gives is then what it was given."""
    line, name = lines[at], found[3]
    if name == "ttng.wait_barrier":
        yield "wait gone", "gone", []
    if name not in _COUNTED:
        return
    number = re.search(rf"{_COUNTED[name]} = (\d+)", line)
    weaker = line[:number.start(1)] + str(int(number[1]) + 1) + line[number.end(1):]
    yield "wait weaker", f"{_COUNTED[name]} = {int(number[1]) + 1}", [weaker]
    if found[1] is None:
        yield "wait gone", "gone", []
    elif operands := re.findall(VALUE, line[found.end():line.find("{", found.end())]):
        names = [f"{found[1]}#{place}" for place in range(int(found[2]))] if found[2] else [found[1]]
        yield "wait gone", "gone", _renamed(lines, at, dict(zip(names, operands, strict=False)))


def _renamed(lines: list[str], at: int, names: dict[str, str]) -> list[str]:
    """All lines, that at `at` empty, and the values of `names` called otherwise as far as the block goes."""
    depth = len(lines[at]) - len(lines[at].lstrip())
    any_of = re.compile("|".join(rf"{re.escape(name)}(?![\w$.#-])" for name in names))
    new, inside = [*lines[:at], ""], True
    for line in lines[at + 1:]:
        inside = inside and not (line.strip() and len(line) - len(line.lstrip()) < depth)
        new.append(any_of.sub(lambda hit: names[hit[0]], line) if inside else line)
    return new


def _orders(line: str, name: str) -> Iterator[tuple[str, str, list[str]]]:
    """Fences, arrivals, announcements and initialisations that are gone."""
    if name in FENCES:
        yield "fence gone", "gone", []
    if name in ("ttng.arrive_barrier", "ttng.tc_gen5_commit"):
        yield "arrival gone", "gone", []
    if name == "ttng.barrier_expect":
        yield "expect gone", "gone", []
    if name == "ttng.init_barrier":
        yield "init gone", "gone", []
    if name.startswith("ttng.tc_gen5_mma"):
        for hit in _ARRIVAL.finditer(line):
            types = re.search(r", !ttg\.memdesc<\d+xi64, [^>]*>", line)
            left = line[:hit.start()] + line[hit.end():types.start()] + line[types.end():]
            yield "arrival gone", f"no arrival at {hit[1]}", [left]


def _numbers(line: str, name: str) -> Iterator[tuple[str, str, list[str]]]:
    """Other indices, phases, counts and bytes."""
    indent = line[:len(line) - len(line.lstrip())]
    if (found := _INDEX.search(line)) and int(found[3]) > 1:
        yield "other index", "the next one", [
            f"{indent}%edit_1 = arith.constant 1 : i32", f"{indent}%edit_n = arith.constant {found[3]} : i32",
            f"{indent}%edit_next = arith.addi {found[2]}, %edit_1 : i32",
            f"{indent}%edit_at = arith.remsi %edit_next, %edit_n : i32",
            line[:found.start()] + line[found.start():].replace(f"[{found[2]}]", "[%edit_at]", 1)]
    if found := _PHASE.search(line):
        yield "phase flipped", "the other one", [
            f"{indent}%edit_1 = arith.constant 1 : i32", f"{indent}%edit_phase = arith.xori {found[2]}, %edit_1 : i32",
            line[:found.start(2)] + "%edit_phase" + line[found.end(2):]]
    if name in ("ttng.arrive_barrier", "ttng.init_barrier"):
        found = re.search(rf"{name} {VALUE}, (\d+)", line)
        more = str(int(found[1]) + 1)
        yield "other count", f"{more} for {found[1]}", [line[:found.start(1)] + more + line[found.end(1):]]
    if name == "ttng.barrier_expect":
        found = re.search(rf"{name} {VALUE}, (\d+)", line)
        for other in (int(found[1]) // 2, int(found[1]) + 16):
            yield "other bytes", f"{other} for {found[1]}", [line[:found.start(1)] + str(other) + line[found.end(1):]]


def _conditions(line: str, name: str, true: set[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Ops that happen always, and accesses that leave nothing out."""
    indent = line[:len(line) - len(line.lstrip())]
    if name in _PREDICATES and (found := _PREDICATES[name].search(line)) and found[2] not in true:
        yield "predicate dropped", f"always for {found[2]}", [f"{indent}%edit_true = arith.constant true",
                                                              line[:found.start(2)] + "%edit_true" + line[found.end(2):]]
    if name in _MASKS and (found := _MASKS[name].search(line)):
        yield "mask dropped", found[2].strip(" ,"), [line[:found.start(2)] + line[found.end(2):]]


def _swizzles(lines: list[str]) -> Iterator[Edit]:
    """Modes of tensor maps, and the layout of one type of memory or descriptor wherever the module names that type."""
    for at, line in enumerate(lines):
        if found := re.search(r"ttng\.tensormap_create .*swizzle_mode = (\d)", line):
            other = {"0": "3"}.get(found[1], str(int(found[1]) - 1))
            yield Edit("swizzle changed", "ttng.tensormap_create", f"swizzle_mode = {other} for {found[1]}", at + 1,
                       inserted(lines, at, [line[:found.start(1)] + other + line[found.end(1):]]))
    layouts = {found[1]: (at, found[2]) for at, line in enumerate(lines) if (found := _LAYOUT.match(line))}
    seen: dict[str, int] = {}
    for at, line in enumerate(lines):
        for found in _TYPE.finditer(line):
            if found[2] in layouts and "xi64" not in found[1]:
                seen.setdefault(found[0], at)
    for type_, first in seen.items():
        alias = _TYPE.match(type_)[2]
        place, layout = layouts[alias]
        if (other := _other(layout)) != layout:
            short, edited = type_.partition("<")[2], type_.replace(f", {alias}", ", #edited")
            cut = edited.partition("<")[2]
            new = [line.replace(type_, edited).replace(f"-> <{short}", f"-> <{cut}") for line in lines]
            new[place] += f"\n#edited = {other}"
            yield Edit("swizzle changed", type_.partition("<")[0], f"{type_}: {_difference(layout, other)}", first + 1, joined(new))


def _other(layout: str) -> str:
    """Another swizzle of the same kind."""
    changes: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
        (r"swizzlingByteWidth = (\d+)", lambda hit: f"swizzlingByteWidth = {int(hit[1]) // 2 if int(hit[1]) > 32 else 128}"),
        (r"maxPhase = (\d+)", lambda hit: f"maxPhase = {int(hit[1]) // 2 if int(hit[1]) > 1 else 2}"),
        (r":\+(\d+)\]", lambda hit: f":+{int(hit[1]) * 2}]"))
    for pattern, change in changes:
        if re.search(pattern, layout):
            return re.sub(pattern, change, layout, count=1)
    return layout


def _difference(layout: str, other: str) -> str:
    one, two = re.findall(r"\w+ = \d+|:\+\d+", layout), re.findall(r"\w+ = \d+|:\+\d+", other)
    return next(f"{b} for {a}" for a, b in zip(one, two, strict=True) if a != b)
