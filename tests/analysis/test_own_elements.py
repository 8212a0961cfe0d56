"""Tasks that share out rows touch each its own elements: memory in the end is what one task leaves, whichever task runs first."""

import functools
import random

import numpy as np
import pytest

from mimw.compiler.analysis import own_elements
from mimw.compiler.analysis.remarks import Remark
from mimw.compiler.analysis.shared_rows import shared_rows
from mimw.ir import I32, Builder, Pointer, Tensor
from tests.analysis.sliced_programs import NUMBERS, Evaluation, N
from tests.building import FP64, Kernel

WIDTH, APART = 16, 10_000       # elements of a row of each array, and from one array to the next
TILE = Tensor(FP64, (N, N))


class _Accesses:
    """A product, and loads and stores of tiles that begin at random rows and columns; some in a loop, some by pointers."""

    def __init__(self, seed):
        self.rng, self.k = random.Random(seed), Kernel()
        self.descriptors = [self.k.param(name, NUMBERS) for name in ("x", "y", "z")]
        self.pointers = [self.k.param(name, Pointer(FP64)) for name in ("p", "q")]
        self.zero = self.k.constant(0, I32)

    def program(self):
        a, b = (self.k.op("descriptor_load", self.k.param(name, NUMBERS), (self.zero, self.zero), None) for name in ("a", "b"))
        pool = [self.k.op("dot", a, b, self.k.constant(0.0, TILE), None, 0)]
        rows = [self.k.constant(row, I32) for row in (0, 0, 2, 4)]
        if self.rng.random() < 0.6:
            self.access(pool, rows, self.addresses())
        loop = self.k.regions("for", self.k.constant(self.rng.choice((0, 1, 4)), I32), self.k.constant(9, I32),
                              self.k.constant(self.rng.choice((2, 4, 4, 8)), I32), ())
        with self.k.inside(loop, (I32, )) as (trip, ):
            four = self.k.constant(N, I32)
            inner = [trip, trip, self.k.op("mul", trip, four), self.k.op("add", trip, self.k.constant(2, I32)), *rows[1:]]
            pool_inside, addresses = list(pool), self.addresses()
            for _ in range(self.rng.randint(1, 2)):
                self.access(pool_inside, inner, addresses)
            self.k.op("yield", ())
        if self.rng.random() < 0.5:
            self.access(pool, rows, self.addresses())
        return Builder.program(self.k, "kernel", 4)

    def addresses(self):
        """Two tiles of pointers, `N` rows of an array each."""
        found = []
        for pointer in self.pointers:
            down, right = (self.k.op("broadcast", self.k.op("expand_dims", line, axis), Tensor(I32, (N, N))) for axis, line in (
                (axis, self.k.op("make_range", Tensor(I32, (N, )), 0, N)) for axis in (1, 0)))
            at = self.k.op("add", self.k.op("mul", down, self.k.constant(WIDTH, down.type)), right)
            first = self.k.op("addptr", self.k.op("splat", Tensor(pointer.type, (N, N)), pointer), at)
            found += [first, self.k.op("addptr", first, self.k.constant(self.rng.choice((0, 2 * WIDTH)), at.type))]
        return found

    def access(self, pool, rows, addresses):
        loads = self.rng.random() < 0.35
        tile = self.rng.choice(pool)
        if self.rng.random() < 0.3:
            at = self.rng.choice(addresses)
            made = self.k.op("load", at, None, False) if loads else self.k.op("store", at, tile, None)
        else:
            where = self.rng.choice(self.descriptors)
            offsets = self.rng.choice(rows), self.k.constant(self.rng.choice((0, N)), I32)
            made = self.k.op("descriptor_load", where, offsets, None) if loads else \
                self.k.op("descriptor_store", where, tile, offsets)
        if loads:
            pool.append(self.k.op("fadd", made, self.rng.choice(pool)))


class _InMemory(Evaluation):
    """An evaluation on `memory`, in which each parameter has an array."""

    def __init__(self, program, memory, axes=None, part=0, parts=1):
        self.memory, self.arrays = memory, {param.value: place * APART for place, param in enumerate(program.params)}
        super().__init__(program, 0, axes or {}, part, parts)

    def of(self, arg):
        return self.arrays[arg] if not isinstance(arg, tuple) and arg in self.arrays else super().of(arg)

    def box(self, op, tile):
        """The places of the task's part of a box."""
        row, column = (int(at) for at in self.of(op.offsets))
        down, right = np.arange(row, row + N)[:, None], np.arange(column, column + N)[None, :]
        return self.mine(tile, self.arrays[op.descriptor] + down * WIDTH + right)

    def _descriptor_load(self, op):
        return self.memory[self.box(op, op.result)]

    def _load(self, op):
        return self.memory[self.of(op.pointer)]

    def _addptr(self, op):
        return self.of(op.lhs) + self.of(op.rhs)

    def _mul(self, op):
        return self.of(op.lhs) * self.of(op.rhs)

    def store(self, op):
        places = self.of(op.pointer) if op.name == "store" else self.box(op, op.value)
        self.memory[places] = self.of(op.value)


@functools.cache
def program_of(seed):
    return _Accesses(seed).program()


def wrong(seed):
    """None where rows cannot be shared out; else whether two tasks leave anything but what one leaves."""
    program = program_of(seed)
    axes = shared_rows(program, program.walk(), 2, least=2)
    if isinstance(axes, Remark):
        return None
    start = np.random.default_rng(seed).integers(-3, 4, len(program.params) * APART) * 1.0
    whole = start.copy()
    _InMemory(program, whole)
    for order in ((0, 1), (1, 0)):
        found = start.copy()
        for part in order:
            _InMemory(program, found, axes, part, 2)
        if not np.array_equal(found, whole):
            return True
    return False


def test_memory_is_what_one_task_leaves():
    answers = [wrong(seed) for seed in range(200)]
    assert True not in answers, f"seed {answers.index(True)}"
    assert answers.count(False) > 50 and answers.count(None) > 50


MISTAKES = {"accesses are never compared": ("_apart", lambda uses, one, other, axes, independent: True),
            "trips are never compared": ("_steady", lambda uses, value, extent, loops: True),
            "half a tile is enough": ("_is_multiple",
                                      lambda uses, value, extent: (own_elements.constant_of(uses, value) or 1) % 2 == 0)}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake, monkeypatch):
    monkeypatch.setattr(own_elements, *MISTAKES[mistake])
    assert any(map(wrong, range(300)))
