"""Numbers that differ between the threads of a task, and code that only some of the threads run.

Input: a task at an op with such a number. Output: the op's results for the threads that run it. For example:

    if thread_id(0) == 0: tl.store(flag, 1)      only the first thread's store is made

A task is simulated as a whole, except where `thread_id` tells its threads apart. A number computed from it is a `PerThread`
array, one element a thread, until it turns out equal in all of them. An `if` on such a number runs each branch for the threads
that take it (`Task.active`). A thread writes the elements of a tile that it owns: element `e`, counted row by row, belongs to
thread `e % threads`, as in the layout that tiles have by default. (A GPU may give a thread up to 16 neighbouring bytes of a tile
that has more elements than threads.) A scalar is stored by the task's first thread.
"""

from __future__ import annotations

import numpy as np

from ...compiler.analysis.meetings import hands_round, meets
from ...errors import SimulatorMisuse, fail
from ...ir import Block, Op, Tensor
from ...target import NVIDIA_WARP
from ..machine.guarded import PerThread
from ..machine.poison import Poisoned, data_of, mask_of, poisoned
from ..memory.values import numpy_type

WARP = NVIDIA_WARP  # votes and thread numbers of words that exist on NVIDIA only



def threads(task) -> int:
    return WARP * task.num_warps


def owners(task, shape) -> np.ndarray:
    """The thread that owns each element of a tile; of one that is too small for the task, the first that holds a copy."""
    return (np.arange(int(np.prod(shape))) % threads(task)).reshape(shape)


def settled(values):
    """One value a thread: the value itself if all agree, else a `PerThread`."""
    values = np.asarray(values)
    return values[0] if (values == values[0]).all() else values.view(PerThread)


def settle(value, data):
    """The result of scalar arithmetic on `PerThread`s; everything else as it is."""
    return settled(data) if isinstance(data, np.ndarray) and data.ndim and not isinstance(value.type, Tensor) else data


def spread(task, data, shape):
    """A tile filled with a scalar: each element with that of its owner."""
    return np.asarray(data)[owners(task, shape)]


def running(task, type_) -> np.ndarray | None:
    """The elements of a tile, or the threads for a scalar, that belong to threads that run now, as a mask; None is all."""
    if task.active is None:
        return None
    return task.active[owners(task, type_.shape)] if isinstance(type_, Tensor) else task.active


def load(task, op: Op, pointer, mask, other):
    """The values that each running thread reads at its own address."""
    type_ = op.result.type
    runs = running(task, type_)
    if not isinstance(type_, Tensor):
        pointer = np.broadcast_to(pointer, threads(task))
    if mask is not None or runs is not None:
        mask = np.broadcast_to(True if mask is None else mask, np.shape(pointer))
        mask = mask if runs is None else mask & runs
    task.memory.touch(task, op, pointer, mask, numpy_type(type_, op.site).itemsize, write=False)
    return settle(op.result, task.memory.read(pointer, mask, numpy_type(type_, op.site), other, task, op))


def store(task, op: Op, pointer, value, mask) -> None:
    """A tile by the running owners of its elements, a scalar by the first thread if that runs."""
    runs = running(task, op.pointer.type)
    if not isinstance(op.pointer.type, Tensor):
        if runs is not None and not runs[0]:
            return
        pointer, value, mask = (arg[0] if arg.__class__ is PerThread else arg for arg in (pointer, value, mask))
    elif runs is not None:
        mask = runs if mask is None else runs & mask
    task.memory.touch(task, op, pointer, mask, np.asarray(value).dtype.itemsize, write=True)
    task.memory.write(np.asarray(pointer)[()], np.asarray(value)[()], mask, task, op)


def ballot(task, op: Op, mask: int, votes):
    """One 32-bit number a warp, at every thread or element of it."""
    if op.attrs.get("spread") is not None:
        return _ballot_as_spread(*map(_positions, op.attrs["spread"]), mask, np.asarray(votes))
    count = threads(task)
    tile = isinstance(op.result.type, Tensor)
    flat = np.asarray(votes).reshape(-1)
    if flat.size < count:
        flat = np.resize(flat, count)     # a small tile repeats over the threads; a scalar is the same in all
    mine = flat.reshape(-1, count).any(axis=0)
    bits = (mine.reshape(-1, WARP).astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(axis=1)
    answer = np.repeat((bits & np.uint64(mask)).astype(np.uint32).view(np.int32), WARP)
    return answer[owners(task, op.result.type.shape)] if tile else settled(answer)


def _ballot_as_spread(registers, lanes, warps, mask: int, votes: np.ndarray) -> np.ndarray:
    """The ballot where a thread's elements are those of the positions that the bits of register, lane and warp lead to."""
    held = warps[:, None, None] ^ lanes[None, :, None] ^ registers[None, None, :]
    mine = votes.reshape(-1)[held].any(axis=2)
    bits = (mine.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(axis=1) & np.uint64(mask)
    answer = np.empty(votes.size, np.int32)
    answer[held] = bits.astype(np.uint32).view(np.int32)[:, None, None]
    return answer.reshape(votes.shape)


def _positions(steps) -> np.ndarray:
    """The position of each number whose bits step by these."""
    found = np.zeros(1, np.int64)
    for step in steps:
        found = np.concatenate([found, found ^ step])
    return found


def redux(op: Op, values):
    """The reduction over the lanes that hold an element's register: in a tile, over the elements in steps of the lanes' bits, or of
    32 neighbours where the layout has no map; of a scalar, over the warp of each thread."""
    magnitudes = op.op.startswith("abs_")
    reduce = np.fmax if op.op.endswith("max") else np.fmin
    values = np.abs(values) if magnitudes else np.asarray(values)
    if not isinstance(op.value.type, Tensor) and not values.ndim:
        return values[()]
    made = across(reduce, values, op.attrs.get("lanes"))
    return made if isinstance(op.value.type, Tensor) else settled(made)


def across(reduce, values: np.ndarray, steps=None) -> np.ndarray:
    """Every element as the reduction over those that `steps` of the position lead to, a step for each bit of the lane."""
    flat = values.reshape(-1)
    at = np.arange(flat.size)
    for step in steps or [1 << bit for bit in range(WARP.bit_length() - 1)]:
        if 0 < step < flat.size:
            flat = _signed_zeros(reduce, flat, flat[at ^ step])
    return flat.reshape(values.shape)


def _signed_zeros(reduce, one, other):
    """PTX ISA, redux.sync: +0 is larger than -0, which numpy finds equal."""
    found = reduce(one, other)
    if one.dtype.kind != "f":
        return found
    zeros = (one == 0) & (other == 0)
    if zeros.any():
        negative = np.signbit(one) & np.signbit(other) if reduce in (np.fmax, np.maximum) else np.signbit(one) | np.signbit(other)
        found = np.where(zeros, np.where(negative, np.float32(-0.0), np.float32(0.0)), found)
    return found


def refuse_collective(task, block: Block, condition: Op) -> None:
    """Refuse what all threads of a task do together where only some come by."""
    inside = [inner for outer in block.ops for inner in outer.walk()]
    taken = {value for op in inside for value in op.operands}
    for op in inside:
        why = meets(op) or ("one thread hands its result to all" if hands_round(op) and not taken.isdisjoint(op.results) else "")
        if why or op.row.needs_all_threads:
            raise fail(SimulatorMisuse, task, op, f"{op.name} needs all threads of the task, but stands under an `if` that only "
                       f"some of them take: the condition comes from thread_id" + (f"; {why}" if why else ""), condition.site,
                       hint="move it out of the `if`; on the GPU it would hang or read garbage")


def merged(task, lanes: np.ndarray, value, yes, no):
    """The value of an `if` whose branches were taken by different threads. A branch that nobody took gives None."""
    if yes is None or no is None or yes is no:
        return no if yes is None else yes
    if Poisoned in (yes.__class__, no.__class__):
        mask = merged(task, lanes, value, *(mask_of([one]) | np.zeros(np.shape(data_of(one)), bool) for one in (yes, no)))
        origin = (yes if yes.__class__ is Poisoned else no).origin
        return poisoned(merged(task, lanes, value, data_of(yes), data_of(no)), mask, origin)
    if isinstance(value.type, Tensor):
        return np.where(lanes[owners(task, value.type.shape)], yes, no)
    return settled(np.where(lanes, np.asarray(yes), np.asarray(no)))
