"""A fence at device or system scope is one between proxies, too, where copies read global memory that the kernel writes.

Input: a program. Output: the program with attrs["proxy"] on its fences, and a fence before each barrier of the grid and
among GPUs:

    store(p, x); fence("gpu"); arrive           becomes     store(p, x); fence("gpu", proxy); arrive
    ...; distributed_barrier of the grid        becomes     ...; fence("gpu", proxy); the barrier
    ...; a barrier among GPUs                   becomes     ...; fence("sys", proxy); the barrier

A TMA or bulk load reads global memory in the asynchronous proxy. What ordinary instructions wrote there in the same
launch the load need not see, whatever orders the two, unless a proxy fence stands between (PTX ISA, "Async proxy";
docs/MEMORY_MODEL.md, rule 21). TLX has no word for that fence alone, so the word that orders global memory is that
fence, too; and so is a barrier of the whole grid, or among GPUs, which orders everything.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ...ir import Block, Op, OpDef, Program

_MARK = MappingProxyType({"proxy": True})
_READS = (("descriptor", "async-read"), ("pointer", "async-read"))


def fence_globals(program: Program) -> Program:
    """The program with attrs["proxy"] on such fences; the same object if no copy reads what the kernel could have written."""
    if not program.where(lambda row: ("pointer", "write") in row.touches) or not any(map(_reads_by_copy, program.where(_may_read))):
        return program
    return replace(program, body=_marked(program.body))


def _may_read(row: OpDef) -> bool:
    return "reduces" in row.traits or any(entry in row.touches for entry in _READS)


def _reads_by_copy(op: Op) -> bool:
    """Whether the op reads global memory in the asynchronous proxy; a TMA reduction does."""
    reduces = "reduces" in op.row.traits and (op.name != "tma_store" or bool(op.reduce))
    return reduces or any(entry in op.row.touches for entry in _READS)


def _marked(block: Block) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        if op.row.blocks == "rendezvous" and not op.row.peers:     # it orders everything: of the grid, or of the GPUs of a world
            ops.append(Op("fence", ("sys" if "world" in op.row.places else "gpu", ), attrs=_MARK, site=op.site))
        elif op.name == "fence" and op.scope in ("gpu", "sys"):
            op = op.with_attrs(**_MARK)
        else:
            op = op.with_blocks(_marked)
        ops.append(op)
    return block.with_ops(ops)
