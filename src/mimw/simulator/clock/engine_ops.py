"""What ops mean to a core with engines: which engine works, on what, how long.

Input: a timed task at an op, on a machine whose cost model has engines. Output: work of engines, tiles and buffers that are there
later; values only where the kernel's course depends on them. For example:

    dsa_load         MTE2, from when the buffer has been read by all that read it
    dsa_binary       Vector, from when both operands are there
    dot              MTE1 brings operands from L1, then Cube

An op that is not here takes scalar time, as control flow does, and vector time if it computes with tiles.
"""

from __future__ import annotations

from math import prod

from ...compiler.analysis.tile_spaces import PRODUCT, VECTOR
from ...ir import Op, Tensor
from ...ir.ops import is_pure
from ...target import GLOBAL
from ..machine.code import PLAIN, SWITCHING
from ..machine.operands import enabled, position
from ..machine.table import HANDLERS
from ..machine.tasks import InFlight, Task
from .engines import Engines, tiles_of
from .table import skip

ENGINE_OPS: dict[str, object] = {}
_SCALAR_BYTES = 32      # a block: the least that is moved


def on_engines(*names: str):
    """Register what ops mean to a core with engines."""
    def register(run):
        ENGINE_OPS.update(dict.fromkeys(names, run))
        return run
    return register


def engine_step(machine, op: Op) -> tuple | None:
    """The step of an op that engines do; None for one that the scalar unit does by itself."""
    if op.name in ENGINE_OPS:
        return op, ENGINE_OPS[op.name], SWITCHING, 0.0
    if not is_pure(op.name) or not any(isinstance(value.type, Tensor) for value in (*op.operands, *op.results)):
        return None
    if not any(machine.engines.tiles.is_data(result) for result in op.results):
        return op, _address, PLAIN, 0.0 if op.row.cost in ("free", "move") else machine.model["issue.scalar"]
    return op, _vector, SWITCHING if machine.model.vector(op) else PLAIN, 0.0


def _value(task: Task, op: Op) -> None:
    """The op's own meaning, where the course of the kernel depends on it."""
    needed = task.machine.needed
    if op.results and needed.values.issuperset(op.results) or op in needed.stores:
        HANDLERS[op.name].run(task, op)
    else:
        skip(task, op)


def _address(task: Task, op: Op) -> None:
    """Run an op whose results are addresses: copies have strides, so no engine makes such tiles."""
    _value(task, op)


def _vector(task: Task, op: Op) -> None:
    engines: Engines = task.machine.engines
    operands, duration = tiles_of(op), task.machine.model.vector(op)
    if not duration or engines.tiles.of(op.results[0]) == PRODUCT:      # renamed, reshaped, or rounded on the way out
        time = max((engines.arrival(task, value) for value in operands), default=0.0)
        for result in op.results:
            engines.make(task, result, time, engines.behind(task, *operands))
    else:
        earliest = max((engines.bring(task, op, value, VECTOR) for value in operands), default=0.0)
        end = engines.work(task, op, "Vector", earliest, duration, op.results[0].name or op.name)
        engines.was_read(task, end, *operands)
        for result in op.results:
            engines.make(task, result, end)
    _value(task, op)


def _bytes(type_) -> int:
    return type_.numel * type_.element.bytes if isinstance(type_, Tensor) else _SCALAR_BYTES


# ---- global memory ---------------------------------------------------------------------------------------------------

@on_engines("load", "masked_load", "descriptor_load", "descriptor_gather")
def load(task, op):
    engines, result = task.machine.engines, op.results[0]
    _, end = engines.copy(task, op, "MTE2", GLOBAL, VECTOR, _bytes(result.type), 0.0, result.name or "load")
    _value(task, op)
    if isinstance(result.type, Tensor):
        engines.make(task, result, end)
    else:
        task.wait_until(end, op, "a load")
        task.floor = task.clock


@on_engines("store", "masked_store", "descriptor_store", "descriptor_scatter", "descriptor_reduce")
def store(task, op):
    machine, engines = task.machine, task.machine.engines
    value = next((one for one in (*op.operands[1:], *op.operands) if engines.tiles.is_data(one)), op.operands[-1])
    if not isinstance(value.type, Tensor) and machine.needed.values.issuperset(op.operands) and op.row.stores:
        machine.remember(task.env[op.pointer], op.value.type.bytes)
        HANDLERS[op.name].run(task, op)
    here = engines.tiles.of(value) or VECTOR
    here = VECTOR if here == GLOBAL else here
    engine = engines.spaces[here].engine(GLOBAL)
    done, _ = engines.copy(task, op, engine, here, GLOBAL, _bytes(value.type), engines.arrival(task, value), value.name or "store")
    engines.was_read(task, done, value)


# ---- products ---------------------------------------------------------------------------------------------------------

@on_engines("dot", "dot_scaled")
def product(task, op):
    engines, model = task.machine.engines, task.machine.model
    left, right = engines.bring(task, op, op.a, "l0a"), engines.bring(task, op, op.b, "l0b")
    result = op.results[0]
    *batch, m, n = result.type.shape
    k = op.a.type.shape[-1]
    sums = engines.tiles.of(op.acc) == VECTOR if "acc" in op.row.places else False
    earliest = max(left, right, 0.0 if sums or "acc" not in op.row.places else engines.arrival(task, op.acc))
    duration = prod(batch) * model.product(m, n, k, op.a.type.element.bits)
    end = engines.work(task, op, "Cube", earliest, duration, f"{m} x {n} x {k}")
    engines.was_read(task, end, op.a, op.b)
    if sums:        # what is added to it lies where vectors are computed
        size = _bytes(result.type)
        for step, engine in engines.way(PRODUCT, VECTOR):
            here = PRODUCT if step == GLOBAL else GLOBAL
            _, end = engines.copy(task, op, engine, here, step, size, end, f"product to {step}")
        end = engines.work(task, op, "Vector", max(end, engines.arrival(task, op.acc)), model.elements("float", size), "sum")
    engines.make(task, result, end)
    skip(task, op)


@on_engines("extern_elementwise", "inline_asm")
def foreign(task, op):
    engines = task.machine.engines
    earliest = max((engines.bring(task, op, value, VECTOR) for value in tiles_of(op)), default=0.0)
    size = max((_bytes(value.type) for value in (*op.results, *op.operands)), default=0)
    end = engines.work(task, op, "Vector", earliest, task.machine.model.elements("special", size), op.name)
    for result in op.results:
        engines.make(task, result, end)
    skip(task, op)


# ---- buffers ----------------------------------------------------------------------------------------------------------

def _box(task: Task, op: Op) -> int:
    """The bytes of the leading box that a copy moves."""
    extents = [max(0, position(task, op, extent)) for extent in op.extents]
    return prod(min(one, most) for one, most in zip(extents, op.buffer.type.shape)) * op.buffer.type.element.bytes


def _name(op: Op) -> str:
    return op.buffer.name or op.name


@on_engines("dsa_load", "dsa_fetch")
def dsa_load(task, op):
    machine, engines = task.machine, task.machine.engines
    _value(task, op)
    if "predicate" in op.row.places and not enabled(task, op, op.predicate):
        return
    segment = engines.segment(task, op.buffer)
    space = op.buffer.type.space
    _, end = engines.copy(task, op, "MTE2", GLOBAL, space, _box(task, op), engines.claim(task, segment), _name(op))
    segment.ready = end
    if "async" in op.row.effects:
        task.copies.append(machine.start(InFlight("copy", task, op, end, lambda copy: None)))


@on_engines("dsa_store")
def dsa_store(task, op):
    engines, space = task.machine.engines, op.buffer.type.space
    segment = engines.segment(task, op.buffer)
    engine = engines.spaces[space].engine(GLOBAL)
    done, _ = engines.copy(task, op, engine, space, GLOBAL, _box(task, op), engines.written(task, segment), _name(op))
    segment.free = max(segment.free, done)


@on_engines("dsa_move")
def dsa_move(task, op):
    _value(task, op)
    task.machine.engines.rename(task, op.source, op.buffer)


@on_engines("dsa_to_tensor")
def dsa_to_tensor(task, op):
    engines = task.machine.engines
    segment = engines.segment(task, op.buffer)
    engines.make(task, op.result, engines.written(task, segment), [segment])
    _value(task, op)


@on_engines("dsa_to_buffer")
def dsa_to_buffer(task, op):
    """Computed in the buffer's place if it is computed in that memory; else copied there."""
    engines, space = task.machine.engines, op.buffer.type.space
    segment = engines.segment(task, op.buffer)
    time = engines.bring(task, op, op.value, space)
    copied = engines.behind(task, op.value) if engines.tiles.of(op.value) == space else []
    if copied and segment not in copied:       # from another buffer of the memory
        size = _bytes(op.value.type)
        time = engines.work(task, op, "Vector", max(time, engines.claim(task, segment)),
                            task.machine.model.elements("float", size), _name(op), size)
        for one in copied:
            one.free = max(one.free, time)
    segment.ready = max(time, engines.claim(task, segment))
    _value(task, op)


@on_engines("dsa_binary")
def dsa_binary(task, op):
    engines = task.machine.engines
    read, out = [engines.segment(task, value) for value in (op.lhs, op.rhs)], engines.segment(task, op.out)
    earliest = max(engines.claim(task, out), *(engines.written(task, one) for one in read))
    work = {"div": "division", "max": "compare", "min": "compare"}.get(op.kind, "float")
    size = op.out.type.tile_bytes
    end = engines.work(task, op, "Vector", earliest, task.machine.model.elements(work, size), op.kind, size)
    for one in read:
        one.free = max(one.free, end)
    out.ready = end
    _value(task, op)


@on_engines("local_load", "local_store", "local_gather", "local_scatter", "local_masked_scatter", "local_atomic_rmw",
            "local_atomic_cas")
def elements(task, op):
    """Elements of a buffer, picked one by one: what pointers into it become."""
    engines = task.machine.engines
    segment = engines.segment(task, op.buffer)
    tiles = tiles_of(op)
    earliest = max((engines.arrival(task, value) for value in tiles), default=0.0)
    earliest = max(earliest, engines.claim(task, segment) if op.row.writes else engines.written(task, segment))
    size = max((_bytes(value.type) for value in (*op.results, *tiles)), default=_SCALAR_BYTES)
    end = engines.work(task, op, "Vector", earliest, task.machine.model.elements("special", size), _name(op), size)
    segment.ready = end if op.row.writes else segment.ready
    segment.free = max(segment.free, end)
    for result in op.results:
        engines.make(task, result, end)
    _value(task, op)


@on_engines("async_wait")
def async_wait(task, op):
    """A flag of the copies: the engine that reads the buffers waits for it, which they know, and not the scalar unit."""
    del task.groups[:max(0, len(task.groups) - int(op.pending))]
    skip(task, op)
