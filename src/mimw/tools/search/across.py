"""Whether a CTA's course has to do with other CTAs: then a part of a grid does not run as it would in the whole.

    tile = tl.atomic_add(counter, 1)            refused: which tile it is, the others decide
    tile = tlx.clc_consumer(context, phase)     fine: the clusters of the sample are all that there is to take
    while tl.atomic_add(flag, 0) == 0: ...      refused: it waits for them
    tlx.wait_signal(flag + pid, 1)              on several GPUs fine: who waits for whom is found by addresses (`together`)
    tl.atomic_add(total, partial_sum)           fine: nobody looks at what was there
    row = tl.load(table + pid)                  fine, unless the kernel writes `table`

Input: a launch. Output: nothing, or a SimulatorMisuse that names the read and what it decides. What a CTA decides by is followed
through arithmetic, control flow and shared memory back to reads of global memory that this launch writes, too, by whichever
pointer: arrays are compared by where they lie. A pointer whose array is not known may point anywhere.
"""

from __future__ import annotations

from collections.abc import Collection

from ...compiler.analysis.flows import Flows
from ...errors import SimulatorMisuse
from ...ir import Barrier, Buffer, Descriptor, DescriptorSlots, Op, Pointer, Value
from ...ir.flow import bounds
from ...ir.types import element_of
from ...ir.world import PerRank, World
from ...runtime.simulate import Launch
from ...simulator import describe

_DATA = frozenset("value values other compare acc a b expected token tokens inits".split())   # operands that decide nothing
_ANYWHERE = None
HINT = "check the whole grid (ctas='all', --ctas all), or a smaller one"


def _is_among_gpus(row) -> bool:
    """True if an op waits for signals, whose programs `together` finds, or for the programs of one id."""
    return row.ours and (row.blocks == "poll" or "world" in row.places)


def refuse_if_ctas_talk(launch: Launch) -> None:
    """Raise SimulatorMisuse if what a CTA of `launch` does may depend on CTAs outside of its cluster."""
    program = launch.program
    waiting = next((op for op in program.walk() if op.row.blocks in ("rendezvous", "poll") and not op.row.peers
                    and not (launch.gpus > 1 and _is_among_gpus(op.row))), None)
    if program.cooperative or waiting is not None:
        what = "CTAs outside of its cluster are waited for" if waiting else "its CTAs run together, and may wait for each other"
        raise SimulatorMisuse(f"{launch.name} cannot be checked by a sample of its CTAs: {what}",
                              waiting.site if waiting else program.site, hint=HINT)
    reads = _Reads(launch)
    for op in program.walk():
        for value in deciding(op, reads.flows):
            source = reads.from_others(value)
            if source is not None:
                raise SimulatorMisuse(
                    f"{launch.name} cannot be checked by a sample of its CTAs: other CTAs may have written what the {source.name} "
                    f"at {source.site} reads, and it decides {_about(op)} at {op.site}", source.site, op.site, hint=HINT)


def deciding(op: Op, flows: Flows, but: Collection[str] = ()) -> list[Value]:
    """The operands of `op` that decide what is done and where, not what is written there; less those of the names `but`."""
    row = op.row
    if op.name == "for":
        return list(bounds(op))
    if row.hands_over:
        return list(_values(op.condition)) if "condition" in row.places else []
    if "observer" in row.traits or "pure" in row.effects:
        return []
    data = frozenset() if row.blocks == "poll" else _DATA           # what is awaited decides
    return [value for name, arg in zip(row.params, op.args) for value in _values(arg)
            if name not in but and (name not in data or isinstance(value.type, (Buffer, Barrier)))]


def _values(arg):
    if isinstance(arg, Value):
        yield arg
    elif isinstance(arg, (tuple, list)):
        for one in arg:
            yield from _values(one)


def _about(op: Op) -> str:
    if "branch" in op.row.traits:
        return "the branch"
    return "the loop" if op.row.hands_over else f"the {op.name}"


def global_operands(op: Op) -> list[tuple[Value, str]]:
    """(pointer or descriptor, how the op accesses the memory there): "read", "write", ..."""
    if not op.row.touches and op.name != "signal_wait":
        return []
    found = [(op.pointer, "read")] if op.name == "signal_wait" else [(getattr(op, name), access) for name, access in op.row.touches]
    return [(value, access) for value, access in found if isinstance(value, Value)
            and (isinstance(value.type, Descriptor) or isinstance(element_of(value.type), Pointer))]


class Globals:
    """The arrays in global memory into which the pointers of a launch's program may point."""

    def __init__(self, launch: Launch):
        self.program, self.flows = launch.program, launch.program.kept(Flows)
        self.spans = {param.value: _spans(launch.values.get(param.path)) for param in self.program.params}
        heaps = [heap for value in launch.values.values() if isinstance(value, World) for heap in value.heaps]
        self.heaps = list(map(_span, heaps)) or [_ANYWHERE]         # where workspaces are, among symmetric arrays
        self.bases = [op.base for op in self.program.walk() if op.name == "fill_descriptor_slot"]

    def meet(self, one: Op, other: Op) -> bool:
        """True if two ops may access the same global memory."""
        places = [[place for value, _ in global_operands(op) for place in self.places(value)] for op in (one, other)]
        return any(_meet(here, there) for here in places[0] for there in places[1])

    def places(self, pointer: Value) -> list:
        """(first byte, byte behind the last) of the arrays that a pointer or descriptor may point into, of all ranks; _ANYWHERE if
        not known."""
        found, todo, seen = [], [pointer], set()
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in self.spans:
                found += self.spans[value]
                continue
            if isinstance(value.type, DescriptorSlots):
                todo += self.bases
                continue
            sources = list(self.flows.sources.get(value, ()))
            op = self.flows.maker.get(value)
            if op is not None and "world" in op.row.places:         # not the table
                if "pointer" not in op.row.places:                  # but a workspace
                    found += self.heaps
                    continue
                sources = [op.pointer]
            elif not sources and op is not None:
                sources = [one for one in op.operands if _points(one)]
            sources = [one for one in sources if _points(one)]
            if not sources and (op is None or op.name != "poison"):
                found.append(_ANYWHERE)
            todo += sources
        return found


class _Reads(Globals):
    """The reads of global memory that other CTAs write, and the values that depend on them."""

    def __init__(self, launch: Launch):
        super().__init__(launch)
        self.written: list = []
        for op in self.program.walk():
            for value, access in global_operands(op):
                self.written += self.places(value) if access.endswith("write") else []
        self.origin: dict[Value, Op] = {}
        for op in self.program.walk():
            if self._hears(op):
                self._follow(op)

    def from_others(self, value: Value) -> Op | None:
        """The read that `value` depends on, whose result other CTAs have a part in."""
        return self.origin.get(value)

    def _hears(self, op: Op) -> bool:
        """True if the op reads global memory that this launch writes, or that may change during the read: atomics and volatile
        loads."""
        reads = [value for value, access in global_operands(op) if access.endswith("read") or op.results]
        if not reads:
            return False
        if "atomic" in op.row.traits or "is_volatile" in op.row.places and op.is_volatile:
            return True
        return any(_meet(one, other) for value in reads for one in self.places(value) for other in self.written)

    def _follow(self, source: Op) -> None:
        flows = self.flows
        found, arrays = set(source.results), flows.touched(source, source.row.writes)
        while True:
            found |= {result for array in arrays for read in flows.reads.get(array, ()) for result in read.results}
            found = flows.reached(found)
            before = len(arrays)
            for op in self.program.walk():
                if not found.isdisjoint(op.operands) or not arrays.isdisjoint(flows.touched(op, op.row.reads)):
                    arrays |= flows.touched(op, op.row.writes)
            if len(arrays) == before:
                break
        for value in found:
            self.origin.setdefault(value, source)


def _points(value: Value) -> bool:
    return isinstance(value.type, (Descriptor, DescriptorSlots)) or isinstance(element_of(value.type), Pointer)


def _spans(value) -> list:
    """Of an argument, at each rank."""
    return list(map(_span, value)) if isinstance(value, PerRank) else [_span(value)]


def _span(value):
    base = getattr(value, "base", value) if hasattr(value, "block_shape") else value
    base = getattr(base, "array", base)
    if not (hasattr(base, "data_ptr") or hasattr(base, "ctypes")):
        return _ANYWHERE
    start, size, _ = describe(base, "")
    return start, start + size


def _meet(one, other) -> bool:
    return one is _ANYWHERE or other is _ANYWHERE or one[0] < other[1] and other[0] < one[1]
