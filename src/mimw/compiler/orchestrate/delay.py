"""A product whose sum a loop only carries is done one trip later, beside the first product of that trip.

Input: a plain program. Output: `Delayed`, a plain program that computes the same to the last bit, and which of its products run
behind. `late_products` says which loops are followed. For example:

    for i: s = q k[i];  p, f = softmax(s);  acc = acc f + p v[i]                becomes, if there is a trip at all:

    s = q k[0];  p, f = softmax(s);  a = acc f                                  the first trip, without its last product
    for i from 1: s = q k[i];  acc = a + p v[i - 1];  p, f = softmax(s);  a = acc f
    acc = a + p v[last]                                                         the last product

The exponents of a trip then have a product to run beside: the one of the trip before. Sums that stand behind their product
(`acc += tl.dot(p, v)`) are joined with it by `passes.accumulate_dots`, which comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import Block, Builder, Op, Program, Value
from ...ir.flow import bounds, terminator
from ..analysis.remarks import Remark
from .late_products import LateProduct, late_product


@dataclass(frozen=True)
class Delayed:
    """`program` with its `late` products: ops of it that add, in a loop, the product of the trip before. `remarks` says of each
    loop with two products what became of it. `apart` are (loaded, written) names of parameters: the program is right if their
    arrays do not overlap."""

    program: Program
    late: frozenset[Op]
    remarks: tuple[Remark, ...]
    apart: frozenset[tuple[str, str]] = frozenset()


def delayed(program: Program) -> Delayed:
    """The program with the products of `late_products` one trip later; itself if there are none. It has no words of ours."""
    if ours := program.where(lambda row: row.ours):
        remark = Remark(f"`{ours[0].row.word}` is a function of mimw: the kernel stays as it is", ours[0].site)
        return Delayed(program, frozenset(), (remark, ))
    found = {op: late_product(program, op) for op in program.where(lambda row: "loop" in row.traits)}
    plans = {op: plan for op, plan in found.items() if isinstance(plan, LateProduct)}
    remarks = tuple(_said(plan) for plan in found.values() if plan is not None)
    if not plans:
        return Delayed(program, frozenset(), remarks)
    writer = _Writer(plans)
    body = writer.block(program.body)
    apart = frozenset(pair for plan in plans.values() for pair in plan.apart)
    return Delayed(replace(program, body=body), frozenset(writer.late), remarks, apart)


def _said(plan: LateProduct | Remark) -> Remark:
    if isinstance(plan, Remark):
        return plan
    return Remark(f"this product is done one trip later, beside that of line {plan.first.site.line}", plan.product.site)


Env = dict[Value, Value]    # values of the old program -> of the new one, where they differ


class _Writer:
    """Writes blocks anew; `late` collects the products that run behind."""

    def __init__(self, plans: dict[Op, LateProduct]):
        self.plans, self.late, self.b = plans, set(), Builder()

    def block(self, block: Block) -> Block:
        outside = self.b.open()
        for op in block.ops:
            if op in self.plans:
                self.b.site = op.site
                self.loop(self.plans[op])
            else:
                self.b.ops.append(op.with_blocks(self.block))
        return block.with_ops(self.b.close(outside))

    def loop(self, plan: LateProduct) -> None:
        """`if start < end`: the first trip, the others, the last product. Else: what the loop begins with."""
        loop, b = plan.loop, self.b
        start, end, _ = bounds(loop)
        some = b.emit("icmpSLT", (start, end))
        outside = b.open()
        b.emit("yield", (self.trips(plan), ))
        then = Block((), b.close(outside))
        outside = b.open()
        b.emit("yield", (loop.inits, ))
        otherwise = Block((), b.close(outside))
        types = tuple(result.type for result in loop.results)
        b.ops.append(Op("if", (some, types), loop.results, (then, otherwise), site=loop.site))

    def trips(self, plan: LateProduct) -> tuple[Value, ...]:
        """The first trip and all that follow; the values that the old loop yields."""
        loop, body, b = plan.loop, plan.loop.blocks[0], self.b
        start, end, step = bounds(loop)
        rest = [op for op in body.ops if op is not plan.product and op not in plan.only and op is not terminator(body)]
        places = [place for place, argument in enumerate(body.args[1:]) if argument is not plan.argument]
        env = dict(zip(body.args, (start, *loop.inits)))
        self.clone(rest, env)
        carried = self.handed_on(plan, places, env)
        second = b.emit("add", (start, step))
        trip, *arguments = (Value(one.type, one.name) for one in (body.args[0], *carried))
        env = {body.args[0]: trip, **{body.args[place + 1]: one for place, one in zip(places, arguments)}}
        outside, at = b.open(), rest.index(plan.first) + 1
        self.clone(rest[:at], env)
        product = self.product(plan, arguments[len(places):])
        self.late.add(product)
        env[plan.argument] = product.result
        self.clone(rest[at:], env)
        b.emit("yield", (self.handed_on(plan, places, env), ))
        others = Block((trip, *arguments), b.close(outside))
        results = tuple(Value(one.type, one.name) for one in arguments)
        b.ops.append(Op("for", (second, end, step, carried), results, (others, ), loop.attrs, loop.site))
        last = self.product(plan, results[len(places):]).result
        found = dict(zip(places, results))
        return tuple(found.get(place, last) for place in range(len(body.args) - 1))

    def handed_on(self, plan: LateProduct, places: list[int], env: Env) -> tuple[Value, ...]:
        """The values of a trip for the next one: what the loop carries but the sum, and what is kept for the late product."""
        yielded = plan.loop.blocks[0].yielded
        return _now(env, (*(yielded[place] for place in places), *plan.kept))

    def product(self, plan: LateProduct, kept) -> Op:
        """The late product of the trip to which the kept values belong."""
        env = dict(zip(plan.kept, kept, strict=True))
        self.clone((*plan.again, plan.product), env)
        return self.b.ops[-1]

    def clone(self, ops, env: Env) -> None:
        """The ops once more, with results of their own, which `env` then has."""
        for op in ops:
            results = tuple(Value(one.type, one.name) for one in op.results)
            blocks = tuple(self.clone_block(block, env) for block in op.blocks)
            self.b.ops.append(Op(op.name, _now(env, op.args), results, blocks, op.attrs, op.site))
            env.update(zip(op.results, results))

    def clone_block(self, block: Block, env: Env) -> Block:
        arguments = tuple(Value(one.type, one.name) for one in block.args)
        outside = self.b.open()
        self.clone(block.ops, env | dict(zip(block.args, arguments)))
        return Block(arguments, self.b.close(outside))


def _now(env: Env, arg):
    if isinstance(arg, tuple):
        return tuple(_now(env, item) for item in arg)
    return env.get(arg, arg) if isinstance(arg, Value) else arg
