"""`kernel.freeze(grid, *args, **meta)`: a launch that is specialised once, and then costs little more than the driver's own call.

Input: a kernel of `mimw.jit`, a grid and the arguments of a launch. Output: a `FrozenLaunch`:

    frozen = double.freeze((2, ), x, y, 256, BLOCK=128)
    frozen()                                            the same launch, on the current stream
    frozen(a, b, 256)                                   other arguments of the same specialisation, checked
    frozen.launch(stream, a.data_ptr(), b.data_ptr(), 256)          the same, by a caller who has checked them

docs/LAUNCHING.md says what a launch costs and which arguments may change.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from typing import Any

from ...compiler.launch import CLUSTERS, canonical_keywords, check_cluster_target, divided_grid, extents_of, grid_extents
from ...compiler.pipeline import chip_of, gpu_target, seen_by
from ...compiler.triton_port.launcher import launcher_of
from ...compiler.triton_port.runtime import active_target, create_function_from_signature, driver, make_backend
from ...errors import LaunchError
from ...target import wanted
from ..host import as_bytes, as_launched, check_descriptors
from ..simulating import simulating
from ..watchdog import seconds
from .quick import written
from .route import MISSING, Route
from .slots import Slot, slot_of

__all__ = ["FrozenLaunch", "freeze"]


class FrozenLaunch:
    """A launch that was specialised, compiled, loaded and checked once; made by `kernel.freeze(grid, *args, **meta)`.

        frozen()                            launches with the arguments of `freeze`
        frozen(*values)                     with others, of all parameters but the `tl.constexpr` ones, in order
        frozen(*values, stream=stream)      on a torch stream or a stream's handle, an int; otherwise on the device's current stream
        frozen.launch(stream, *values)      lean: nothing is checked, `stream` is an int, and arrays and descriptors are given as
                                            addresses (`tensor.data_ptr()`)
        frozen.launch_arrays(stream, *addresses)        leaner: of all arrays and descriptors in order; numbers stay as frozen

    A tensor may be given for a descriptor. What `frozen` checks:

        array        its element type, its device and, where the frozen address was a multiple of 16 bytes, that this one is
        descriptor   the same of its tensor; extents and strides are those that were frozen, and so are block and padding
        integer      that it fits the type; that it is a multiple of 16, or 1, where the frozen one was
        float, bool  the type
        None         stays None

    The grid, compile-time values and launch options stay as they were. All ways obey Triton's launch hooks, a watchdog
    and `MIMW_SIMULATE`; all return at once, and each can be captured in a CUDA graph. A handle belongs to the device that was
    current at `freeze`; `frozen` makes that current for the launch, the lean ways want it to be. Threads may share a handle. On the
    simulator an address is taken for an array of the extents that were frozen.

    The handle keeps the compiled kernel, and the arrays of `freeze` until `forget`; never those of a call.

    returns:   a call, on a GPU the compiled kernel, on the simulator the run; `launch`, on a GPU nothing
    errors:    LaunchError for arguments that the frozen specialisation does not allow: which one, what was frozen, what came;
               GlobalChanged if a global, module's constant, helper or closure that the kernel names is another one by now;
               TypeError for too few or too many
    """

    __slots__ = ("__call__", "__weakref__", "_route", "_scope", "launch", "launch_arrays")

    def __init__(self, route: Route):
        self._route, self._scope = route, {}
        if route.launcher is None:
            call, launch, arrays = _slow(route)
        else:
            names = {"missing": MISSING, "same": route.packed(), "compiled": route.compiled,
                     "checked": route.checked, "addressed": route.addressed,
                     "rearranged": route.rearranged, "again": route.again, "hooks": route.fn.pre_run_hooks,
                     "environment": os.environ._data, "watchdog": os.environ.encodevalue("MIMW_WATCHDOG"), "seconds": seconds,
                     "named": route.names, "simulate": os.environ.encodevalue("MIMW_SIMULATE"), "simulating": simulating}
            call, launch, arrays = written(route.slots, route.values, route.maps, route.launcher, route.extents, route.device,
                                           names)
            self._scope = call.__globals__
        call.__name__ = call.__qualname__ = f"frozen launch of {route.fn.__name__}"
        launch.__name__ = launch.__qualname__ = f"{call.__name__}, launch"
        arrays.__name__ = arrays.__qualname__ = f"{call.__name__}, launch_arrays"
        call.__doc__ = f"Launch {route.fn.__name__} as frozen: {route.asked}, without values as frozen; stream= where."
        launch.__doc__ = f"Launch {route.fn.__name__} unchecked: launch(stream, {', '.join(route.taken)}), arrays as addresses."
        arrays.__doc__ = f"Launch {route.fn.__name__} unchecked with the addresses of its arrays, all else as frozen."
        setattr(self, "__call__", call)     # noqa: B010  a slot: calling the handle is calling this function
        self.launch, self.launch_arrays = launch, arrays

    @property
    def grid(self) -> tuple[int, ...]:
        """The grid in CTAs, or in clusters for a kernel with a mesh."""
        return self._route.grid

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of which a call takes values, in order."""
        return tuple(self._route.taken)

    @property
    def compiled(self) -> Any:
        """Triton's compiled kernel, with `.asm` and `.metadata`; None on the simulator."""
        return self._route.compiled

    @property
    def device(self) -> int | None:
        """The index of the device; None on the simulator."""
        return self._route.device

    def forget(self) -> FrozenLaunch:
        """Drop the arrays of `freeze`, so that their memory can be used again; from now on every launch is given its arguments."""
        self._route.forget()
        self._scope["same"] = None
        return self

    def __repr__(self) -> str:
        where = "the simulator" if self.device is None else f"device {self.device}"
        return f"<frozen launch of {self._route.fn.__name__}({', '.join(self.parameters)}) on grid {self.grid}, {where}>"

    def __reduce_ex__(self, protocol):
        raise TypeError("a frozen launch cannot be pickled or copied: it holds a kernel that is loaded on a device, and addresses "
                        "of this process. Freeze the kernel in the process that launches it")


def freeze(fn, grid: Any, args: tuple, keywords: Mapping[str, Any]) -> FrozenLaunch:
    """The frozen launch of a kernel; `MimwFunction.freeze` has the contract."""
    seen_by(fn)     # the signature says the defaults of now
    keywords = canonical_keywords(keywords, fn.arg_names)
    options = {name: value for name, value in keywords.items() if name not in fn.arg_names}
    named = {name: value for name, value in keywords.items() if name in fn.arg_names}
    given = fn.signature.bind(*args, **named)
    given.apply_defaults()
    check_descriptors(fn.arg_names, tuple(given.arguments.values()), {})
    if simulating():
        target = gpu_target(wanted())
        bound, kinds = _specialised(fn, target, as_launched(args), {name: as_launched(value) for name, value in named.items()})
        grid = _extents(grid, bound, options, wanted())
        check_cluster_target(options.get("ctas_per_cga"), options.get("preferred_ctas_per_cga"), wanted())
        return FrozenLaunch(Route(fn, grid, options, _slots(fn, kinds, given.arguments), dict(given.arguments)))
    device, target = driver.active.get_current_device(), active_target()
    args, named = as_bytes(args), {name: as_bytes(value) for name, value in named.items()}
    bound, kinds = _specialised(fn, target, args, named)
    grid = _extents(grid, bound, options, chip_of(target))
    slots = _slots(fn, kinds, given.arguments)
    for name, slot in slots.items():
        wrong = slot and slot.problem(given.arguments[name], device)
        if wrong:
            raise LaunchError(f"{fn.__name__} cannot be frozen with these arguments: {wrong}.",
                              hint="put the tensors on one device, and make that the current one.")
    compiled = fn.run(*args, grid=grid, warmup=True, **named, **options)
    if hasattr(compiled, "result"):     # Triton compiles in the background
        compiled = compiled.result()
    if compiled is None:
        raise LaunchError(f"{fn.__name__} was not compiled: knobs.runtime.jit_cache_hook says that it need not be",
                          hint="freeze kernels without that hook.")
    return FrozenLaunch(Route(fn, grid, options, slots, bound, compiled, launcher_of(compiled), device))


def _specialised(fn, target, args: tuple, named: dict[str, Any]) -> tuple[dict[str, Any], list]:
    """(the arguments by parameter, with defaults; what Triton's binder says of each: type and attribute)."""
    bound, kinds, _ = create_function_from_signature(fn.signature, fn.params, make_backend(target))(*args, **named)
    return bound, kinds


def _slots(fn, kinds: list, values: Mapping[str, Any]) -> dict[str, Slot | None]:
    numbers = itertools.count()
    return {parameter.name: None if parameter.is_constexpr else slot_of(parameter.name, *kind, values[parameter.name], numbers)
            for parameter, kind in zip(fn.params, kinds)}


def _extents(grid: Any, bound: dict[str, Any], options: Mapping[str, Any], chip) -> tuple[int, ...]:
    """The grid, asked and checked as a launch asks and checks it."""
    extents = grid_extents(extents_of(grid, bound), chip.max_grid)
    return divided_grid(extents, {name: options[name] for name in CLUSTERS if name in options})


def _slow(route: Route):
    """The functions of a handle whose launches are simulated, or which Triton's launcher in C cannot do alone."""
    def call(*values, stream=None):
        return route.checked(values, stream) if values else route.again(stream)

    def launch(stream, *values):
        return route.addressed(values, stream)

    def arrays(stream, *addresses):
        return route.rearranged(addresses, stream)

    return call, launch, arrays
