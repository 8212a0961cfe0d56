"""Tiles that partitions take from the kernel around them: made again inside, or handed over through shared memory.

Input: a program. Output: the program in which no worker of a region with the attribute `shares_captures` uses a tile
from outside:

    at = tl.arange(0, 64)        each worker makes its own
    x = tl.load(p + at)          stored once before the region, loaded by every worker that uses it

A tile lies in the registers of the kernel's own warps, where no worker can read it. A tile that follows from scalars
alone (ranges, offsets, masks, blocks of pointers) each worker works out for itself. In TLX a captured tile is an error:
its regions do not ask.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ...ir import I64, Block, Buffer, Op, Pointer, Program, Site, Tensor, Value, like
from ...ir.ops import is_pure, result_types
from ...ir.types import I1, I8
from ..analysis import Uses, uses_of

_CHEAP = ("free", "same", "expand")  # layout rules of ops that move no data between threads


def share_captures(program: Program) -> Program:
    """The program in which no worker of such a region uses a tile from outside; the same object without any."""
    if not any(map(_asks, program.named("warp_specialize"))):
        return program
    return replace(program, body=_Sharing(uses_of(program)).block(program.body))


def _asks(op: Op) -> bool:
    return op.name == "warp_specialize" and bool(op.attrs.get("shares_captures"))


class _Sharing:

    def __init__(self, uses: Uses):
        self.uses = uses

    def block(self, block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            op = op.with_blocks(self.block)
            if _asks(op):
                op = self.region(op, ops)
            ops.append(op)
        return block.with_ops(ops)

    def region(self, op: Op, before: list[Op]) -> Op:
        """The region with isolated workers; `before` gains the stores."""
        held: dict[Value, Value] = {}
        blocks = [op.blocks[0]]
        for block in op.blocks[1:]:
            inside: list[Op] = []
            env: dict[Value, Value] = {}
            for value in _captured_tiles(block):
                env[value] = self.again(value, op.site, inside, env) if self.follows_from_scalars(value) else \
                    _handed_over(value, op.site, before, inside, held)
            blocks.append(Block(block.args, (*inside, *(_substituted(one, env) for one in block.ops))))
        attrs = {name: value for name, value in op.attrs.items() if name != "shares_captures"}
        return replace(op, blocks=tuple(blocks), attrs=MappingProxyType(attrs))

    def follows_from_scalars(self, value: Value) -> bool:
        if not isinstance(value.type, Tensor):
            return True
        op = self.uses.definition[value]
        return (op is not None and not op.blocks and is_pure(op.name) and op.row.layout in _CHEAP and
                not op.attrs.get("layout") and all(map(self.follows_from_scalars, op.operands)))

    def again(self, value: Value, site: Site, inside: list[Op], env: dict[Value, Value]) -> Value:
        """The tile worked out once more in the worker, with all that it follows from."""
        if not isinstance(value.type, Tensor):
            return value
        if value not in env:
            op = self.uses.definition[value]
            for operand in op.operands:
                self.again(operand, site, inside, env)
            results = tuple(Value(result.type, result.name) for result in op.results)
            inside.append(replace(op, args=_now(op.args, env), results=results))
            env.update(zip(op.results, results))
        return env[value]


def _captured_tiles(block: Block) -> list[Value]:
    """Tiles used in the block and defined outside it, in order of first use."""
    made, used = set(), {}

    def visit(inner: Block) -> None:
        made.update(inner.args)
        for op in inner.ops:
            used.update((value, None) for value in op.operands if isinstance(value.type, Tensor))
            made.update(op.results)
            for child in op.blocks:
                visit(child)

    visit(block)
    return [value for value in used if value not in made]


def _handed_over(value: Value, site: Site, before: list[Op], inside: list[Op], held: dict[Value, Value]) -> Value:
    """The tile as a worker loads it; stored before the region, once for all workers."""
    element = value.type.element
    stored = like(value.type, I64 if isinstance(element, Pointer) else I8 if element == I1 else element)
    if value not in held:
        plain = value
        if isinstance(element, Pointer):
            plain = _op(before, "ptr_to_int", (value, stored), site)
        elif element == I1:
            plain = _op(before, "int_cast", (value, stored, False), site)
        type_ = Buffer(stored.element, stored.shape)
        held[value] = _op(before, "local_alloc", (type_, None), site, value.name, layout=None)
        _op(before, "local_store", (held[value], plain), site)
    loaded = _op(inside, "local_load", (held[value], None), site, value.name, layout=None)
    if isinstance(element, Pointer):
        return _op(inside, "int_to_ptr", (loaded, value.type), site)
    return _op(inside, "int_cast", (loaded, value.type, False), site) if element == I1 else loaded


def _op(ops: list[Op], name: str, args: tuple, site: Site, label: str = "", **attrs) -> Value | None:
    results = tuple(Value(type_, label) for type_ in result_types(name, args, attrs))
    ops.append(Op(name, args, results, (), MappingProxyType(attrs), site))
    return results[0] if results else None


def _now(arg, env: dict[Value, Value]):
    if isinstance(arg, tuple):
        return tuple(_now(item, env) for item in arg)
    return env.get(arg, arg) if isinstance(arg, Value) else arg


def _substituted(op: Op, env: dict[Value, Value]) -> Op:
    blocks = tuple(Block(block.args, tuple(_substituted(one, env) for one in block.ops)) for block in op.blocks)
    return replace(op, args=_now(op.args, env), blocks=blocks)
