"""The memory of all GPUs at once: what a multimem instruction does is done at each rank.

Input: a task at an op of `ir/ops/multimem.py`. Output: a tile in the task's environment, or elements written at every rank. For
example, with x = 1, 2, 3 at the ranks of a world of three:

    multimem_load_reduce(address of x, 'add')      6: in the order of the ranks here; the switch has an order of its own

To the order of accesses each is an atomic one at scope sys at every rank. An address of all ranks is no array's: an ordinary access
to it is refused.
"""

from __future__ import annotations

import numpy as np

from ...compiler.triton_port.interpreter import as_signed, as_unsigned
from ...errors import SimulatorMisuse, fail
from ...ir.world import BASES, MULTICAST, RANK, SIZE
from ..machine.table import handles
from ..memory.values import numpy_type
from .memory import signalled
from .world import check_symmetric, entry

_KINDS = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
          "umin": lambda one, other: as_signed(np.minimum(as_unsigned(one), as_unsigned(other))),
          "umax": lambda one, other: as_signed(np.maximum(as_unsigned(one), as_unsigned(other)))}


@handles("multicast_pointer")
def multicast_pointer(task, op):
    pointer, world = task.read(op.pointer, op), task.read(op.world, op)
    size, own = entry(task, op, world, SIZE), entry(task, op, world, RANK)
    everyone = entry(task, op, world, BASES + size + MULTICAST)
    if not everyone:
        raise fail(SimulatorMisuse, task, op, "the world has no multicast: its GPUs have no address of all ranks",
                   hint="reduce by loads from the peers' pointers; World(..., multicast=True) simulates GPUs that have it")
    if size > 1:
        check_symmetric(task, op, np.asarray(pointer))
    shift = everyone - entry(task, op, world, BASES + own)
    task.env[op.result] = (np.asarray(pointer) + np.uint64(shift % (1 << 64))).astype(np.uint64)[()]


def _at_ranks(task, op) -> tuple[list[np.ndarray], np.ndarray | None, np.dtype]:
    """The addresses at each rank, the mask, and the elements' type."""
    pointer, mask = task.read(op.pointer, op), None if op.mask is None else task.read(op.mask, op)
    dtype, heaps = numpy_type(op.pointer.type.element.pointee, op.site), task.memory.multicast
    alone = task.memory.rank is None
    if not alone and (heaps is None or not heaps.holds(pointer)):
        raise fail(SimulatorMisuse, task, op, "an address that is not one of all ranks",
                   hint="take tlx.multicast_pointer of the pointer")
    groups = pointer.reshape(-1, op.vector)
    if (groups[:, 0] % np.uint64(op.vector * dtype.itemsize)).any() or (np.diff(groups) != np.uint64(dtype.itemsize)).any():
        raise fail(SimulatorMisuse, task, op, f"{op.vector} neighbours of {dtype.itemsize} bytes go in one access, and they do not "
                   f"lie one after the other from a multiple of {op.vector * dtype.itemsize} bytes on",
                   hint="let the last axis be consecutive and begin there, or give a smaller vector=")
    if mask is not None and (mask.reshape(-1, op.vector) != mask.reshape(-1, op.vector)[:, :1]).any():
        raise fail(SimulatorMisuse, task, op, f"{op.vector} neighbours go in one access, and the mask takes some of them only",
                   hint="mask whole groups, or give a smaller vector=")
    return [pointer] if alone else heaps.at_ranks(pointer), mask, dtype


def _atomic(op, read: bool) -> dict:
    return dict(order=op.sem, scope="sys", read=read)


def _reduced(kind: str, parts: list[np.ndarray]) -> np.ndarray:
    """Over the ranks, in order; sums of 16 bits in fp32."""
    dtype, total = parts[0].dtype, parts[0]
    wide = np.float32 if dtype.kind not in "iu" and dtype.itemsize == 2 else dtype
    for part in parts[1:]:
        total = _KINDS[kind](total.astype(wide), part.astype(wide))
    return total.astype(dtype)


@handles("multimem_load_reduce", switches=True)
def multimem_load_reduce(task, op):
    task.machine.polls += 1
    ranks, mask, dtype = _at_ranks(task, op)
    for addresses in ranks:
        task.memory.touch(task, op, addresses, mask, dtype.itemsize, write=False, atomic=_atomic(op, True))
    task.env[op.result] = _reduced(op.reduction, [np.asarray(task.memory.read(one, mask, dtype, None, task, op)) for one in ranks])


@handles("multimem_store", switches=True)
def multimem_store(task, op):
    ranks, mask, dtype = _at_ranks(task, op)
    _write(task, op, ranks, mask, [task.read(op.value, op)] * len(ranks), read=False)


@handles("multimem_reduce", switches=True)
def multimem_reduce(task, op):
    ranks, mask, dtype = _at_ranks(task, op)
    value = task.read(op.value, op)
    olds = [np.asarray(task.memory.read(one, mask, dtype, None, task, op)) for one in ranks]
    _write(task, op, ranks, mask, [_reduced(op.reduction, [old, value]) for old in olds], read=True)


def _write(task, op, ranks, mask, values, read: bool) -> None:
    task.machine.wrote()
    for addresses, value in zip(ranks, values):
        task.memory.touch(task, op, addresses, mask, value.dtype.itemsize, write=True, atomic=_atomic(op, read))
        task.memory.write(addresses, value, mask, task, op)
        if addresses.size == 1 and (mask is None or mask.all()):
            signalled(task, op, addresses.reshape(-1)[0], value.reshape(-1)[0])
