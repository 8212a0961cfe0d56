r"""Readers of the TMA copies that mimw writes as assembly: blocks box by box, into several CTAs too, and rows picked by number.

Input: `ttg.inline_asm`. Output: one op of ours for all its instructions. For example:

    @on cp.async.bulk.tensor.2d.. [to], [map, {c1, c0}], [$2]; for each box         tma_load %map (%row, %column) %full %tile
    @on cp.async.bulk.tensor.2d.. [place], [map, {column, row5}], [$3]; of rows     tma_gather %map %rows %column %full %tile

What the instructions move together has to be the whole block, each box once and in its place (PTX ISA, cp.async.bulk.tensor): a
text that says anything else is refused.
"""

from __future__ import annotations

import re
from math import prod

from ...ir import Descriptor, Op, Tensor, Value
from ..triton_port.mlir_tree import Node
from .assembly import form
from .assembly_cluster import when
from .reading import Here

_MAP = r"(?:mov\.b64 map, \S+_param_(?P<number>\d+); cvta\.param\.u64 map, map;|mov\.b64 map, \$(?P<address>\d+);)"
_POLICY = r"(?: createpolicy\.fractional\.L2::(?P<hint>\w+)\.b64 hint, 1\.0;)?"
_BOX = re.compile(r"add\.u32 (?:to|from), \$(\d+), (\d+); ((?:add\.s32 c\d, [^;]+; )+)(@[^;]+;) ?")
_CORNER = re.compile(r"add\.s32 c(\d), \$(\d+), (\d+); ")


def descriptor_at(here: Here, found: re.Match[str]) -> Value:
    """The descriptor that the register `map` points at: a parameter of the kernel."""
    if found["number"] is None:
        raise here.unreadable("assembly on a tensor descriptor that is made in the kernel is not read")
    value = here.reader.notes["parameters"][int(found["number"])]
    if value is None or not isinstance(value.type, Descriptor):
        raise here.unreadable("the parameter that this copy names is no tensor descriptor")
    return value


def _boxes(here: Here, text: str, type_: Descriptor) -> tuple[str, int, list[int]]:
    """The instruction of all boxes, the operand that is the buffer, and those that are the offsets of the block."""
    found, at = [], 0
    while box := _BOX.match(text, at):
        corners = _CORNER.findall(box[3])
        if "".join(f"add.s32 c{dim}, ${offset}, {first}; " for dim, offset, first in corners) != box[3]:
            raise here.unreadable("copies of packed elements with padding are not read")
        found.append((box[4], int(box[1]), int(box[2]), tuple(int(offset) for _, offset, _ in corners),
                      tuple(int(first) for *_, first in corners)))
        at = box.end()
    if at != len(text) or not found or len({(one[0], one[1], one[3]) for one in found}) != 1:
        raise here.unreadable("a copy box by box in another form than mimw writes")
    _check_boxes(here, type_, {firsts: place for _, _, place, _, firsts in found}, len(found))
    instruction, buffer, _, offsets, _ = found[0]
    if here.operands[buffer].type.tile_bytes != prod(type_.shape) * type_.element.bytes:
        raise here.unreadable("a block that lies in several buffers")
    return instruction, buffer, list(offsets)


def _check_boxes(here: Here, type_: Descriptor, places: dict[tuple[int, ...], int], count: int) -> None:
    """Refuse boxes that do not cover the block, each once, or do not lie in the order of its elements: boxes further right lie
    behind all rows."""
    steps = []
    for dim, extent in enumerate(type_.shape):
        firsts = sorted({corner[dim] for corner in places})
        step = firsts[1] if len(firsts) > 1 else extent
        if firsts != list(range(0, extent, step)):
            raise here.unreadable("these boxes leave a part of the block out")
        steps.append(step)
    if count != len(places) or count != prod(-(-extent // step) for extent, step in zip(type_.shape, steps)):
        raise here.unreadable("these boxes leave a part of the block out, or bring one twice")
    width = steps[-1] * type_.element.bytes
    beside = next((place for corner, place in places.items() if not any(corner[:-1]) and corner[-1] == steps[-1]), 0)
    for corner, place in places.items():
        line = 0
        for extent, first in zip(type_.shape[:-1], corner[:-1]):
            line = line * extent + first
        overlap = beside % width or 0 < beside < prod(type_.shape[:-1]) * width
        if overlap or place != corner[-1] // steps[-1] * beside + line * width:
            raise here.unreadable("these boxes do not lie in the order of the block's elements")


@form(r"\{ \.reg \.b64 map, hint; \.reg \.b32 to, [c\d, ]+; \.reg \.pred on; setp\.eq\.s32 on, \$0, 0; " + _MAP +
      r"(?: setp\.ne\.and\.s32 on, \$(?P<when>\d+), 0, on;)?(?: \.reg \.b16 mask; cvt\.u16\.u32 mask, \$(?P<mask>\d+);)?" +
      _POLICY + r" (?P<boxes>add\.u32 .*) \}")
def block_loaded(here: Here, found):
    descriptor = descriptor_at(here, found)
    instruction, buffer, offsets = _boxes(here, found["boxes"] + " ", descriptor.type)
    told = re.fullmatch(r"@on cp\.async\.bulk\.tensor\.\dd\.shared::cluster\.global\.tile\.mbarrier::complete_tx::bytes"
                        r"(\.multicast::cluster)?(?:\.L2::cache_hint)? \[to\], \[map, \{([c\d, ]+)\}\], \[\$(\d+)\]"
                        r"(, mask)?(?:, hint)?;", instruction)
    if told is None or told[2].split(", ") != [f"c{dim}" for dim in reversed(range(len(offsets)))]:
        raise here.unreadable("a copy box by box in another form than mimw writes")
    operands = here.operands
    predicate, made = _condition(here, None if found["when"] is None else operands[int(found["when"])])
    args = descriptor, tuple(operands[one] for one in offsets), operands[int(told[3])], operands[buffer]
    if told[1] is None:
        return [*made, here.op("tma_load", *args, predicate)]
    ranks, constants = _ranks(here, int(found["mask"]))
    return [*constants, *made, here.op("tma_load_multicast", *args, ranks, predicate)]


@form(r"\{ \.reg \.b64 map, hint; \.reg \.b32 from, [c\d, ]+; \.reg \.pred warp, leader; setp\.lt\.s32 warp, \$0, 32; "
      r"elect\.sync _\|leader, 0xffffffff; and\.pred leader, leader, warp; " + _MAP + _POLICY +
      r" (?P<boxes>add\.u32 .*) cp\.async\.bulk\.commit_group; \}")
def block_stored(here: Here, found):
    descriptor = descriptor_at(here, found)
    instruction, buffer, offsets = _boxes(here, found["boxes"] + " ", descriptor.type)
    told = re.fullmatch(r"@leader cp(?:\.reduce)?\.async\.bulk\.tensor\.\dd\.global\.shared::cta(?:\.(\w+))?\.tile\.bulk_group"
                        r"(?:\.L2::cache_hint)? \[map, \{([c\d, ]+)\}\], \[from\](?:, hint)?;", instruction)
    if told is None or told[2].split(", ") != [f"c{dim}" for dim in reversed(range(len(offsets)))]:
        raise here.unreadable("a copy box by box in another form than mimw writes")
    corner = tuple(here.operands[one] for one in offsets)
    return here.op("tma_store", descriptor, corner, here.operands[buffer], None, told[1] or "")


def _condition(here: Here, flag: Value | None) -> tuple[Value | None, list[Op]]:
    """A predicate of the number 0 or 1 that assembly takes, and the ops that make it."""
    ops, predicate = ([], None) if flag is None else when(here, flag)
    return predicate, ops


def _ranks(here: Here, operand: int) -> tuple[tuple, list]:
    """The ranks whose bits a mask has, as the ops around the assembly put it together, and the ops for those known beforehand."""
    ranks, made = [], []

    def look(number: int) -> None:
        value, node = here.reader.values[number], here.reader.made_by.get(number)
        if (known := here.known(value)) is not None:
            for bit in range(16):
                if int(known) >> bit & 1:
                    op, rank = here.number(bit, value.type)
                    made.append(op)
                    ranks.append(rank)
        elif node is not None and node.name == "arith.ori":
            for one in node.operands:
                look(one)
        elif node is not None and node.name == "arith.shli" and _known(here, node, 0) == 1:
            ranks.append(here.reader.values[node.operands[1]])
        else:
            raise here.unreadable("the CTAs that this copy goes to are not known")

    look(here.node.operands[operand])
    return tuple(ranks), made


def _known(here: Here, node: Node, operand: int):
    return here.known(here.reader.values[node.operands[operand]])


@form(r"\{ \.reg \.pred on; \.reg \.b64 map; \.reg \.b32 warp, part, home, place, column; " + _MAP +
      r" shr\.u32 warp, \$0, 5; shfl\.sync\.idx\.b32 warp, warp, 0, 31, 0xffffffff; and\.b32 part, warp, (?P<warps>\d+); "
      r"mad\.lo\.u32 home, part, (?P<home>\d+), \$1; shr\.u32 part, warp, (?P<shift>\d+); "
      r"mad\.lo\.u32 home, part, (?P<apart>\d+), home; mad\.lo\.s32 column, part, (?P<columns>\d+), \$2;"
      r"(?: setp\.ge\.u32 on, warp, (?P<sharing>\d+); @on bra DONE;)?(?: setp\.eq\.s32 on, \$(?P<when>\d+), 0; @on bra DONE;)? "
      r"elect\.sync _\|on, 0xffffffff; (?P<rest>.*) \}")
def rows_copied(here: Here, found):
    """Gathers and scatters: one lane of each warp copies the rows of all its lanes."""
    descriptor, (_, buffer, column, *_) = descriptor_at(here, found), here.operands
    rows = next((value for value in here.operands[1:] if isinstance(value.type, Tensor)), None)
    text, warps, pitch = found["rest"], int(found["warps"]) + 1, int(found["home"]) // 32
    instructions = re.findall(r"add\.u32 place, home, (\d+); @on (cp\.async\.bulk\.tensor\.2d\.[^;]*row(\d+)[^;]*);", text)
    trips = re.search(r"add\.u32 round, round, 1; setp\.lt\.u32 more, round, (\d+);", text)
    sharers = max(1, int(found["sharing"] or _warps(here)) // warps)
    boxes = sharers * (int(trips[1]) if trips else 1)
    if rows is None or boxes * int(found["columns"]) != descriptor.type.shape[-1]:
        raise here.unreadable("rows that are copied in another form than mimw writes")
    _check_rows(here, text, instructions, rows.type.shape[0], warps, pitch)
    if pitch != int(found["columns"]) * descriptor.type.element.bytes:
        raise here.unreadable("rows that do not lie one behind the other")
    predicate, made = _condition(here, None if found["when"] is None else here.operands[int(found["when"])])
    copy = instructions[0][1]
    if bar := re.fullmatch(r"cp\S+shared::cluster\.global\.tile\.mbarrier::complete_tx::bytes \[place\], "
                           r"\[map, \{column, row\d+\}\], \[\$(\d+)\]", copy):
        return [*made, here.op("tma_gather", descriptor, rows, column, here.operands[int(bar[1])], buffer, predicate)]
    if not copy.startswith("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [map, ") or \
            not text.endswith("cp.async.bulk.commit_group;"):
        raise here.unreadable("rows that are copied in another form than mimw writes")
    return [*made, here.op("tma_scatter", descriptor, rows, column, buffer)]


def _warps(here: Here) -> int:
    """The warps of the task: the first operand is a tile with the number of each thread."""
    return here.operands[0].type.shape[0] // 32


def _check_rows(here: Here, text: str, instructions: list, count: int, warps: int, pitch: int) -> None:
    """Refuse rows that do not go to their places: lane `l` of register `r` holds row `l` of a warp's and, of the next round of all
    the task's threads, register `r + 1`."""
    lanes, threads = min(32, count), 32 * _warps(here)
    held = len(instructions) // lanes
    places = [(index * threads + lane) * pitch for index in range(held) for lane in range(lanes)]
    if [int(place) for place, *_ in instructions] != places or [int(lane) for *_, lane in instructions] != [*range(lanes)] * held:
        raise here.unreadable("rows that do not lie in the order of their numbers")
    shuffles = re.findall(r"shfl\.sync\.idx\.b32 row(\d+), \$(\d+), (\d+), 31", text)
    first = int(shuffles[0][1]) if shuffles else 0
    wanted = [(lane, first + index, lane) for index in range(held) for lane in range(lanes)]
    if [tuple(map(int, one)) for one in shuffles] != wanted or held * lanes * min(warps, _warps(here)) != count:
        raise here.unreadable("rows whose numbers are not those of the tile in its order")
