"""Accesses to picked elements of another CTA's shared memory, each logical element once.

Input: an op with the flat tiles `position` (the numbers of elements in row-major order) and `rank` (the CTA of each element), and
tiles of values. Output: PTX that each thread runs for the elements that it holds:

    remote_load %tile %position %rank        mad.lo.u32 to, $position, 4, $tile;  mapa.shared::cluster.u32 to, to, $rank;
                                             ld.shared::cluster.b32 $result, [to];

All tiles of an op have one layout (`constraints.rules.linear.run`): thread t holds `each` neighbouring elements from number
t * each on, then the `each` elements that stand a whole round of threads later. Neighbouring elements go in one access, as wide
as the elements are together. A tile may have fewer elements than the threads hold together. The threads beyond the tile's end
then hold copies of elements that other threads hold: such a thread loads its copies, too, and makes neither stores nor atomics
of them.
"""

from __future__ import annotations

from ....ir import I32, I64, Op, Scalar, like
from ....ir.layouts import SwizzledShared
from ..asm import ptx, registers_of, sync, thread_in_task
from ..emitter import Emitter, emits
from ..nvidia.elements import as_registers, packed

_ORDERS = {"RELAXED": "relaxed", "ACQUIRE": "acquire", "RELEASE": "release", "ACQUIRE_RELEASE": "acq_rel"}
_SCOPES = {"SYSTEM": "sys", "GPU": "gpu"}  # at least the cluster


class _Thread:
    """The assembly that one thread runs for an op: its lines, and its operands with their names. Results come first."""

    def __init__(self, emitter: Emitter, op: Op, size: int, results: int = 0):
        self.emitter, self.op, self.size = emitter, op, size
        self.kind = "l" if size == 8 else "r"
        self.results = [f"${index}" for index in range(results)]
        self.constraints = [f"=&{self.kind}"] * results
        self.operands: list = []
        self.lines = [".reg .pred on;", ".reg .b32 to;"]

    def add(self, value, kind: str = "r", count: int = 1) -> list[str]:
        """Names of the registers that hold an MLIR value."""
        first = len(self.constraints)
        self.operands.append(value)
        self.constraints += [kind] * count
        return [f"${first + index}" for index in range(count)]

    def tile(self, name: str) -> list[str]:
        """The names of the registers that this thread holds of a tile of integers, the op's operand of that name."""
        found = self.emitter.operand(self.op, name)
        return self.add(found, count=registers_of(self.emitter, found))

    def flags(self, name: str) -> list[str] | None:
        """The elements of a mask as integers of 0 or 1, one a register; None if the op has no such operand."""
        mask = getattr(self.op, name)
        if mask is None:
            return None
        type_ = self.emitter.types.tensor(like(mask.type, I32), self.emitter.wanted(self.op, name))
        flags = self.emitter.builder.create_int_cast(self.emitter.operand(self.op, name), type_, False)
        return self.add(flags, count=registers_of(self.emitter, flags))

    def bits(self, name: str) -> list[str] | None:
        """The elements of a tile as integers, one a register; None if the op has no such operand."""
        if getattr(self.op, name) is None:
            return None
        found = as_registers(self.emitter, self.op, name)
        return self.add(found, self.kind, registers_of(self.emitter, found))

    def address(self, base: str, position: str, rank: str) -> None:
        self.lines += [f"mad.lo.u32 to, {position}, {self.size}, {base};", f"mapa.shared::cluster.u32 to, to, {rank};"]

    def when(self, owner: str, flag: str | None) -> str:
        """The guard of an access that this thread makes if `owner`, a predicate or "", holds and the mask's `flag` is 1."""
        if flag is None:
            return f"@{owner} " if owner else ""
        self.lines.append(f"setp.ne.u32 on, {flag}, 0;" if not owner else f"setp.ne.and.u32 on, {flag}, 0, {owner};")
        return "@on "

    def owns(self, extent: int, each: int) -> str:
        """A predicate that holds in the threads before the tile's end; "" if these are all threads."""
        if extent // each >= self.emitter.threads:
            return ""
        (thread, ) = self.add(thread_in_task(self.emitter))
        self.lines += [".reg .pred mine;", f"setp.lt.u32 mine, {thread}, {extent // each};"]
        return "mine"

    def emit(self, result=None):
        return ptx(self.emitter, "{\n" + "\n".join(self.lines) + "\n}", self.constraints, self.operands, result)


def _shape(emitter: Emitter, op: Op) -> tuple[int, int, int]:
    """(elements of the tiles, neighbours in a thread, registers a thread holds)."""
    (extent, ), (each, ) = op.position.type.shape, emitter.wanted(op, "position").size_per_thread
    return extent, each, max(each, extent // emitter.threads)


def _integers(emitter: Emitter, op: Op):
    """The type of the result as integers of one register each, in its layout."""
    wide = I64 if op.result.type.element.bytes == 8 else I32
    return emitter.types.tensor(like(op.result.type, wide), emitter.layouts.registers[op.result])


def _as_elements(emitter: Emitter, op: Op, bits):
    """Integers of one register each as the elements of the result."""
    type_, layout = op.result.type, emitter.layouts.registers[op.result]
    element = Scalar(f"i{type_.element.bits}")
    if element.bits < 32:
        bits = emitter.builder.create_int_cast(bits, emitter.types.tensor(like(type_, element), layout), False)
    return emitter.builder.create_bitcast(bits, emitter.mlir_type(op.result)) if type_.element.is_float else bits


@emits("remote_load")
def remote_load(emitter: Emitter, op: Op):
    size = op.result.type.element.bytes
    _, each, held = _shape(emitter, op)
    thread = _Thread(emitter, op, size, results=held)
    (base, ) = thread.add(emitter.of(op.buffer))
    positions, ranks = thread.tile("position"), thread.tile("rank")
    flags, others = thread.flags("mask"), thread.bits("other")
    for at in range(0, held, each):
        results = thread.results[at:at + each]
        if flags is not None:
            thread.lines += [f"mov.b{64 if size == 8 else 32} {name}, {others[at + index] if others else 0};"
                             for index, name in enumerate(results)]
        thread.address(base, positions[at], ranks[at])
        guard = thread.when("", flags[at] if flags else None)
        thread.lines += _loaded(guard, results, size, f"w{at}_")
    return _as_elements(emitter, op, thread.emit(_integers(emitter, op)))


def _loaded(guard: str, names: list[str], size: int, prefix: str) -> list[str]:
    """One load of neighbours at `to` into a register each."""
    each = max(1, min(4 // size, len(names)))   # elements of a word
    if each == 1:
        target = "{" + ", ".join(names) + "}" if len(names) > 1 else names[0]
        vector = f".v{len(names)}" if len(names) > 1 else ""
        return [f"{guard}ld.shared::cluster{vector}.{'u' if size < 4 else 'b'}{8 * size} {target}, [to];"]
    words = [f"{prefix}{index}" for index in range(len(names) // each)]
    target, vector = ("{" + ", ".join(words) + "}", f".v{len(words)}") if len(words) > 1 else (words[0], "")
    bits = 8 * size
    lines = [f".reg .b32 {', '.join(words)};", f"{guard}ld.shared::cluster{vector}.{'b' if each * size == 4 else 'u'}"
             f"{8 * each * size} {target}, [to];"]
    return lines + [f"{guard}bfe.u32 {name}, {words[index // each]}, {index % each * bits}, {bits};"
                    for index, name in enumerate(names)]


@emits("remote_scatter")
def remote_scatter(emitter: Emitter, op: Op):
    size = op.value.type.element.bytes
    extent, each, held = _shape(emitter, op)
    thread = _Thread(emitter, op, size)
    (base, ) = thread.add(emitter.of(op.buffer))
    positions, ranks, values = thread.tile("position"), thread.tile("rank"), thread.bits("value")
    flags = thread.flags("mask")
    owner = thread.owns(extent, each)
    for at in range(0, held, each):
        thread.address(base, positions[at], ranks[at])
        packing, kind, words = packed(values[at:at + each], size, f"w{at}_")
        thread.lines += packing
        thread.lines.append(f"{thread.when(owner, flags[at] if flags else None)}st.shared::cluster{kind} [to], {words};")
    thread.emit()


# What ptxas (CUDA 13.4) makes of a 64-bit atomic for shared memory is atomic in global memory and in the CTA's own shared memory,
# and a load and a store in another CTA's: all but these and the additions of floats, which are atomic there too.
_NATIVE_64 = ("add.f64", "exch.b64", "cas.b64")

_KINDS = {"ADD": "add.u", "FADD": "add.f", "MAX": "max.s", "MIN": "min.s", "UMAX": "max.u", "UMIN": "min.u", "AND": "and.b",
          "OR": "or.b", "XOR": "xor.b", "XCHG": "exch.b"}


@emits("remote_rmw")
def remote_rmw(emitter: Emitter, op: Op):
    element = op.value.type.element
    instruction = f"{_KINDS[getattr(op.kind, 'name', op.kind)]}{element.bits}"
    if element.bits == 16:
        instruction = f"add.noftz.{'bf' if element.name == 'bf16' else 'f'}16"
    return _atomic(emitter, op, ("value", ), "mask", instruction)


@emits("remote_cas")
def remote_cas(emitter: Emitter, op: Op):
    return _atomic(emitter, op, ("compare", "value"), "", f"cas.b{op.value.type.element.bits}")


def _atomic(emitter: Emitter, op: Op, names: tuple[str, ...], mask: str, instruction: str):
    """An atomic on each element, by one thread, with the operands of those names. The old values come back in a tile; where several
    threads hold copies of an element, the thread that made the atomic hands the old value on through shared memory."""
    size = op.value.type.element.bytes
    extent, each, held = _shape(emitter, op)
    thread = _Thread(emitter, op, size, results=held)
    (base, ) = thread.add(emitter.of(op.buffer))
    positions, ranks = thread.tile("position"), thread.tile("rank")
    operands = [thread.bits(name) for name in names]
    flags, owner = thread.flags(mask) if mask else None, thread.owns(extent, each)
    semantics = f"{_ORDERS[_name(op.order)]}.{_SCOPES.get(_name(op.scope), 'cluster')}.shared::cluster"
    if size == 2:
        thread.lines.append(".reg .b16 old, new, wanted;")
    if size == 8 and instruction not in _NATIVE_64:
        thread.lines += [".reg .pred again;", ".reg .b64 next, seen;"]
    for at in range(held):
        thread.lines.append(f"mov.b{64 if size == 8 else 32} {thread.results[at]}, 0;")
        thread.address(base, positions[at], ranks[at])
        guard = thread.when(owner, flags[at] if flags else None)
        registers = [operand[at] for operand in operands]
        if size == 2:
            halves = ["wanted", "new"][-len(registers):]
            thread.lines += [f"cvt.u16.u32 {half}, {register};" for half, register in zip(halves, registers)]
            thread.lines += [f"{guard}atom.{semantics}.{instruction} old, [to], {', '.join(halves)};",
                             f"{guard}cvt.u32.u16 {thread.results[at]}, old;"]
        elif size == 8 and instruction not in _NATIVE_64:
            thread.lines += _swapped(guard, instruction, semantics, thread.results[at], registers[0], at)
        else:
            thread.lines.append(f"{guard}atom.{semantics}.{instruction} {thread.results[at]}, [to], {', '.join(registers)};")
    old = thread.emit(_integers(emitter, op))
    if owner and op.attrs["used"]:
        old = _handed_on(emitter, op, old, extent, each, size)
    return _as_elements(emitter, op, old)


def _swapped(guard: str, instruction: str, semantics: str, old: str, value: str, at: int) -> list[str]:
    """A 64-bit update by compare-and-swap, tried until no other thread has changed the element in between."""
    skip = [f"@!{guard[1:].strip()} bra done{at};"] if guard else []
    return [*skip, f"ld.relaxed.cluster.shared::cluster.b64 {old}, [to];", f"again{at}:", f"{instruction} next, {old}, {value};",
            f"atom.{semantics}.cas.b64 seen, [to], {old}, next;", f"setp.ne.b64 again, seen, {old};", f"mov.b64 {old}, seen;",
            f"@again bra again{at};", f"done{at}:"]


def _name(argument) -> str:
    return getattr(argument, "name", str(argument)).upper()


def _handed_on(emitter: Emitter, op: Op, bits, extent: int, each: int, size: int):
    """The tile as the threads before its end have it, in all threads, through shared memory."""
    word = I64 if size == 8 else I32
    room = emitter.allocate(emitter.types.buffer(word, (extent, ), SwizzledShared(1, 1, 1, (0, ))))
    sync(emitter)  # in a loop: all threads have read what the round before left there
    write, read = _Thread(emitter, op, word.bytes), _Thread(emitter, op, word.bytes, results=each)
    for thread in (write, read):
        thread.base, = thread.add(room)
        (number, ) = thread.add(thread_in_task(emitter))
        thread.lines += [".reg .b32 me, at;", "mov.u32 me, %cluster_ctarank;", f"and.b32 at, {number}, {extent // each - 1};",
                         f"mul.lo.u32 at, at, {each};", f"mad.lo.u32 to, at, {word.bytes}, {thread.base};",
                         "mapa.shared::cluster.u32 to, to, me;"]
    (number, ), values = write.add(thread_in_task(emitter)), write.add(bits, write.kind, each)
    write.lines.append(f"setp.lt.u32 on, {number}, {extent // each};")
    write.lines += [f"@on st.shared::cluster.b{word.bits} [to+{index * word.bytes}], {name};" for index, name in enumerate(values)]
    read.lines += [f"ld.shared::cluster.b{word.bits} {name}, [to+{index * word.bytes}];" for index, name in enumerate(read.results)]
    write.emit()
    sync(emitter)
    return read.emit(_integers(emitter, op))
