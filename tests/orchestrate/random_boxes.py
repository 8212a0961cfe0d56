"""Random loads and stores by pointers, and what they access: element by element, by numpy alone.

Input: a seed. Output: a `Case`: a program with one load or store of a tile, arguments, and the `Visit`s of that access in one
program of the grid, with the address of each element and whether the mask admits it. For example:

    case = random_case(7)
    case.visits(case.program)       [Visit(addresses=.., inside=.., numbers={..}), ..]: one for each round of its loops
    pytest --long tests/orchestrate/test_random_boxes.py        10,000 cases instead of 1,000

Offsets are sums of constants, arguments, the program's number, counters of loops and quotients; masks bound no axis, one or both,
above and below, in several spellings; pointers are carried by loops or made in them. Integers of 32 bits wrap, as the kernel's
do.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from mimw.compiler.analysis.polynomials import Trip
from mimw.ir import I32, I64, Builder, Op, Pointer, Program, Scalar, Site, Tensor, Value

ELEMENTS = {"i8": 1, "fp16": 2, "fp32": 4}
BASE = 1 << 44          # the address of the array: a multiple of 16


@dataclass
class Visit:
    """One run of the access: its addresses, the elements that are inside, and the numbers of all scalars and trips then."""

    addresses: np.ndarray | None
    inside: np.ndarray | None
    numbers: dict[Any, int]
    offsets: tuple[int, ...] | None = None


@dataclass
class Case:
    program: Program
    access: Op
    arguments: dict[str, int]
    pid: int
    programs: int
    shape: tuple[int, ...] = ()

    def visits(self, program: Program) -> list[Visit]:
        """What the access of `program` reads or writes, this case's or the lifted one."""
        return _Evaluator(self).run(program)


class _Maker:
    """One random program."""

    def __init__(self, seed: int, wraps: bool = False):
        self.wraps = wraps
        self.r, self.b, self.line = random.Random(seed), Builder(Site("random.py", 1)), 1
        self.element = self.r.choice(list(ELEMENTS))
        self.base = self.b.param("a", Pointer(Scalar(self.element)))
        self.params = {name: self.b.param(name, I32) for name in ("M", "N", "s", "t", "x", "y", "n")}
        self.pid = self.op("get_program_id", 0)
        self.wide = self.r.random() < 0.2       # indices of 64 bits
        self.rank = self.r.choice((1, 2, 2, 2, 2))
        self.turned = self.rank == 2 and self.r.random() < 0.3
        self.row = 16 // ELEMENTS[self.element]
        inner = self.row * self.r.choice((1, 2))
        blocks = (self.r.choice((2, 4, 8)), inner)[2 - self.rank:]
        self.shape = blocks[::-1] if self.turned else blocks
        self.axes = (1, 0) if self.turned else tuple(range(self.rank))      # descriptor's axis -> tile's
        self.stores = self.r.random() < 0.25
        self.counters: list[Value] = []

    def op(self, name: str, *args):
        self.line += 1
        return self.b.emit(name, args, Site("random.py", self.line))

    def number(self, value: int, type_=I32) -> Value:
        return self.op("constant", value, type_)

    # ---- indices ----------------------------------------------------------------------------------------------------

    def offset(self, inner: bool) -> Value:
        """The offset of a block along one axis; most begin at 16 bytes and none in front of the tensor."""
        r = self.r
        unit = self.row if inner and r.random() < 0.97 else 1
        terms = []
        if r.random() < 0.6:
            pid = self.pid if r.random() < 0.7 else self.op("get_program_id", 0)
            terms.append(self.op("mul", pid, self.number(unit * r.choice((1, 2, 4)))))
        if r.random() < 0.3:
            terms.append(self.number(unit * r.choice((0, 1, 3, -1))))
        if r.random() < 0.25:
            terms.append(self.op("mul", self.params["x"], self.number(unit)))
        if r.random() < 0.2:
            terms.append(self.op("mul", self.op(r.choice(("srem", "sdiv", "minsi", "maxsi")), self.pid, self.number(2)),
                                 self.number(unit)))
        for counter in self.counters:
            if r.random() < 0.7:
                terms.append(self.op("mul", counter, self.number(unit)))
        r.shuffle(terms)
        total = terms.pop() if terms else self.number(0)
        for term in terms:
            total = self.op("add", total, term)
        return total

    def tile(self, scalar: Value, axis: int) -> Value:
        """scalar + position along the axis of the tile, spread over a tile with extents of 1 elsewhere."""
        extent = self.shape[axis]
        positions = self.op("make_range", Tensor(I32, (extent, )), 0, extent)
        if self.wide:
            positions = self.op("int_cast", positions, Tensor(I64, (extent, )), True)
        total = self.op("add", self.splat(scalar, positions.type), positions) if self.r.random() < 0.8 else self.op(
            "add", positions, self.splat(scalar, positions.type))
        return self.spread(self.wrapped(total) if self.wraps and self.r.random() < 0.5 else total, axis)

    def wrapped(self, tile: Value) -> Value:
        """The positions of a tile, or others behind an extent: `tile % M`, or `tl.where(tile < M, tile, 0)`."""
        extent = self.splat(self.params[self.r.choice("MN")], tile.type)
        if self.r.random() < 0.5:
            return self.op("srem", tile, extent)
        return self.op("select", self.op("icmpSLT", tile, extent), tile, self.splat(self.number(0), tile.type))

    def spread(self, tile: Value, axis: int) -> Value:
        return tile if self.rank == 1 else self.op("expand_dims", tile, 1 - axis)

    def splat(self, scalar: Value, type_: Tensor) -> Value:
        if scalar.type != type_.element:
            scalar = self.op("int_cast", scalar, type_.element, True)
        return self.op("splat", type_, scalar)

    def stride(self) -> Value:
        r = self.r
        choice = r.random()
        if choice < 0.6:
            return self.params["s"]
        if choice < 0.75:
            return self.op("mul", self.params["s"], self.params["t"])
        if choice < 0.85:
            return self.op("sdiv", self.params["s"], self.number(2))
        return self.number(self.row * r.choice((1, 4, 16)))

    # ---- addresses and masks ----------------------------------------------------------------------------------------

    def address(self, offsets: list[Value], stride: Value | None) -> Value:
        """A tile of pointers to base + offsets and positions times strides."""
        r, parts = self.r, []
        for place, offset in enumerate(offsets):
            axis = self.axes[place]
            part = self.tile(offset, axis)
            if place < self.rank - 1:
                part = self.op("mul", part, self.splat(stride, part.type))
            parts.append((axis, part))
        if r.random() < 0.5:
            parts.reverse()
        base = self.base
        if r.random() < 0.2:
            base = self.op("addptr", base, self.op("mul", self.params["y"], self.number(self.row)))
        (_, first), *rest = parts
        pointers = self.op("addptr", self.op("splat", Tensor(self.base.type, first.type.shape), base), first)
        pointers = self.whole(pointers)
        for _, part in rest:
            pointers = self.op("addptr", pointers, self.whole(part))
        return pointers

    def whole(self, tile: Value) -> Value:
        return tile if tile.type.shape == self.shape else self.op("broadcast", tile, self.shape)

    def mask(self, offsets: list[Value]) -> Value | None:
        r, found = self.r, []
        for place, offset in enumerate(offsets):
            axis, bound = self.axes[place], self.params["MN"[place % 2]]
            if r.random() < 0.04:       # the mask is about something else
                found.append(self.below(self.offset(False), axis, bound))
            elif r.random() < 0.05:     # or about an element beside it
                found.append(self.below(self.op("add", offset, self.number(r.choice((-1, 1)))), axis, bound))
            elif r.random() < 0.65:
                found.append(self.below(offset, axis, bound))
            if r.random() < 0.03:
                found.append(self.below(offset, axis, self.params[r.choice("MNx")]))
            if r.random() < 0.15:
                found.append(self.compare(r.choice(("ge", "flipped ge", "gt")), self.tile(offset, axis), self.number(0)))
        r.shuffle(found)
        total = None
        for one in map(self.whole, found):
            total = one if total is None else self.op("and", total, one)
        return total

    def below(self, offset: Value, axis: int, bound: Value) -> Value:
        """offset + position < bound, somehow."""
        spelling = self.r.choice(("lt", "flipped", "le", "left", "shifted"))
        if spelling == "left":      # position < bound - offset
            zero = self.number(0)
            return self.compare("lt", self.tile(zero, axis), self.op("sub", bound, offset))
        if spelling == "shifted":   # offset + position + 1 <= bound
            return self.compare("le", self.tile(self.op("add", offset, self.number(1)), axis), bound)
        if spelling == "le":
            return self.compare("le", self.tile(offset, axis), self.op("sub", bound, self.number(1)))
        return self.compare("flipped lt" if spelling == "flipped" else "lt", self.tile(offset, axis), bound)

    def compare(self, how: str, tile: Value, scalar: Value) -> Value:
        other = self.splat(scalar, tile.type)
        if how == "gt":             # tile > -1
            return self.op("icmpSGT", tile, self.op("sub", other, self.splat(self.number(1), tile.type)))
        name = {"lt": "icmpSLT", "flipped lt": "icmpSGT", "le": "icmpSLE", "ge": "icmpSGE", "flipped ge": "icmpSLE"}[how]
        return self.op(name, other, tile) if "flipped" in how else self.op(name, tile, other)

    def access(self, pointers: Value, mask: Value | None) -> None:
        if self.stores:
            element = Scalar(self.element)
            value = self.op("splat", Tensor(element, self.shape), self.number(0 if self.element == "i8" else 0.0, element))
            self.op("store", pointers, value, None) if mask is None else self.op("masked_store", pointers, value, mask, None)
        elif mask is None:
            self.op("load", pointers, None, False)
        else:
            self.op("masked_load", pointers, mask, None, None, False)

    # ---- programs ---------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        self.nest(self.r.choice((0, 1, 1, 1, 2)))
        return self.b.program("kernel", 4, Site("random.py", 1))

    def nest(self, depth: int) -> None:
        if not depth:
            offsets = [self.offset(place == self.rank - 1) for place in range(self.rank)]
            stride = self.stride() if self.rank == 2 else None
            self.access(self.address(offsets, stride), self.mask(offsets))
        elif depth == 1 and self.r.random() < 0.4:
            self.carried()
        else:
            step, start = self.r.choice((1, 1, 2, 8)), self.r.choice((0, 0, 0, 3))
            loop = self.loop(start, step, ())
            with self.b.inside(loop, (I32, )) as (counter, ):
                self.counters.append(counter)
                self.nest(depth - 1)
                self.op("yield", ())

    def loop(self, start: int, step: int, inits: tuple[Value, ...]):
        self.line += 1
        self.b.site = Site("random.py", self.line)
        r, end = self.r, self.number(start + step * self.r.choice((0, 1, 2, 3)))
        bounds = self.number(start), end, self.number(step)
        if not inits and r.random() < 0.3:      # as many rounds as arguments say
            bounds = r.choice((bounds[0], self.params["x"], self.pid)), self.params["n"], bounds[2]
        if not inits and r.random() < 0.1:      # tiles in turn
            bounds = self.pid, self.params["n"], self.op("get_num_programs", 0)
        return self.b.place("for", *bounds, inits)

    def carried(self) -> None:
        """A pointer that goes along one axis, and a mask by what the counter says."""
        r, place = self.r, self.r.randrange(self.rank)
        offsets = [self.offset(at == self.rank - 1) for at in range(self.rank)]
        stride, by = self.stride() if self.rank == 2 else None, self.row * r.choice((1, 2))
        pointers = self.address(offsets, stride)
        loop = self.loop(0, 1, (pointers, ))
        with self.b.inside(loop, (I32, pointers.type)) as (counter, carried):
            moved = list(offsets)
            moved[place] = self.op("add", offsets[place], self.op("mul", counter, self.number(by)))
            self.access(carried, self.mask(moved))
            more = self.number(by)
            if place < self.rank - 1:
                more = self.op("mul", more, stride)
            self.op("yield", (self.op("addptr", carried, self.op("splat", Tensor(I32, self.shape), more)), ))


def random_case(seed: int, wraps: bool = False) -> Case:
    """The case of a seed. Most arguments are such as kernels get; some are odd, negative, or too large for 32 bits. With
    `wraps` rows and columns may wrap around."""
    maker = _Maker(seed, wraps)
    program, r = maker.program(), maker.r
    access = next(op for op in program.walk() if op.row.loads or op.row.stores)
    row = maker.row
    arguments = {"M": r.randrange(1, 40), "N": r.randrange(1, 80), "s": row * 2 * r.randrange(1, 9), "t": r.randrange(1, 4),
                 "x": r.randrange(0, 4), "y": r.randrange(0, 3), "n": r.randrange(0, 6)}
    if maker.stores and r.random() < 0.7:
        arguments["M"], arguments["N"] = (16 * r.randrange(1, 5) for _ in "MN")
    odd = r.random()
    if odd < 0.1:
        arguments["x"] = r.choice((-1, -2, 1 << 27, (1 << 31) - 1))
    elif odd < 0.2:
        arguments["s"] = r.choice((0, -row, row + 1, row << 26, (1 << 31) - 2 * row))
    elif odd < 0.25:
        arguments[r.choice("MN")] = r.choice((0, -3, (1 << 31) - 1))
    elif odd < 0.3:
        arguments["y"] = r.choice((-1, 1 << 28))
    programs = r.randrange(1, 4)
    return Case(program, access, arguments, r.randrange(programs), programs, maker.shape)


class _Evaluator:
    """Runs the integers of a program by numpy, and notes what its loads read."""

    def __init__(self, case: Case):
        self.case, self.env, self.trips, self.found = case, {}, {}, []

    def run(self, program: Program) -> list[Visit]:
        for param in program.params:
            if isinstance(param.value.type, Pointer):
                self.env[param.value] = np.int64(BASE)
            elif param.name in self.case.arguments:
                self.env[param.value] = np.int32(self.case.arguments[param.name])
        with np.errstate(all="ignore"):
            self.block(program.body)
        return self.found

    def block(self, block) -> tuple:
        for op in block.ops:
            if op.name == "yield":
                return tuple(self.env[value] for value in op.values)
            if op.name == "for":
                self.loop(op)
            elif op.row.loads or op.row.stores or op.row.copy:
                self.visit(op)
            elif op.name != "trans":
                self.env[op.result] = self.value(op)
        return ()

    def loop(self, op: Op) -> None:
        start, end, step = (int(self.env[one]) for one in (op.start, op.end, op.step))
        counter, *carried = op.blocks[0].args
        values = [self.env[one] for one in op.inits]
        for trip, at in enumerate(range(start, end, step)):
            self.trips[Trip(op)] = trip
            self.env |= {counter: np.int32(at), **dict(zip(carried, values))}
            values = self.block(op.blocks[0])
        self.env |= dict(zip(op.results, values))

    def visit(self, op: Op) -> None:
        numbers = {value: int(number) for value, number in self.env.items() if np.ndim(number) == 0} | self.trips
        if op.row.copy:
            self.found.append(Visit(None, None, numbers, tuple(int(self.env[one]) for one in op.offsets)))
            return
        mask = self.env[op.mask] if "mask" in op.row.places else True
        addresses, inside = (np.broadcast_to(one, self.case.shape) for one in (self.env[op.pointer], mask))
        self.found.append(Visit(addresses, inside, numbers))

    def value(self, op: Op):
        env, name = self.env, op.name
        if name == "constant":
            return np.bool_(op.value) if op.type.bits == 1 else np.dtype(f"int{op.type.bits}").type(op.value)
        if name == "get_program_id":
            return np.int32(self.case.pid)
        if name == "get_num_programs":
            return np.int32(self.case.programs)
        if name == "make_range":
            return np.arange(op.start, op.end, dtype=np.int32)
        if name == "splat":
            return np.full(op.type.shape, env[op.value])
        if name == "expand_dims":
            return np.expand_dims(env[op.value], op.axis)
        if name == "broadcast":
            return np.broadcast_to(env[op.value], op.result.type.shape)
        if name == "int_cast":
            return env[op.value].astype(f"int{getattr(op.type, 'element', op.type).bits}")
        if name == "select":
            return np.where(env[op.condition], env[op.if_true], env[op.if_false])
        left, right = env[op.lhs], env[op.rhs]
        if name == "addptr":
            return left + right.astype(np.int64) * op.lhs.type.element.pointee.bytes if isinstance(op.lhs.type, Tensor) else (
                left + np.int64(right) * op.lhs.type.pointee.bytes)
        if name in ("sdiv", "srem"):
            quotient = np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right))
            return (quotient if name == "sdiv" else left - quotient * right).astype(left.dtype)
        return _BINARY[name](left, right)


_BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "icmpEQ": np.equal,
           "minsi": np.minimum, "maxsi": np.maximum, "icmpSLT": np.less, "icmpSLE": np.less_equal, "icmpSGT": np.greater,
           "icmpSGE": np.greater_equal}


def read_by(box, visit: Visit) -> tuple[np.ndarray, np.ndarray]:
    """(addresses, inside) of the elements of the tile, as a descriptor reads the box."""
    rank = len(box.block)
    offsets, shape, strides = ([int(poly.at(visit.numbers)) for poly in many] for many in (box.offsets, box.shape, box.strides))
    addresses, inside = np.int64(BASE), np.bool_(True)
    for axis in range(rank):
        places = offsets[axis] + np.arange(box.block[axis], dtype=np.int64)
        places = places.reshape([-1 if at == axis else 1 for at in range(rank)])
        addresses = addresses + places * (strides[axis] * box.element.bytes)
        inside = inside & (places >= 0) & (places < shape[axis])
    back = [box.order.index(axis) for axis in range(rank)]
    return addresses.transpose(back), np.broadcast_to(inside, addresses.shape).transpose(back)


def same(box, visits: list[Visit], stores: bool = False) -> bool:
    """True if the box has, in every visit, the elements that the pointers have, and no others."""
    for visit in visits:
        addresses, inside = read_by(box, visit)
        if (inside != visit.inside).any() or (addresses != visit.addresses)[visit.inside].any():
            return False
        if stores and not _written(box, visit, addresses[inside]):
            return False
    return True


def _written(box, visit: Visit, addresses: np.ndarray) -> bool:
    """True if TMA writes these elements and nothing else: no block begins in front of the tensor, no place is written twice, and
    no row ends within 16 bytes, which TMA would write all."""
    extent = int(box.shape[-1].at(visit.numbers)) * box.element.bytes
    corner = min(int(offset.at(visit.numbers)) for offset in box.offsets)
    return not addresses.size or corner >= 0 and len(np.unique(addresses)) == addresses.size and extent % 16 == 0
