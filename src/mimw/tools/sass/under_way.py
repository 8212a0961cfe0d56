"""Registers of a product under way that other instructions touch: what they hold then is undefined, and no assembler says so.

Input: the machine code (SASS) of a Hopper kernel. Output: `Touch`es, the first for each place. For example:

    for touch in touches(made.sass): print(touch)
        0x0af0: FSEL R24, R24, -INF, !P2 writes R24, which HGMMA.64x64x16.F32 R88, R24, gdesc[UR8].tnspB, R88 reads until it is over

A warpgroup starts a product (wgmma) and goes on. Until the wait for the product's group nothing may read or write its sums but
further products that add to the same registers, and nothing may write its left operand where that is in registers (PTX ISA,
"Asynchronous Warpgroup Level Matrix Instructions", wgmma.mma_async and wgmma.wait_group). Every way through the code is followed,
loops included, with the groups that are under way on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from .code import Code, bits, opcode, operands, registers, written

MOST = 4                # groups that are told apart; older ones count as one
A_REGISTERS = 4         # of a thread: 64 x 16 elements of 16 bits, or as many bytes of other types, in 128 threads

_SHAPE = re.compile(r"GMMA(?:\.SP)?\.64x(\d+)x\d+\.(\w+)")
_WAIT = re.compile(r"^WARPGROUP\.DEPBAR\.LE gsb0, (0x[0-9a-f]+)")


@dataclass(frozen=True, eq=False)
class Product:
    """A wgmma: registers of its sums, first and count of the result and of what it adds to; the bits of A's, 0 if A is in shared
    memory; all of its sums as bits; whether its group ends with it; its text. There is one object for one text."""

    sums: frozenset[tuple[int, int]]
    a: int
    sum_bits: int
    ends: bool
    text: str


@dataclass(frozen=True)
class Touch:
    """An instruction that touches a register of a product under way."""

    at: int
    text: str
    does: str
    register: int
    product: Product

    def __str__(self) -> str:
        what = "reads until it is over" if self.does == "writes" else "has not done yet"
        return f"{16 * self.at:#06x}: {self.text} {self.does} R{self.register}, which {self.product.text} {what}"


@lru_cache(1 << 12)
def product_of(text: str) -> Product | None:
    """The product that an instruction starts; None if it starts none."""
    found = _SHAPE.search(opcode(text))
    if not found:
        return None
    count = int(found[1]) // (4 if found[2] == "F16" else 2)
    parts = operands(text)
    result, first_of_a, *others = (int(part[1:]) if re.fullmatch(r"R\d+", part) else None for part in parts)
    a = 0 if first_of_a is None else bits(range(first_of_a, first_of_a + A_REGISTERS))
    sums = frozenset((first, count) for first in (result, *others) if first is not None)       # RZ: sums that nobody wants
    every = bits(number for first, count in sums for number in range(first, first + count))
    return Product(sums, a, every, "gsb0" in parts, text)


State = tuple[tuple[Product, ...], ...]         # groups of products under way, oldest first


def touches(sass: str) -> list[Touch]:
    """The instructions that touch registers of products under way, in the order of the code."""
    code = Code.read(sass)
    found: dict[int, Touch] = {}
    todo: list[tuple[int, State]] = [(index, ()) for index in _first_products(code)]
    seen: set[tuple[int, State]] = set()
    while todo:
        at, state = todo.pop()
        if (at, state) in seen:
            continue
        seen.add((at, state))
        for index in range(at, code.ends[at] + 1):
            text = code.texts[index]
            if product := product_of(text) if "GMMA" in text else None:
                touch = _of_product(index, product, state)
                state = _started(state, product)
            elif waited := _WAIT.match(text):
                touch, state = None, _waited(state, int(waited[1], 16))
            else:
                touch = _of_other(index, text, state) if state else None
            if touch:
                found.setdefault(index, touch)
        if state:
            todo += [(following, state) for following in code.following(code.ends[at])]
    return [found[index] for index in sorted(found)]


def _first_products(code: Code) -> Iterator[int]:
    """The first product of each run of code without a branch. To begin at each of them as if nothing were under way finds nothing
    that is not so: what is under way before is followed from there."""
    end = -1
    for index, text in enumerate(code.texts):
        if index > end and "GMMA" in text and product_of(text):
            yield index
            end = code.ends[index]


def _started(state: State, product: Product) -> State:
    """Groups behind the start of a product. The last group is open until a product ends it."""
    if state and not state[-1][-1].ends:
        state = *state[:-1], (*state[-1], product)
    else:
        state = *state, (product, )
    return state if len(state) <= MOST else (tuple(dict.fromkeys(state[0] + state[1])), *state[2:])


def _waited(state: State, left: int) -> State:
    """Groups behind a wait that leaves the youngest ones under way; an open group is none yet, and stays."""
    is_open = bool(state) and not state[-1][-1].ends
    ended = state[:-1] if is_open else state
    return ended[max(0, len(ended) - left):] + (state[-1:] if is_open else ())


def _of_other(index: int, text: str, state: State) -> Touch | None:
    named, put = registers(text), written(text)
    if not named:
        return None
    for product in _under_way(state):
        if touched := named & product.sum_bits:
            return Touch(index, text, "touches", _lowest(touched), product)
        if touched := put & product.a:
            return Touch(index, text, "writes", _lowest(touched), product)
    return None


def _of_product(index: int, new: Product, state: State) -> Touch | None:
    """Products are done in their order, so a further one may add to the same sums, of the same shape."""
    for product in _under_way(state):
        if touched := new.a & product.sum_bits:
            return Touch(index, new.text, "touches", _lowest(touched), product)
        if touched := new.sum_bits & product.a:
            return Touch(index, new.text, "writes", _lowest(touched), product)
        if (touched := new.sum_bits & product.sum_bits) and not new.sums & product.sums:
            return Touch(index, new.text, "touches", _lowest(touched), product)
    return None


def _under_way(state: State) -> Iterator[Product]:
    for group in state:
        yield from group


def _lowest(found: int) -> int:
    return (found & -found).bit_length() - 1
