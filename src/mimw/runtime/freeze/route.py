"""What a frozen launch does when it cannot be done at once: look closely at the arguments, obey hooks, watchdog and simulator.

Input: what was frozen, and the values of a launch. Output: the launch, or a `LaunchError` that says what was frozen and what came:

    route.checked((x, 100), stream)         n was frozen as a multiple of 16, and is 100 = 6 x 16 + 4
    route.addressed((x.data_ptr(), 256), stream)
    route.rearranged((x.data_ptr(), ), stream)
    route.again(stream)                     with the arguments of `freeze`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ...compiler.pipeline import check_seen, seen_by
from ...compiler.triton_port.launcher import Launcher, current_stream, launch, on_device, on_stream
from ...compiler.triton_port.runtime import knobs
from ...errors import LaunchError
from ..simulating import simulating
from ..watchdog import seconds
from .quick import as_stream
from .slots import Constant, Descriptor, Number, Pointer, Slot, Tuple

KEPT_MAPS = 256     # of each descriptor: an allocator gives the same addresses again and again
MISSING = type("missing", (), {"__repr__": lambda self: "missing"})()


class Maps(dict):
    """The CUtensorMaps of one descriptor by address of its tensor; one that is not here is encoded by the driver."""

    def __init__(self, slot: Descriptor, launcher: Launcher):
        self.slot = slot
        self.encode = launcher.encoder(slot.index, slot.shape, slot.strides, slot.padding == "nan", slot.tf32)

    def __missing__(self, address: int):
        wrong = self.slot.misaligned(address)
        if wrong:
            raise LaunchError(f"{wrong}.", hint="copy the slice into a tensor of its own.")
        found = self.encode(address)
        if len(self) >= KEPT_MAPS:
            self.clear()
        self[address] = found
        return found


class Route:
    """A launch that was frozen, with everything that is known of it.

    `slots` are those of all parameters, None for one of constants; `values` the arguments of `freeze` by parameter, without those
    that a launch takes once `forget` was called. `compiled` and `device` are None where launches are simulated. `names.still()`
    says whether all that the kernel names is as it was when it was frozen; None where nothing of it can change.
    """

    def __init__(self, fn, grid: tuple[int, ...], options: Mapping[str, Any], slots: dict[str, Slot | None], values: dict[str, Any],
                 compiled=None, launcher: Launcher | None = None, device: int | None = None):
        self.constants = {(index, ): values[name] for index, (name, slot) in enumerate(slots.items()) if slot is None}
        self.seen = seen_by(fn, self.constants)
        self.names = SimpleNamespace(still=self.seen.still)
        self.fn, self.grid, self.options, self.slots, self.values = fn, grid, options, slots, values
        self.compiled, self.launcher, self.device = compiled, launcher, device
        described = (slot for slot in _arrays(slots.values()) if isinstance(slot, Descriptor))
        self.maps = [Maps(slot, launcher) for slot in described] if launcher else []
        self.kept = True

    @property
    def extents(self) -> tuple[int, int, int]:
        x, y, z = (*self.grid, 1, 1)[:3]
        return x, y, z

    @property
    def taken(self) -> list[str]:
        """The parameters of which a launch takes values, in order."""
        return [name for name, slot in self.slots.items() if slot is not None]

    def forget(self) -> None:
        """Drop the arrays of `freeze`; numbers stay."""
        self.kept = False
        self.values = {name: _with_arrays(slot, self.values[name], lambda slot: None) for name, slot in self.slots.items()}

    # ---- launches ---------------------------------------------------------------------------------------------------

    def again(self, stream: Any):
        """With the arguments of `freeze`."""
        if not self.kept:
            raise LaunchError(f"this frozen launch of {self.fn.__name__} has forgotten the arguments that it was frozen with",
                              hint=f"give the arguments: {self.asked}.")
        return self._launched(list(self.values.values()), stream, lambda slot, value: value)

    def checked(self, values: Sequence[Any], stream: Any):
        """With other arguments, each of which is asked whether it may take the place of the frozen one."""
        self._count(values)
        slots = [slot for slot in self.slots.values() if slot is not None]
        wrong = next(filter(None, (slot.problem(value, self.device) for slot, value in zip(slots, values))), None)
        if wrong:
            name = self.fn.__name__
            raise LaunchError(f"the frozen launch of {name} cannot take these arguments: {wrong}.",
                              hint=f"freeze {name} for such arguments, too, or launch it by {name}[grid](...).")
        return self._launched(self._merged(values), stream, lambda slot, value: slot.full(value))

    def addressed(self, values: Sequence[Any], stream: Any):
        """With addresses and numbers that the caller has checked."""
        self._count(values)
        return self._launched(self._merged(values), stream, self._array_at)

    def packed(self) -> tuple | None:
        """The arguments of `freeze` as Triton's launcher in C takes them. None if the tensor of a descriptor has no memory: the
        driver encodes no descriptor of that."""
        values = list(self.values.values())
        return None if 0 in _bases(self.slots.values(), values) else self.pack(values)

    def rearranged(self, addresses: Sequence[int], stream: Any):
        """With the addresses of all arrays, and everything else as frozen."""
        wanted = sum(1 for _ in _arrays(self.slots.values()))
        if len(addresses) != wanted:
            name = self.fn.__name__
            raise TypeError(f"a frozen launch of {name} has {wanted} arrays and descriptors; {len(addresses)} were given")
        rest = iter(addresses)
        values = [_with_arrays(slot, self.values[name], lambda slot: next(rest)) for name, slot in self.slots.items()]
        return self._launched(values, stream, self._array_at)

    def pack(self, values: Sequence[Any]) -> tuple:
        """The values of all parameters, arrays or addresses, as Triton's launcher in C takes them."""
        return _packed(self.slots.values(), values, self.maps, self.device)

    @property
    def asked(self) -> str:
        """The text of a launch with other arguments, for messages."""
        return f"frozen({', '.join(self.taken)})"

    def _count(self, values: Sequence[Any]) -> None:
        given = [value for value in values if value is not MISSING]
        if len(given) != len(self.taken):
            raise TypeError(f"a frozen launch of {self.fn.__name__} takes all of its arguments but the tl.constexpr ones, or none: "
                            f"{self.asked}; {len(given)} were given")

    def _array_at(self, slot: Slot, value: Any) -> Any:
        return slot.at(value, self.device is None)

    def _merged(self, given: Sequence[Any]) -> list:
        """The values of all parameters."""
        rest = iter(given)
        return [self.values[name] if slot is None else next(rest) for name, slot in self.slots.items()]

    def _check_seen(self) -> None:
        """GlobalChanged if something that the kernel names is another thing than when it was frozen."""
        if self.seen.still is not None and not self.seen.still():
            check_seen(self.fn, self.seen, self.constants)
            self.seen = seen_by(self.fn, self.constants)      # other objects, of the same content
            self.names.still = self.seen.still

    def _launched(self, values: list, stream: Any, whole: Callable[[Slot, Any], Any]):
        """`whole(slot, value)` makes of a value, an address or a tensor in place of a descriptor, what an ordinary launch takes."""
        def as_given():
            return [value if slot is None else whole(slot, value) for slot, value in zip(self.slots.values(), values)]

        self._check_seen()
        if self.device is None:
            return self._as_ever(as_given())
        with on_device(self.device):
            stream = current_stream()(self.device) if stream is None else as_stream(stream)
            if simulating() or seconds() is not None:
                with on_stream(stream, self.device):
                    return self._as_ever(as_given())
            if self.launcher is None or self._hooked():
                values = as_given()
                positional, named = self._call_of(values)
                for hook in self.fn.pre_run_hooks:
                    hook(*positional, **named, **self.options)
                launch(self.compiled, self.extents, stream, values)
            else:
                workspace = self.launcher.workspace_of(self.extents, stream)
                self.launcher.call(*self.extents, stream, *self.launcher.head, None, None, None, workspace, None,
                                   *self.launcher.tail, self.pack(values))
        return self.compiled

    def _hooked(self) -> bool:
        """Triton's hooks are chains, which are empty as a rule, or what somebody has set in their place."""
        hooks = (knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook)
        return bool(self.fn.pre_run_hooks) or any(hook is not None and getattr(hook, "calls", True) for hook in hooks)

    def _as_ever(self, values: list):
        """By `kernel[grid](...)`: it knows the simulator and the watchdog."""
        positional, named = self._call_of(values)
        return self.fn[self.grid](*positional, **named, **self.options)

    def _call_of(self, values: list) -> tuple[list, dict[str, Any]]:
        """The values as the kernel is called with them."""
        positional, named = [], {}
        for value, parameter in zip(values, self.fn.signature.parameters.values()):
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                positional += value if parameter.kind is parameter.VAR_POSITIONAL else [value]
        return positional, named


def _with_arrays(slot: Slot | None, value: Any, array: Callable[[Slot], Any]) -> Any:
    """`value` with `array(slot)` in the place of each array or descriptor."""
    if isinstance(slot, Tuple):
        return slot.make([_with_arrays(*of, array) for of in zip(slot.items, value)])
    return array(slot) if isinstance(slot, (Pointer, Descriptor)) else value


def _arrays(slots):
    """The slots of arrays and descriptors, in order."""
    for slot in slots:
        if isinstance(slot, (Pointer, Descriptor)):
            yield slot
        elif isinstance(slot, Tuple):
            yield from _arrays(slot.items)


def _bases(slots, values):
    """The addresses of descriptors' tensors."""
    for slot, value in zip(slots, values):
        if isinstance(slot, Descriptor):
            yield value.base.data_ptr()
        elif isinstance(slot, Tuple):
            yield from _bases(slot.items, value)


def _packed(slots, values, maps: list[Maps], device: int) -> tuple:
    found = []
    for slot, value in zip(slots, values):
        match slot:
            case None | Constant():
                found.append(None)
            case Tuple():
                found.append(_packed(slot.items, value, maps, device))
            case Descriptor():
                base = value.base if hasattr(value, "block_shape") else value
                found += [maps[slot.index][base if isinstance(base, int) else base.data_ptr()], *slot.shape, *slot.strides]
            case Pointer() if hasattr(value, "get_device") and value.get_device() == device:
                found.append(value.data_ptr())
            case Pointer() | Number():      # memory of the host, and what cannot say where it is: the driver looks
                found.append(value)
    return tuple(found)
