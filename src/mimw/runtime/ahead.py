"""`mimw.compile`: a launch compiled for any chip, without that chip and without launching.

Input: a kernel, a grid and arguments, as for `mimw.simulate`. Output: a `Compiled`, every stage's text or
binary. For example:

    compiled = mimw.compile(double, (2, ), x, 256, BLOCK=128)
    compiled.ptx, compiled.registers, compiled.shared_bytes         the PTX; registers a thread; bytes a CTA

The launch specialises the kernel as on a GPU: by the types of its arguments, by what 16 divides, by integers that are 1. Who has
types instead of arguments calls `mimw.compile.compile_kernel`, as `mimw compile --signature` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..compiler.launch import check_grid, grid_extents
from ..compiler.pipeline import gpu_target
from ..compiler.triton_port.runtime import make_backend
from ..ir.world import at_rank
from ..target import asking, wanted
from .call import tool
from .compile_kernel import compile_kernel
from .compiled import Compiled
from .simulate import check_options, specialised


@tool
def compile(kernel, grid, *args: Any, target: str | Any = None, num_warps: int | Any = None, num_stages: int | Any = None,
            gpus: int | Any = None, **meta: Any) -> Compiled:
    """Compile `kernel` as a launch over `grid` with these arguments would be. Nothing is launched, and arrays are not read.

    args:      kernel, grid, args, num_warps, num_stages, gpus, meta   as for `mimw.simulate`; `numpy.empty` will do, also for
                         gigabytes. An autotuned kernel is compiled in its first configuration unless `meta` says more
               target    "sm_90a", "sm_100a", "gfx942", ...; by default MIMW_TARGET or sm_90a, also where there is another GPU
    returns:   Compiled: `.recorded`, `.ir`, `.ttgir`, `.llir`, `.ptx`, `.sass`, `.cubin` (on AMD `.amdgcn`, `.hsaco`), the stages
               of `mimw compile --emit`; `.registers`, `.stack_bytes`, `.shared_bytes`, `.warps`; `.program` and `.layouts`
    errors:    triton.CompilationError naming the user's line; TargetError; LaunchError for a grid that cannot be
    """
    return compiled(kernel, grid, args, meta, target, gpus)


def compiled(kernel, grid, args, meta: dict[str, Any], target: str | None = None, gpus: int | None = None,
             make: Callable[..., Compiled] = compile_kernel) -> Compiled:
    """Compile a launch as `compile` does, also of a kernel with parameters of the names that `compile` has. `make` compiles the
    kernel."""
    chip = wanted(target)
    with asking(chip):
        found, arguments, _, _ = specialised(kernel, args, meta, chip, gpus)
        first = {name: at_rank(value, 0) for name, value in arguments.items()}
        check_grid(grid_extents(grid(first) if callable(grid) else grid, chip.max_grid), found.options.get("ctas_per_cga"))
    check_options(found.fn, found.options, make_backend(gpu_target(chip)))
    options = dict(found.options) if found.fn.debug is None else {"debug": found.fn.debug, **found.options}
    return make(found.fn, found.signature, found.constants, target=chip.name, options=options, attrs=found.attrs)


compile.compile_kernel = compile_kernel     # of types instead of arguments; older than this function
