"""The handles of a compiled kernel where launches are simulated: what its binary takes, and a launch of it on the simulator.

Input: what Triton's `CompiledKernel` gives to a driver. Output: what it expects of one. For example, of host code that chooses its
grid by registers:

    kernel = softmax.warmup(y, x, 781, BLOCK=1024, grid=(1, ))
    kernel._init_handles()
    kernel.n_regs                           32, read from the binary for the chip that is simulated
    kernel[(264, 1, 1)](y, x, 781, 1024)    simulated
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..compiler.pipeline.binary import taken_by_cubin, taken_by_hsaco
from ..compiler.triton_port.runtime import is_gluons
from ..target import Target, wanted
from .before_launch import check_launch, checking

_OPTIONS = ("num_warps", "num_stages", "maxnreg")       # of a compilation, that a simulated launch knows as well
_GLUONS = (*_OPTIONS, "num_ctas", "debug")              # .. of a kernel of Gluon's


def loaded(binary: bytes, target: Target | None = None) -> tuple[None, None, int, int, int]:
    """(module, function, registers, spilled words, most threads) of a binary, as of Triton's `load_binary`; nothing is loaded."""
    return _loaded(binary, (target or wanted()).backend)


@functools.lru_cache(maxsize=64)
def _loaded(binary: bytes, backend: str) -> tuple[None, None, int, int, int]:
    taken = (taken_by_cubin if backend == "cuda" else taken_by_hsaco)(binary)
    return None, None, taken.registers, taken.stack_bytes // 4 if taken.spilled is None else taken.spilled, 1024


class SimulatedLauncher:
    """Triton's launcher of one compiled kernel; a launch is a simulated one of the function that the kernel was compiled from:
    `simulated(fn, grid, args, keywords)`."""

    def __init__(self, src: Any, simulated: Callable[..., Any]):
        self._src, self._simulated = src, simulated
        names, own = (_GLUONS, ()) if is_gluons(src.fn) else (_OPTIONS, src.fn.arg_names)
        self._options = {name: src.options[name] for name in names if name not in own and src.options.get(name) is not None}
        if src.cluster is not None:
            self._options["ctas_per_cga"] = src.cluster

    def __call__(self, x: int, y: int, z: int, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook,
                 *args: Any) -> None:
        """Launch; compile-time values are those of the binary, whatever the caller gives in their places."""
        if enter_hook is not None:
            enter_hook(launch_metadata)
        params, constants = self._src.fn.params, self._src.constants
        given = [constants.get((place, ), arg) if param.is_constexpr else arg
                 for place, (param, arg) in enumerate(zip(params, args))]
        launch = self._src.fn, (x, y, z), tuple(given), dict(self._options)
        if is_gluons(self._src.fn):         # an option may be a parameter, too
            launch = self._src.fn, (x, y, z), (), {**self._options, **dict(zip(self._src.fn.arg_names, given))}
        if checking():
            check_launch(*launch)
        self._simulated(*launch)
        if exit_hook is not None:
            exit_hook(launch_metadata)
