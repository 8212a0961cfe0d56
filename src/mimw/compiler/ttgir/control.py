"""Readers of control flow: loops, branches, what ends a block, and the partitions of a `ttg.warp_specialize`.

Input: ops with regions. Output: ours with the same regions; tokens that go round a loop are left out. For example:

    %9 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %0) -> (f32) { .. scf.yield %1 }      for %c0 %n %c1 (%0), one block
    ttg.warp_specialize(%full) default { .. } partition0(%b: ..) num_warps(4) { .. }            warp_specialize, a task a region
"""

from __future__ import annotations

import re
from dataclasses import replace

from ...ir import Block, Op, Task
from .halves import in_stages, one_stage
from .reading import Here, reads

_CALLED = re.compile(r'@"?([\w$.-]+)"?\(')
_WARPS = re.compile(r"num_warps\((\d+)\)")


@reads("scf.for")
def for_(here: Here):
    start, stop, step, *inits = here.operands
    loop = here.op("for", start, stop, step, tuple(inits), blocks=(_yielding(here.reader.block(here.node.regions[0])), ))
    return in_stages(here, loop)


@reads("scf.while")
def while_(here: Here):
    return here.op("while", tuple(here.operands), blocks=tuple(map(here.reader.block, here.node.regions)))


@reads("scf.if")
def if_(here: Here):
    blocks = [_yielding(here.reader.block(region)) for region in here.node.regions]
    blocks += [Block((), (Op("yield", ((), ), site=here.site), ))] * (2 - len(blocks))
    return here.op("if", here.operands[0], tuple(here.types), blocks=tuple(blocks))


@reads("scf.yield", "tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return")
def handed_on(here: Here):
    return here.op("yield", tuple(here.operands), results=())


@reads("tt.return")
def returned(here: Here):
    return here.op("yield", tuple(here.operands), results=()) if here.operands else None


@reads("scf.condition")
def condition(here: Here):
    return here.op("condition", here.operands[0], tuple(here.operands[1:]), results=())


@reads("scf.execute_region")
def region(here: Here):
    block = here.reader.block(here.node.regions[0])
    values = iter(block.yielded)
    for place, (number, _) in enumerate(here.node.results):
        here.stands_for(next(values), place)
    return one_stage(here, [op for op in block.ops if op.name != "yield"])


@reads("ttg.warp_specialize")
def warp_specialize(here: Here):
    """Partitions are closed to what is around them: each takes the captures as arguments, which here are the values themselves."""
    default, holder = here.node.regions
    (partitions, ) = holder.nodes
    here.reader.check_order(partitions)
    captured = [here.reader.values[number] for number in partitions.operands]
    notes, warps = here.reader.notes, here.reader.notes["partitions"][id(here.node)]
    blocks = []
    for one, count in zip((default, *partitions.regions), (notes["num_warps"], *warps), strict=True):
        notes["task_warps"], notes["region"] = count, notes.get("regions", 0)
        notes["regions"] = notes["region"] + 1
        blocks.append(_yielding(here.reader.block(one, captured if blocks else ())))
    del notes["task_warps"], notes["region"]
    registers = here.integers("requestedRegisters") or (None, ) * len(warps)
    tasks = [Task("default", here.reader.notes["num_warps"], True, site=here.site)]
    tasks += [Task(f"partition{number}", count, False, asked, site=here.site)
              for number, (count, asked) in enumerate(zip(warps, registers, strict=True))]
    return here.op("warp_specialize", blocks=tuple(blocks), tasks=tuple(tasks), types=tuple(here.types))


@reads("tt.call")
def called(here: Here):
    """The body of the function stands here."""
    function = here.reader.notes["functions"][_CALLED.search(here.text)[1]]
    (region, ) = function.regions
    block = here.reader.block(region, [here.reader.values[number] for number in here.node.operands])
    for place, value in enumerate(block.yielded):
        here.stands_for(value, place)
    return [op for op in block.ops if op.name != "yield"]


@reads("ttg.warp_yield")
def given(here: Here):
    return here.op("yield", tuple(here.operands), results=())


@reads("ttg.warp_return")
def ended(here: Here):
    """The end of a partition."""


def partition_warps(text: str) -> list[int]:
    """The warps of each partition in the text of a module, in order."""
    return [int(one) for one in _WARPS.findall(text)]


def _yielding(block: Block) -> Block:
    """A block that ends in a `yield`, as blocks of ours do that hand nothing on."""
    if block.ops and block.ops[-1].name == "yield":
        return block
    return replace(block, ops=(*block.ops, Op("yield", ((), ))))
