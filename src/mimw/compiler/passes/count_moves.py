"""Waits for tokens of AMD's data mover become waits for a number of copies: the hardware counts, it knows no tokens.

Input: a program. Output: the program in which each `tdm_wait` for tokens has as `pending` the copies that were started behind the
newest of these for certain; the same object if no wait has tokens. For example:

    %a = tdm_load ..; %b = tdm_load ..; tdm_wait pending=0, [%a]         becomes pending=1

A copy under an `if`, in a loop or in another block than the wait may not be started, or more than once: it counts as none, and a
token that another block made as the newest of all. So a wait may wait for more, never for less.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program


def count_moves(program: Program) -> Program:
    """The program with these waits."""
    if not any(op.tokens for op in program.named("tdm_wait")):
        return program
    return replace(program, body=_block(program.body))


def _block(block: Block) -> Block:
    started, place = 0, {}      # copies so far; of each token, how many there were with its own

    def waits(op: Op) -> Op:
        counts = [place.get(token) for token in op.tokens]
        return op if None in counts else replace(op, args=(started - max(counts), op.tokens))

    ops = []
    for op in block.ops:
        op = op.with_blocks(_block)
        if op.name == "tdm_wait" and op.tokens:
            op = waits(op)
        elif "mover" in op.row.traits and op.row.copy and not op.attrs.get("more"):
            started += 1
            place.update(dict.fromkeys(op.results, started))
        ops.append(op)
    return block.with_ops(ops)
