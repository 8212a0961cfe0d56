"""Copies, loads and stores on the machine with a clock: when their data are there, mostly without the data.

Input: a timed task at an op that moves data. Output: units that are busy, and an operation in flight or a later clock of the
task. For example:

    tma_load      takes its part of "inbound", "L2" and "DRAM", lands `tma.load_ns` later, and completes its bytes on the barrier
    local_load    takes "shared"; the task goes on `shared.latency` later

Data move only where the course of the kernel depends on them: values that `analysis.needed` names, which tasks hand on through
shared memory or global memory.
"""

from __future__ import annotations

from math import inf, prod

import numpy as np

from ...ir import Op, Tensor
from ...ir.types import Buffer, element_of
from ..costs.model import SWIZZLE
from ..machine.operands import enabled, offsets_of, position
from ..machine.table import HANDLERS
from ..machine.tasks import InFlight, Task
from ..memory.mbarriers import namesake, single
from ..memory.peers import barrier_of, peer
from ..words.copies import check_corner
from .dots import WIDEST
from .pipelined import there
from .sectors import SECTOR, sectors
from .table import skip, timed
from .tasks import may_be_under_way


def _tile_bytes(op: Op, *values) -> int:
    return max(value.type.numel * value.type.element.bytes for value in values or op.results if isinstance(value.type, Tensor))


def _lane_bytes(op: Op, held: float) -> float:
    """Bytes that a lane reads or writes at once at most, of so many that it holds: elements of a row, but single ones by index."""
    rows = [value.type for value in (*op.results, *op.operands) if isinstance(value.type, Tensor)]
    single = min(type_.element.bytes for type_ in rows)
    return single if "indices" in op.row.places else min(held, max(type_.shape[-1] * type_.element.bytes for type_ in rows))


def _buffer_bytes(value) -> int:
    assert isinstance(value.type, Buffer)
    return value.type.bytes


def _copy(task: Task, op: Op, kind: str, unit: str, left: float, end: float, size: int, land, **fields) -> InFlight:
    """In flight until `end`; the unit is busy with it until `left`, which is what the timeline shows."""
    machine = task.machine
    sm = task.cta.sm
    start = max(sm.drawn.get(unit, 0.0), task.clock)
    sm.drawn[unit] = max(start, left)
    if left > start:
        machine.record(task.cta, unit, "copy", start, left, kind, op, size)
    return machine.start(InFlight(kind, task, op, end, land, **fields))


def _on_barrier(task: Task, op: Op, kind: str, ends: tuple[float, float], size: int, barrier) -> None:
    barrier.coming.append(_copy(task, op, kind, "TMA", *ends, size, lambda copy: barrier.complete(copy, size)))


def _peer(task: Task, op: Op) -> int | None:
    """The other GPU whose memory `op` reaches."""
    ways = task.machine.ways
    return None if ways is None else ways.peer(task, op)


def _loaded(task: Task, size: int, what, op: Op | None = None) -> tuple[float, float]:
    machine, peer = task.machine, _peer(task, op)
    if peer is not None:
        return machine.ways.get(task, op, peer, size)
    return machine.load(task, size, what, machine.cycles("tma.load_ns"), machine.cycles("tma.load_dram_ns"), piece=_box(op))


def _box(op: Op | None) -> float:
    """Bytes of one of the boxes that a copy of a block consists of: a swizzle's width of each row."""
    if op is None or "buffer" not in op.row.places or len(op.buffer.type.shape) < 2:
        return inf
    *rows, columns = op.buffer.type.shape
    return prod(rows) * min(columns * op.buffer.type.element.bytes, SWIZZLE)


def _rows_copied(task: Task, op: Op) -> float:
    """The time at which TMA is done with the copies of single rows that `op` consists of. The task's warps share their issue."""
    machine, model = task.machine, task.machine.model
    rows, columns = op.buffer.type.shape[-2:]
    copies = model.row_copies(rows, columns * op.buffer.type.element.bytes)
    end = machine.unit(task, "rows").take(task.clock, copies * model["tma.rows_cycles"])
    machine.advance(task, task.clock + copies * model["tma.rows_issue"] / task.num_warps)
    return max(end, task.clock)


def _rows_loaded(task: Task, op: Op) -> tuple[float, float]:
    left, end = _loaded(task, _buffer_bytes(op.buffer), object())
    copied = _rows_copied(task, op)
    return max(left, copied), max(end, copied + end - left)


def _begins(task: Task, op: Op) -> tuple[int, ...]:
    """The offsets of a descriptor's block; refused as on the simulator if no chip takes them, and both that and that the copy is
    made at all are certain: neither depends on data. An offset that is made of data, which nobody computes, counts as 0."""
    needed = task.needed
    if not needed.tainted.isdisjoint(op.offsets):
        return tuple(0 if task.env[value] is None else offsets_of(task, op, (value, ))[0] for value in op.offsets)
    offsets = offsets_of(task, op, op.offsets)
    if not needed.unknown:
        check_corner(task, op, task.env[op.descriptor], offsets)
    return tuple(offsets)


# ---- copies --------------------------------------------------------------------------------------------------------

@timed("tma_load")
def tma_load(task, op):
    if enabled(task, op, op.predicate):
        size, offsets = _buffer_bytes(op.buffer), _begins(task, op)
        end = _loaded(task, size, (task.env[op.descriptor].address, offsets), op)
        _on_barrier(task, op, f"load {offsets}", end, size, single(task, op, op.barrier))
        task.machine.advance(task, task.clock)


@timed("tma_load_pixels")
def tma_load_pixels(task, op):
    """A load of a block of as many bytes; copies that begin at the same pixel, whatever their offsets, read the same lines."""
    if enabled(task, op, op.predicate):
        size, offsets = _buffer_bytes(op.buffer), _begins(task, op)
        end = _loaded(task, size, (task.env[op.descriptor].address, offsets), op)
        _on_barrier(task, op, f"load {offsets}", end, size, single(task, op, op.barrier))
        task.machine.advance(task, task.clock)


@timed("tma_load_pair")
def tma_load_pair(task, op):
    """Into this CTA; the bytes count on the barrier of one CTA of the pair."""
    if enabled(task, op, op.predicate):
        size, offsets = _buffer_bytes(op.buffer), _begins(task, op)
        end = _loaded(task, size, (task.env[op.descriptor].address, offsets), op)
        barrier = barrier_of(peer(task, op, op.leader), single(task, op, op.barrier), task, op)
        _on_barrier(task, op, f"load {offsets}", end, size, barrier)
        task.machine.advance(task, task.clock)


@timed("tma_load_pair_multicast")
def tma_load_pair_multicast(task, op):
    """One read of L2, delivered to each target; the bytes of each count on the barrier of its pair's even CTA."""
    if enabled(task, op, op.predicate):
        size, offsets = _buffer_bytes(op.buffer), _begins(task, op)
        end = _loaded(task, size, (task.env[op.descriptor].address, offsets), op)
        for rank in sorted({position(task, op, target) for target in op.targets}):
            there = barrier_of(peer(task, op, rank - rank % 2), single(task, op, op.barrier), task, op)
            _on_barrier(task, op, f"multicast {offsets}", end, size, there)


@timed("tma_gather")
def tma_gather(task, op):
    """Gather rows. Only data say which ones: none is taken to be one that another copy reads."""
    if enabled(task, op, op.predicate):
        size = _buffer_bytes(op.buffer)
        _on_barrier(task, op, "gather", _rows_loaded(task, op), size, single(task, op, op.barrier))


@timed("tma_gather_multicast")
def tma_gather_multicast(task, op):
    """One read of L2, delivered to each target."""
    if enabled(task, op, op.predicate):
        size, end, barrier = _buffer_bytes(op.buffer), _rows_loaded(task, op), namesake(task, op, op.barrier)
        for rank in sorted({position(task, op, target) for target in op.targets}):
            holder = peer(task, op, rank - rank % 2 if op.attrs.get("pairs") else rank)
            _on_barrier(task, op, "gather", end, size, barrier_of(holder, barrier, task, op))


@timed("tma_fetch_rows")
def tma_fetch_rows(task, op):
    _, end = _rows_loaded(task, op)
    task.wait_until(end, op, "a copy of rows")
    task.floor = task.clock


@timed("tma_load_multicast")
def tma_load_multicast(task, op):
    """One read of L2, delivered to each target."""
    if enabled(task, op, op.predicate):
        size, offsets = _buffer_bytes(op.buffer), _begins(task, op)
        end = _loaded(task, size, (task.env[op.descriptor].address, offsets), op)
        for rank in sorted({position(task, op, target) for target in op.targets}):
            there = barrier_of(peer(task, op, rank), single(task, op, op.barrier), task, op)
            _on_barrier(task, op, f"multicast {offsets}", end, size, there)


@timed("bulk_load")
def bulk_load(task, op):
    size = position(task, op, op.bytes)
    _on_barrier(task, op, "bulk load", _loaded(task, size, object(), op), size, single(task, op, op.barrier))
    task.env[op.result] = None


@timed("tma_store", "tma_scatter", "bulk_store")
def tma_store(task, op):
    size = position(task, op, op.bytes) if "bytes" in op.row.places else _buffer_bytes(op.buffer)
    if "offsets" in op.row.places:
        _begins(task, op)
    peer_gpu = _peer(task, op)
    if peer_gpu is not None:
        left, end = task.machine.ways.put(task, op, peer_gpu, size)
        task.stores.append(_copy(task, op, "put", "TMA store", left, end, size, lambda copy: None))
        return
    left = task.machine.store(task, size)
    if "rows" in op.row.places:
        left = max(left, _rows_copied(task, op))
    end = left + task.machine.cycles("tma.store_ns")
    task.cta.sm.stored(end)
    task.stores.append(_copy(task, op, "store", "TMA store", left, end, size, lambda copy: None))


@timed("async_load", "buffer_load_to_local")
def async_load(task, op):
    machine, size = task.machine, _buffer_bytes(op.buffer) // task.parts
    task.come_behind()
    machine.advance(task, task.clock + size / machine.model["copy.issue_bytes"] * machine.model.slowdown(task.num_warps))
    ends = machine.load(task, size, object(), machine.cycles("copy.ns"), machine.cycles("copy.dram_ns"), by_lanes=True)
    task.copies.append(_copy(task, op, "cp.async", "cp.async", *ends, size, lambda copy: None))
    task.env[op.result] = None


@timed("async_remote_copy", "async_remote_store", "remote_store")
def to_peer(task, op):
    """Bytes into another CTA's shared memory."""
    machine, size = task.machine, _buffer_bytes(op.buffer)
    cta = peer(task, op, op.rank)
    left = machine.unit(task, "cluster").take(task.clock, size / machine.model["cluster.bytes"])
    end = left + machine.model["cluster.latency"]
    if op.name == "remote_store":
        task.remote.append(_copy(task, op, "remote store", "cluster", left, end, size, lambda copy: None, group="remote"))
    else:
        _on_barrier(task, op, "remote copy", (left, end), size, barrier_of(cta, single(task, op, op.barrier), task, op))


@timed("remote_load", "remote_scatter", "remote_rmw", "remote_cas")
def elements_of_peers(task, op):
    """Elements of other CTAs' shared memory, read, written or changed one by one; nobody goes by what they hold."""
    machine = task.machine
    values = [value for value in (*op.results, *op.operands) if isinstance(value.type, Tensor)]
    size = _tile_bytes(op, *values)
    left = machine.unit(task, "cluster").take(task.clock, size / machine.model["cluster.bytes"])
    end = left + machine.model["cluster.latency"]
    if op.results:
        machine.advance(task, end)
    else:
        task.remote.append(_copy(task, op, "remote store", "cluster", left, end, size, lambda copy: None, group="remote"))
    skip(task, op)


# ---- memory and registers ------------------------------------------------------------------------------------------

@timed("local_load", "local_store", "local_gather", "local_scatter", "local_masked_scatter", "local_atomic_rmw", "local_atomic_cas")
def shared(task, op):
    machine, model = task.machine, task.machine.model
    task.arrive(op)
    if op in machine.ahead:
        dot, index = machine.ahead[op]
        size = model.operand_reads(dot, task.num_warps)[index] / task.parts
        end = machine.through_shared(task, model.shared(size, WIDEST), machine.turns.get(op, 1.0))
        task.reads_end = max(task.reads_end, end + model["shared.latency"])       # waited for at the end of the stage
    elif op not in machine.with_products:
        task.come_behind()
        size = _tile_bytes(op, *op.results, *op.operands)
        cycles = model.shared(size, _lane_bytes(op, size / machine.lanes(task)), bool(op.results)) * model.slowdown(task.num_warps)
        cycles /= task.parts
        end = machine.through_shared(task, cycles, machine.turns.get(op, 1.0))
        machine.advance(task, end + model["shared.latency" if op.results else "shared.store_latency"])
    if op in task.needed.stores or op.results and task.needed.values.issuperset(op.results):
        HANDLERS[op.name].run(task, op)
    else:
        skip(task, op)


@timed("load", "masked_load", "buffer_load", "descriptor_load", "descriptor_gather")
def load(task, op):
    """In flight until the first use of the value."""
    machine, model = task.machine, task.machine.model
    if task.needed.values.issuperset(op.results) and op.row.loads:
        HANDLERS[op.name].run(task, op)
    else:
        skip(task, op)
    tile = isinstance(op.result.type, Tensor)
    task.come_behind()
    size = _tile_bytes(op) // task.parts if tile else 32
    what, size = _asked_for(task, op, size) if tile else (None, size)
    peer_gpu, by_tma = _peer(task, op), "descriptor" in op.row.places
    if peer_gpu is not None:
        _, end = machine.ways.get(task, op, peer_gpu, size)
    elif op in machine.pipelined.loads:
        near, far = ("tma.load_ns", "tma.load_dram_ns") if by_tma else ("copy.ns", "copy.dram_ns")
        end = there(task, op, lambda at: machine.load(task, size, what, machine.cycles(near), machine.cycles(far), at,
                                                            by_lanes=not by_tma)[1])
    else:
        _, end = machine.load(task, size, what, machine.cycles("global.ns"), machine.cycles("global.dram_ns"),
                              by_lanes=not by_tma)
    machine.advance(task, task.clock + (model.get("tma.issue", 0.0) if by_tma else
                                        size / model["copy.issue_bytes"] * model.slowdown(task.num_warps)))
    if may_be_under_way(op.result):
        task.arrivals[op.result] = end, "a load"
    else:
        task.wait_until(end, op, "a load")
        task.floor = task.clock


def _asked_for(task, op, size: float) -> tuple[object, float]:
    """(which bytes a load asks for, if that is known, how many move): whole sectors, where pointers say which."""
    machine = task.machine
    if "offsets" in op.row.places:
        return (task.env[op.descriptor].address, _begins(task, op)), size
    if machine.counts_sectors(op):
        mask = task.env.get(op.mask) if "mask" in op.row.places else None
        pointers = np.asarray(task.env[op.pointer], np.uint64)
        found = sectors(pointers - np.uint64(machine.array_at(int(pointers.flat[0])) % SECTOR), mask)
        machine.moved[op].append(SECTOR * len(found) / size)
        return found, SECTOR * len(found)
    return object(), size * machine.spread.get(op, 1.0)


@timed("store", "masked_store", "buffer_store", "descriptor_store", "descriptor_reduce", "descriptor_scatter")
def store(task, op):
    machine, model = task.machine, task.machine.model
    if "offsets" in op.row.places:
        _begins(task, op)
    tiles = [value for value in op.operands if isinstance(value.type, Tensor)]
    task.arrive(op)                     # what is stored has been loaded, and nothing was done with it between
    if not tiles and task.needed.values.issuperset(op.operands) and op.row.stores:
        machine.remember(task.env[op.pointer], op.value.type.bytes)
        HANDLERS[op.name].run(task, op)
    elif op in task.needed.stores:
        _remember_tile(task, op)
        HANDLERS[op.name].run(task, op)
    size = _tile_bytes(op, op.value) if op.value in tiles else (
        max((value.type.numel * value.type.element.bytes for value in tiles), default=32))
    size = size // task.parts if tiles else size
    peer_gpu = _peer(task, op)
    if peer_gpu is not None:
        left, end = machine.ways.put(task, op, peer_gpu, size)
        _copy(task, op, "put", "stores to peers", left, end, size, lambda copy: None)
    else:
        task.cta.sm.stored(machine.store(task, size))
    machine.advance(task, task.clock + size / model["copy.issue_bytes"] * model.slowdown(task.num_warps))


def _remember_tile(task, op) -> None:
    """The bytes from the first to the last element that a store of a tile is about to write."""
    addresses = np.asarray(task.env[op.pointer], np.uint64)
    if "mask" in op.row.places and op.mask is not None:
        addresses = addresses[np.broadcast_to(task.env[op.mask], addresses.shape)]
    if addresses.size:
        low = int(addresses.min())
        task.machine.remember(low, int(addresses.max()) - low + element_of(op.value.type).bytes)


@timed("prefetch", "prefetch_descriptor", "tma_prefetch", "time_base", "time_stamp", "wait_stamp", "wait_words",
       "watched_wait", "clock64")
def hint(task, op):
    for result in op.results:
        task.env[result] = 0
