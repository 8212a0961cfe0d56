"""Questions about a program, answered without changing it.

Input: a program, or the def-use index of one. Output: facts as plain data. For example:

    uses = uses_of(program)
    barrier_arrays(program, uses)       each array of barriers with its arrivals, expects, copies and waits
    constant_of(uses, value)            the number that a value always is, or None
"""

from .barriers import BarrierAccess, BarrierArray, barrier_arrays
from .clusters import crosses_ctas, forms_clusters
from .constants import constant_of, first_value, never_runs
from .counters import COUNTERS, counter_bytes
from .made_pointers import makes_pointers
from .peers import barriers_of_each_cta
from .pipe_resources import PipeResources, pipe_resources
from .pipe_words import PipeSide, pipe_arrays, pipe_side, pipe_sides
from .registers import TaskRegisters, launch_registers, register_plan, total_warps
from .remarks import Remark, register_remarks, registers_stay
from .resources import TaskResources, task_resources
from .symbols import Symbols
from .trips import Loop, loops_of, rounds
from .uses import Location, Use, Uses, task_label, uses_of
from .visits import ring_of_filler, ring_of_wait, split_offset

__all__ = [
    "BarrierAccess", "BarrierArray", "COUNTERS", "Location", "Loop", "PipeResources", "PipeSide", "Remark",
    "Symbols", "TaskRegisters", "TaskResources", "Use", "Uses", "barrier_arrays",
    "barriers_of_each_cta", "constant_of", "counter_bytes", "crosses_ctas", "first_value", "forms_clusters",
    "launch_registers", "loops_of", "makes_pointers", "never_runs", "pipe_arrays", "pipe_resources", "pipe_side", "pipe_sides",
    "register_plan", "register_remarks", "registers_stay", "ring_of_filler", "ring_of_wait", "rounds", "split_offset", "task_label",
    "task_resources", "total_warps", "uses_of",
]
