"""Regions of tasks and the tasks in the regions.

Input: the arguments of a `with` statement's call. Output: an object that holds the checked arguments; the frontend
reads the object, outlines each body, and makes one `warp_specialize` op of the region. The objects can be made in
plain Python. For example:

    with tlx.async_tasks():                                             warp_specialize, with one region for each task
        with tlx.async_task("default"): ...                             on the kernel's own warps
        with tlx.async_task(num_warps=4, num_regs=240, replicate=2):    two copies, 4 more warps each
            tlx.async_task_replica_id()                                 0 in the first copy, 1 in the second
"""

from __future__ import annotations

from typing import Any

import triton.language.core as tl

from ..core import compile_time, host_constructible, word
from ..kept import KeptConstant
from ..refuse import refuse
from .arguments import is_int

__all__ = ["async_task", "async_task_replica_id", "async_tasks"]


class Region:
    """Base of the objects that the frontend reads from a `with` statement; no other object may enter it."""

    def __enter__(self):
        refuse(RuntimeError, f"tlx.{type(self).__name__} opens a region of a kernel compiled by mimw: decorate the kernel with "
                             "@mimw.jit, and put `async_task` blocks directly within `async_tasks`")

    def __exit__(self, *error) -> None:
        """Leave the block; never reached, since entering raises."""


@host_constructible
class async_tasks(Region):
    """Open one warp-specialised region; its body holds `async_task` blocks and constexpr `if`s around them.

    args:      exclusive - the kernel must have exactly this one region
               no_ending_cluster_sync - (sm_100) the author guarantees that peers are done with tensor memory
               mbarrier_try_wait_suspend_ns - (opt) hint >= 0 for every barrier_wait of the kernel, else ValueError; of several
                         regions the smallest counts, 0 is none
               others    - positional arguments, and keywords of other compilers: accepted and ignored
    orders:    all before the region -> every task; every task -> all after the region
    errors:    ValueError for another hint, and for an argument that is known at run time only
    lowers to: ttg.warp_specialize
    example:   with tlx.async_tasks():
                   with tlx.async_task("default"): ...
                   with tlx.async_task(num_warps=4): ...
    """

    def __init__(self, *args, exclusive=False, no_ending_cluster_sync=False, mbarrier_try_wait_suspend_ns=None, _semantic=None,
                 _generator=None, **kwargs):
        self.args = args
        self.exclusive = bool(compile_time("tlx.async_tasks", "exclusive", exclusive))
        self.no_ending_cluster_sync = bool(compile_time("tlx.async_tasks", "no_ending_cluster_sync", no_ending_cluster_sync))
        suspend = compile_time("tlx.async_tasks", "mbarrier_try_wait_suspend_ns", mbarrier_try_wait_suspend_ns)
        if suspend is not None and (not is_int(suspend) or suspend < 0):
            refuse(ValueError, f"mbarrier_try_wait_suspend_ns must be a non-negative integer, got {suspend!r}")
        self.mbarrier_try_wait_suspend_ns = suspend


@host_constructible
class async_task(Region):
    """One task of a region: `async_task("default", ...)` on the kernel's own warps, or `async_task(num_warps=...)`.

    args:      num_warps - extra warps, a power of two; not for the default task
               num_regs (or registers; num_regs wins) - (opt) registers a thread, divisible by 8, else ValueError
               replicate - copies of the body, each with its own warps and `async_task_replica_id()`; an int >= 1
               warp_group_start_id - (opt) first warp, >= 0
    errors:    ValueError for other arguments: both "default" and num_warps, or neither; numbers that are no such ints
    not:       a list of task ids: the constructor takes the old form, a region refuses it (`task_ids` is not None)
    example:   with tlx.async_task("default"): ...
               with tlx.async_task(num_warps=4, registers=232, replicate=2): ...
    """

    def __init__(self, *args, num_warps=None, num_regs=None, registers=None, replicate=1, warp_group_start_id=None,
                 _semantic=None, _generator=None):
        given = [compile_time("tlx.async_task", "task", arg) for arg in args]
        self.is_default = given == ["default"]
        self.task_ids = _task_ids(given)
        self.num_warps = _constant("num_warps", num_warps)
        self.num_regs = _constant("num_regs", registers if num_regs is None else num_regs)
        self.replicate = _constant("replicate", replicate)
        self.warp_group_start_id = _constant("warp_group_start_id", warp_group_start_id)
        if given and not self.is_default and self.task_ids is None:
            refuse(ValueError, f'async_task takes "default" or num_warps=..., got {given[0] if len(given) == 1 else given!r}',
                   mend='"default" is the task on the kernel\'s own warps. Any other has warps of its own, and its name is the '
                        "comment on its line: `with tlx.async_task(num_warps=4):  # load`")
        self._check()

    def _check(self) -> None:
        if self.is_default and self.num_warps is not None:
            refuse(ValueError, "async_task: the default task runs on the kernel's own num_warps; leave num_warps out")
        if not self.is_default and self.task_ids is None and self.num_warps is None:
            refuse(ValueError, 'async_task needs num_warps, unless it is async_task("default")')
        if self.num_warps is not None and (self.num_warps <= 0 or self.num_warps & (self.num_warps - 1)):
            refuse(ValueError, f"async_task: num_warps must be a power of two, got {self.num_warps}")
        if self.num_regs is not None and (self.num_regs <= 0 or self.num_regs % 8):
            refuse(ValueError, f"num_regs must be divisible by 8 and positive, got {self.num_regs}")
        if self.replicate is None or self.replicate < 1:
            refuse(ValueError, f"async_task: replicate must be at least 1, got {self.replicate}")
        if self.warp_group_start_id is not None and self.warp_group_start_id < 0:
            refuse(ValueError, f"async_task: warp_group_start_id must be non-negative, got {self.warp_group_start_id}")


def _constant(name: str, value: Any) -> int | None:
    value = compile_time("tlx.async_task", name, value)
    if value is not None and not is_int(value):
        refuse(ValueError, f"async_task: {name} must be an int, got {value!r}")
    return value


def _task_ids(given: list) -> tuple[int, ...] | None:
    if len(given) == 1 and isinstance(given[0], (list, tuple)) and given[0] and all(map(is_int, given[0])):
        return tuple(given[0])
    return None


@word
def async_task_replica_id(_semantic=None, _generator=None) -> tl.constexpr:
    """The replica index of the enclosing task instance, 0 to replicate - 1, as a constexpr. A plain assignment keeps it one, and
    so is what is computed from it and constants, also in helpers; under a name that a loop or a run-time `if` assigns it is an i32.

    errors:    AssertionError outside a task
    example:   which: tl.constexpr = tlx.async_task_replica_id()     # inside async_task(..., replicate=2)
    """
    task = getattr(_generator, "task", None)
    if task is None:
        refuse(AssertionError, "async_task_replica_id must be called inside an async region where it is within an async_task")
    return KeptConstant(task.replica)
