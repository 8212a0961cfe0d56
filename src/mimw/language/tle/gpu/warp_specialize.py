"""`tle.gpu.warp_specialize`: functions that run side by side, each on warps of its own.

Input: (function, arguments) pairs, and for each worker a count of warps and of registers. Output: `Partitions`, from
which the code generator (`frontend`) records a region with one task a function. For example:

    tle.gpu.warp_specialize([(load, (x, p)), (multiply, (p, y))], [4], [100])
        Task 'load', the default, on the kernel's own warps; Task 'multiply' on 4 warps with 104 registers a thread
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton.language.core as tl

from ....ir import Task
from ...core import unwrap, word
from ...refuse import refuse
from ...tlx.arguments import is_int

_LEAST, _MOST = 24, 248  # registers a thread that can be asked for, in steps of 8 (PTX ISA, setmaxnreg; 255 are addressable)


@dataclass(frozen=True)
class Partitions:
    """The result of the word for the code generator: a (function, arguments) for each task, the default task's first."""

    calls: list[tuple]
    tasks: list[Task]


@word
def warp_specialize(functions_and_args, worker_num_warps: tl.constexpr, worker_num_regs: tl.constexpr,
                    _semantic=None) -> Partitions:
    """Run JIT functions at the same time: the first on the kernel's own warps, each other one, a worker, on extra warps.

    args:      functions_and_args - list of (function, tuple of arguments), the default partition's first. Arguments may be all
                                    that a kernel holds. A tile goes to a worker through shared memory, or is worked out there
                                    again where it follows from scalars.
               worker_num_warps   - warps of each worker, powers of two
               worker_num_regs    - registers a thread that each worker asks for, rounded up to a multiple of 8 from 24 to 248
    returns:   what the default function returns, once the generator has recorded the partitions; what workers return is dropped
    orders:    all before the region -> every partition; every partition -> all after the region; between partitions only pipes
               and barriers
    errors:    ValueError for other arguments, for counts that do not match, and inside a partition
    lowers to: ttg.warp_specialize
    example:   tle.gpu.warp_specialize([(consume, (y_ptr, tiles.reader())), (produce, (x_ptr, tiles.writer()))], [1], [24])
    """
    calls = _calls(functions_and_args)
    warps, registers = _numbers("worker_num_warps", worker_num_warps), _numbers("worker_num_regs", worker_num_regs)
    for name, given in (("warp counts", warps), ("register counts", registers)):
        if len(given) != len(calls) - 1:
            refuse(ValueError, f"tle.gpu.warp_specialize: got {len(calls) - 1} worker functions but {len(given)} {name}")
    for count in warps:
        if count <= 0 or count & (count - 1):
            refuse(ValueError, f"tle.gpu.warp_specialize: each of worker_num_warps must be 1, 2, 4, 8, ..., got {count}")
    for count in registers:
        if count <= 0:
            refuse(ValueError, f"tle.gpu.warp_specialize: each of worker_num_regs must be positive, got {count}")
    site, own = _semantic.builder.site, _semantic.builder.options.num_warps
    names = [function.__name__ for function, _ in calls]
    tasks = [Task(names[0], own, is_default=True, replicas=1, site=site)]
    for index, (count, wanted) in enumerate(zip(warps, registers), start=1):
        asked = min(_MOST, max(_LEAST, -(-wanted // 8) * 8))
        before, all_told = names[1:index].count(names[index]), names[1:].count(names[index])
        tasks.append(Task(names[index], count, False, asked, before, all_told, site))
    return Partitions(calls, tasks)


def _calls(functions_and_args: Any) -> list[tuple]:
    if not isinstance(functions_and_args, (list, tuple)) or not functions_and_args:
        refuse(ValueError, "tle.gpu.warp_specialize: functions_and_args must be a list of (function, arguments) with at least the "
                           f"default partition's, got {functions_and_args!r}")
    for entry in functions_and_args:
        if not isinstance(entry, tuple) or len(entry) != 2 or not hasattr(entry[0], "arg_names"):
            refuse(ValueError, f"tle.gpu.warp_specialize: each entry must be a tuple (JIT function, arguments), got "
                               f"{_shown(entry)}")
        if not isinstance(entry[1], tuple):
            refuse(ValueError, f"tle.gpu.warp_specialize: the arguments of {entry[0].__name__} must be a tuple, got "
                               f"{_shown(entry[1])}; write `(x, )` for a single one")
    return list(functions_and_args)


def _numbers(name: str, values: Any) -> list[int]:
    values = (values, ) if is_int(values) else values
    if not isinstance(values, (list, tuple)) or not all(map(is_int, values)):
        refuse(ValueError, f"tle.gpu.warp_specialize: {name} must be a list of ints, one a worker, got {_shown(values)}")
    return list(values)


def _shown(value: Any) -> str:
    return str(unwrap(value))
