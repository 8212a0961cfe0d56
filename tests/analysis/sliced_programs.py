"""Random plain programs of tiles, and what they compute in numpy: as a whole, or one task's part of it.

    program = random_program(seed)
    whole = values(program, seed)                               every value of the program, by value
    part = values(program, seed, {x: 0}, 1, 2)                  the second of two tasks that share out `x` along axis 0

A part is computed from parts of what is loaded and of ranges alone; it takes nothing from the whole. All numbers are whole and
small, so that sums are exact in any order. What is loaded follows from the seed, the descriptor and the offsets;
`Evaluation.stored` lists what was stored.
"""

import random

import numpy as np

from mimw.compiler.analysis.shared_rows import shared
from mimw.ir import I32, Builder, Descriptor, Tensor
from mimw.ir.ops import OPS
from tests.building import FP64, I1, Kernel

N = 4       # extent of most axes, so that a mistaken axis still has the right extent
INTEGERS, NUMBERS = Descriptor(I32, (N, N)), Descriptor(FP64, (N, N))


def values(program, seed, axes=None, part=0, parts=1):
    """Every value that the program computes, as numpy arrays and numbers; with `axes`, those of one part."""
    return Evaluation(program, seed, axes or {}, part, parts).known


def cut(array, axis, part, parts):
    return array if axis is None else np.split(array, parts, axis)[part]


class Evaluation:

    def __init__(self, program, seed, axes, part, parts):
        self.seed, self.axes, self.part, self.parts, self.known, self.stored = seed, axes, part, parts, {}, []
        self.names = [param.value for param in program.params]
        self.block(program.body)

    def of(self, arg):
        return tuple(self.known[one] for one in arg) if isinstance(arg, tuple) else self.known[arg]

    def mine(self, value, array):
        """The task's part of what stands in memory, or follows from positions alone."""
        return cut(array, self.axes.get(value), self.part, self.parts)

    def shape(self, value):
        return shared(value.type, self.axes.get(value), self.parts).shape

    def block(self, block):
        """The values that the block hands on."""
        for op in block.ops:
            if op.name == "yield":
                return self.of(op.values)
            if op.name == "condition":
                return self.of(op.condition), self.of(op.values)
            if op.row.hands_on:
                self.known.update(zip(op.results, getattr(self, f"_{op.name}")(op), strict=True))
            elif op.results:
                found = getattr(self, f"_{op.name}")(op)
                self.known.update(zip(op.results, found if len(op.results) > 1 else (found, ), strict=True))
            else:
                self.store(op)
        return ()

    def store(self, op):
        self.stored.append(self.of((op.value, *op.offsets)))

    # ---- control flow ---------------------------------------------------------------------------------------------------

    def _for(self, op):
        carried = self.of(op.inits)
        for trip in range(*map(int, self.of((op.start, op.end, op.step)))):
            self.known.update(zip(op.blocks[0].args, (trip, *carried), strict=True))
            carried = self.block(op.blocks[0])
        return carried

    def _while(self, op):
        before, after = op.blocks
        carried = self.of(op.inits)
        while True:
            self.known.update(zip(before.args, carried, strict=True))
            more, handed = self.block(before)
            if not more:
                return handed
            self.known.update(zip(after.args, handed, strict=True))
            carried = self.block(after)

    def _if(self, op):
        return self.block(op.blocks[0 if self.of(op.condition) else 1])

    # ---- what tiles are made of -----------------------------------------------------------------------------------------

    def _descriptor_load(self, op):
        rng = np.random.default_rng((self.seed, self.names.index(op.descriptor), *(int(at) % 2**32 for at in self.of(op.offsets))))
        integers = op.result.type.element == I32
        return self.mine(op.result, rng.integers(0, N, op.result.type.shape) if integers else rng.integers(-3, 4, (N, N)) * 1.0)

    def _make_range(self, op):
        return self.mine(op.result, np.arange(op.start, op.end))

    def _constant(self, op):
        return np.full(self.shape(op.result), op.value) if isinstance(op.result.type, Tensor) else op.value

    def _splat(self, op):
        return np.full(self.shape(op.result), self.of(op.value))

    # ---- arithmetic -----------------------------------------------------------------------------------------------------

    def _dot(self, op):
        return self.of(op.a) @ self.of(op.b) + self.of(op.acc)

    def _reduce(self, op):
        return self.of(op.values)[0].sum(op.axis)

    def _scan(self, op):
        return self.of(op.values)[0].cumsum(op.axis)

    def _select(self, op):
        return np.where(self.of(op.condition), self.of(op.if_true), self.of(op.if_false))

    def _si_to_fp(self, op):
        return self.of(op.value) * 1.0

    def _expand_dims(self, op):
        return np.expand_dims(self.of(op.value), op.axis)

    def _broadcast(self, op):
        return np.broadcast_to(self.of(op.value), self.shape(op.result))

    def _trans(self, op):
        return self.of(op.value).transpose(op.order)

    def _reshape(self, op):
        return self.of(op.value).reshape(self.shape(op.result))

    def _join(self, op):
        return np.stack((self.of(op.lhs), self.of(op.rhs)), -1)

    def _split(self, op):
        return self.of(op.value)[..., 0], self.of(op.value)[..., 1]

    def _gather(self, op):
        return np.take_along_axis(self.of(op.source), self.of(op.indices), op.axis)


def _two(name, compute):
    assert name in OPS
    setattr(Evaluation, f"_{name}", lambda self, op: compute(self.of(op.lhs), self.of(op.rhs)))


for _name, _compute in (("fadd", np.add), ("fsub", np.subtract), ("fmul", np.multiply), ("frem", np.fmod), ("maximumf", np.maximum),
                        ("icmpSLT", np.less), ("add", np.add)):
    _two(_name, _compute)


# ---- random programs ----------------------------------------------------------------------------------------------------


def random_program(seed, steps=7):
    """A kernel with a product or more, `steps` random ops, perhaps a loop and a branch around some, and a store or two."""
    return RandomOps(seed).program(steps)


class RandomOps:

    def __init__(self, seed):
        self.rng, self.k, self.seed = random.Random(seed), Kernel(), seed
        self.numbers, self.integers = self.k.param("numbers", NUMBERS), self.k.param("integers", INTEGERS)
        self.out = self.k.param("out", NUMBERS)
        self.zero, self.loads = self.k.constant(0, I32), 0

    def load(self, descriptor, row=None):
        """The tile at `row`, by default at 0; no two loads are from the same place."""
        self.loads += 1
        return self.k.op("descriptor_load", descriptor, (row or self.zero, self.k.constant(self.loads, I32)), None)

    def small(self, value):
        """Numbers below 7 of the same sign."""
        return self.k.op("frem", value, self.k.constant(7.0, value.type))

    def pick(self, pool, rank=None):
        found = [value for value in pool if rank is None or len(value.type.shape) == rank]
        return self.rng.choice(found) if found else None

    def program(self, steps):
        pool = [self.load(self.numbers) for _ in range(2)]
        pool.append(self.product(pool))
        self.more(pool, steps // 2)
        if self.rng.random() < 0.4:
            pool += self.rng.choice((self.loop, self.until, self.branch))(pool)
        self.more(pool, steps - steps // 2)
        square = [value for value in pool if value.type.shape == (N, N)]
        if self.rng.random() < 0.5:
            self.k.op("descriptor_store", self.out, self.rng.choice(square), (self.zero, self.zero))
        return self.made()

    def made(self):
        """The program; one in ten is verified, for the time that takes."""
        return self.k.program() if self.seed % 10 == 0 else Builder.program(self.k, "kernel", 4)

    def more(self, pool, steps, products=True):
        kinds = (self.arithmetic, self.arithmetic, self.along, self.moved, self.pairs, self.picked, self.masked, self.rows)
        for _ in range(steps):
            made = self.rng.choice((*kinds, self.product) if products else kinds)(pool)
            if made is not None:
                pool.append(made)

    def loop(self, pool):
        init = self.pick(pool)
        loop = self.k.regions("for", self.zero, self.k.constant(2, I32), self.k.constant(1, I32), (init, ))

        def body(trip, carried):
            inner = [*pool, carried]
            self.more(inner, 2)
            return [self.rng.choice([value for value in inner if value.type == init.type])]
        self.k.block(loop, body, (I32, init.type))
        return loop.results

    def until(self, pool):
        """A `while` of two trips."""
        init = self.pick(pool)
        types, loop = (I32, init.type), self.k.regions("while", (self.zero, init))

        def before(trip, carried):
            self.k.op("condition", self.k.op("icmpSLT", trip, self.k.constant(2, I32)), (trip, carried))

        def after(trip, carried):
            inner = [*pool, carried]
            self.more(inner, 2)
            return [self.k.op("add", trip, self.k.constant(1, I32)),
                    self.rng.choice([value for value in inner if value.type == init.type])]
        self.k.block(loop, before, types)
        self.k.block(loop, after, types)
        return loop.results[1:]

    def branch(self, pool):
        type_ = self.pick(pool).type
        branch = self.k.regions("if", self.k.constant(self.rng.randint(0, 1), I1), (type_, ))
        for _ in range(2):
            self.k.block(branch, lambda: [self.rng.choice([value for value in pool if value.type == type_])])
        return branch.results

    def product(self, pool):
        square = [value for value in pool if value.type.shape == (N, N)]
        a, acc = self.rng.choice(square), self.rng.choice([self.k.constant(0.0, square[0].type), self.rng.choice(square)])
        b = self.load(self.numbers) if self.rng.random() < 0.8 else self.rng.choice(square)
        return self.small(self.k.op("dot", a, b, acc, None, 0))

    def arithmetic(self, pool):
        one = self.pick(pool)
        other = self.rng.choice([value for value in pool if value.type == one.type])
        name = self.rng.choice(("fadd", "fsub", "fmul", "maximumf"))
        return self.small(self.k.op(name, one, other))

    def along(self, pool):
        """A reduction whose result is spread over the tile again, or a scan."""
        tile = self.pick(pool, 2)
        axis, name = self.rng.choice((1, 1, 0)), self.rng.choice(("reduce", "scan"))
        found = self.k.regions(name, (tile, ), axis, *([False] if name == "scan" else []))
        self.k.block(found, lambda a, b: [self.k.op("fadd", a, b)], (FP64, FP64))
        result = self.small(found.results[0])
        if name == "scan" or self.rng.random() < 0.3:
            return result
        return self.k.op("broadcast", self.k.op("expand_dims", result, axis), tile.type)

    def moved(self, pool):
        tile = self.pick(pool)
        rank = len(tile.type.shape)
        choice = self.rng.random()
        if choice < 0.4 and rank > 1:
            order = list(range(rank))
            self.rng.shuffle(order)
            return self.k.op("trans", tile, tuple(order))
        if choice < 0.7:
            size = tile.type.numel
            return self.k.op("reshape", tile, self.rng.choice(((size, ), (N, size // N), (size // N, N), (2, size // 2))), False)
        return self.k.op("expand_dims", tile, self.rng.randint(0, rank)) if rank < 3 else None

    def pairs(self, pool):
        tile = self.pick(pool)
        if self.rng.random() < 0.5 and len(tile.type.shape) < 3:
            return self.k.op("join", tile, self.rng.choice([value for value in pool if value.type == tile.type]))
        return self.rng.choice(self.k.op("split", tile)) if len(tile.type.shape) > 1 and tile.type.shape[-1] == 2 else None

    def picked(self, pool):
        source = self.rng.choice([value for value in pool if value.type.shape == (N, N)])
        return self.k.op("gather", source, self.load(self.integers), self.rng.choice((1, 1, 0)))

    def masked(self, pool):
        """The tile where its row number, or its column's, is below another one's."""
        tile = self.rng.choice([value for value in pool if value.type.shape == (N, N)])
        sides = []
        for _ in range(2):
            line, axis = self.k.op("make_range", Tensor(I32, (N, )), 0, N), self.rng.randint(0, 1)
            sides.append(self.k.op("broadcast", self.k.op("expand_dims", line, axis), Tensor(I32, (N, N))))
        return self.k.op("select", self.k.op("icmpSLT", *sides), tile, self.k.constant(0.0, tile.type))

    def rows(self, pool):
        """Row numbers as numbers, spread over a tile."""
        line = self.k.op("make_range", Tensor(I32, (N, )), 0, N)
        line = self.k.op("si_to_fp", line, Tensor(FP64, (N, )))
        return self.k.op("broadcast", self.k.op("expand_dims", line, self.rng.randint(0, 1)), Tensor(FP64, (N, N)))
