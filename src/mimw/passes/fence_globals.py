"""A fence at device or system scope is one between proxies, too, where copies read global memory that the kernel writes.

    store(p, x); fence("gpu"); flag             becomes     store(p, x); fence("gpu", proxy); flag
    ...; distributed_barrier of the grid        becomes     ...; fence("gpu", proxy); the barrier

A TMA or bulk load reads global memory in the asynchronous proxy. What ordinary instructions wrote there in the same launch it
need not see, whatever orders the two, unless a proxy fence stands between (PTX ISA, "Async proxy"; docs/MEMORY_MODEL.md,
rule 21). TLX has no word for that fence alone, so the word that orders global memory is it, too; and so is a barrier of the
whole grid, which orders everything.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ..ir import OPS, Block, Op, Program

_MARK = MappingProxyType({"proxy": True})


def fence_globals(program: Program) -> Program:
    """The program with attrs["proxy"] on such fences; the same object if no copy reads what the kernel could have written."""
    ops = list(program.walk())
    if not (any(_reads_by_copy(op) for op in ops) and any(("pointer", "write") in OPS[op.name].touches for op in ops)):
        return program
    return replace(program, body=_marked(program.body))


def _reads_by_copy(op: Op) -> bool:
    """Whether the op reads global memory in the asynchronous proxy; a TMA reduction does."""
    touches = OPS[op.name].touches
    reduces = op.name == "descriptor_reduce" or op.name == "tma_store" and bool(op.args[4])
    return reduces or any(entry in touches for entry in (("descriptor", "async-read"), ("pointer", "async-read")))


def _marked(block: Block) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        if op.name == "grid_barrier":
            ops.append(Op("fence", ("gpu", ), attrs=_MARK, site=op.site))
        elif op.name == "fence" and op.args[0] in ("gpu", "sys"):
            op = replace(op, attrs=MappingProxyType({**op.attrs, **_MARK}))
        elif op.blocks:
            op = replace(op, blocks=tuple(map(_marked, op.blocks)))
        ops.append(op)
    return replace(block, ops=tuple(ops))
