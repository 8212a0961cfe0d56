"""Launches like earlier ones, at the price of a frozen launch: no binding, no guards, no descriptors.

Input: the launches of a plain kernel, and what was decided about each. Output: a function that launches, for launches that differ
from earlier ones in addresses and floats alone. For example:

    found = repeated.find(extents, args, meta)      None at first
    repeated.note(found, written, ...)              decided as `mimw.auto` decides; the third time it is frozen
    repeated.find(extents, args, meta).go()         the orchestrated kernel, frozen for these sizes

What is kept is found by all that decided: grid, device, numbers, constants, and each array's element type, extents and strides
(`reading.py`). Addresses are asked at each launch: whether they are multiples of 16, and whether arrays that must not overlap lie
apart. The encoded descriptors of a frozen launch are found by address, and depend on nothing else that may change
(`runtime.freeze`). At most `KEPT` are kept, those that were used last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from ...compiler.triton_port.launcher import current_device, current_stream
from ...errors import MimwError
from ...runtime.freeze.slots import Address, strides_of
from ...runtime.host import is_array
from ...runtime.spans import reach
from .reading import Reader, reader
from .written import Written, device_programs

KEPT = 512          # launches that are alike but for addresses
SEEN = 2            # times that a launch comes before it is frozen, which takes as long as ten launches
MARK = 1 << 40      # addresses of arrays that stand for those of a launch


@dataclass(slots=True)
class Frozen:
    """The orchestrated kernel, frozen for launches that are alike. `take` picks its arguments of what was read, and `constants`;
    `apart` has (place, first byte, end, place, first byte, end) of arrays that must not overlap, in bytes from their addresses."""

    launch: Callable[..., None]
    compiled: Any
    take: Callable[[tuple], tuple]
    constants: tuple
    apart: tuple[tuple[int, int, int, int, int, int], ...]

    def allows(self, flat: tuple) -> bool:
        for one, begin, end, other, start, stop in self.apart:
            if flat[one] + end > flat[other] + start and flat[other] + stop > flat[one] + begin:
                return False
        return True


PLAIN = "plain"     # all launches like this one take the plain kernel


@dataclass(slots=True)
class Found:
    """A launch that was read: `flat` has addresses and numbers, `key` is what decided. `kept` is None for what is not known yet."""

    flat: tuple
    key: tuple
    kept: Frozen | str | None
    device: int

    @property
    def is_plain(self) -> bool:
        return self.kept is PLAIN


class Repeated:
    """The launches of one kernel that came before. `forget` drops them: when what the kernel names has changed."""

    def __init__(self, fn: Any):
        self.fn = fn
        self.readers: dict[tuple, Reader | None] = {}
        self.known: OrderedDict[tuple, Frozen | str | int] = OrderedDict()
        self.device, self.stream = current_device(), current_stream()

    def forget(self) -> None:
        self.known.clear()

    def find(self, extents: tuple, args: tuple, meta: Mapping[str, Any]) -> Found | None:
        """The launch as it was read; None for one that is looked at anew each time."""
        kinds = (*map(type, args), *meta, *map(type, meta.values()))
        try:
            read = self.readers[kinds]
        except KeyError:
            read = self.readers[kinds] = reader(self.fn, args, meta)
        if read is None:
            return None
        device = 0 if self.device is None else self.device()
        flat, key = read(args, meta, device)
        if flat is None:
            return None
        key = extents, device, kinds, key
        kept = self.known.get(key)
        if kept is not None and kept.__class__ is not int:
            try:
                self.known.move_to_end(key)
            except KeyError:        # another thread has dropped it
                pass
            if kept is not PLAIN and not kept.allows(flat):
                return None
        return Found(flat, key, kept, device)

    def go(self, found: Found) -> Any:
        """Launch what was frozen."""
        kept = found.kept
        kept.launch(self.stream(found.device), *kept.take((*found.flat, *kept.constants)))
        return kept.compiled

    def note(self, found: Found, written: Written | None, extents: tuple, args: tuple, meta: Mapping[str, Any], why: str) -> None:
        """Keep what was decided of a launch: None or a reason `why` for the plain kernel, else the kernel that it took."""
        names = [*self.fn.arg_names[:len(args)], *meta]
        if written is not None and why and not _are_apart(written.made.apart, names, (*args, *meta.values()), found.flat):
            return              # the reason may be about addresses, and so about this launch alone
        if written is None or why:
            self._keep(found.key, PLAIN)
            return
        times = found.kept or 0
        if times < SEEN:
            self._keep(found.key, times + 1)
            return
        try:
            self._keep(found.key, _frozen(written, names, extents, args, meta))
        except MimwError:       # one that cannot be frozen: it is launched as ever
            self._keep(found.key, -1 << 62)

    def _keep(self, key: tuple, what: Frozen | str | int) -> None:
        self.known[key] = what
        if len(self.known) > KEPT:
            self.known.popitem(last=False)


def _frozen(written: Written, names: list[str], extents: tuple, args: tuple, meta: Mapping[str, Any]) -> Frozen:
    values = dict(zip(names, (*args, *meta.values())))
    given = written.given(args, meta)
    passed = written.module.arguments(extents, *given)
    most = (written.plan.programs or 1) * device_programs(written.plain.chip)
    launch = written.kernel.freeze(written.programs(extents, most), *passed, **written.options).forget()
    marks = {name: MARK * at for at, name in enumerate(written.plain.parameters, 1)}
    marked = written.module.arguments(extents, *(_marked(value, marks[name]) for name, value in zip(marks, given)))
    of_mark = {mark: names.index(name) for name, mark in marks.items()}
    places, constants = [], []
    for at, value in enumerate(marked):
        if at < len(given):
            places.append(names.index(written.plain.parameters[at]))
        elif hasattr(value, "block_shape"):
            places.append(of_mark[value.base.data_ptr()])
        else:
            places.append(len(values) + len(constants))
            constants.append(value)
    take = itemgetter(*places) if len(places) > 1 else lambda flat: (flat[places[0]], )
    return Frozen(written.with_memory(launch.launch), launch.compiled, take, tuple(constants),
                  tuple(_pairs(written.made.apart, names, values)))


def _marked(value: Any, address: int) -> Any:
    """An argument whose array lies at an address that says which one it is, also where two arguments are one array."""
    if hasattr(value, "block_shape"):
        return replace(value, base=_marked(value.base, address))
    return Address(address, value.dtype, tuple(value.shape), strides_of(value)) if is_array(value) else value


def _pairs(apart: Iterable[tuple[str, str]], names: list[str], values: Mapping[str, Any]) -> list[tuple]:
    """Pairs of arguments that must not overlap, by their places, with the bytes that each has from its address on."""
    found = []
    for one, other in sorted(apart):
        if one in values and other in values:
            (begin, end), (start, stop) = (reach(_marked(values[name], MARK)) for name in (one, other))
            found.append((names.index(one), begin - MARK, end - MARK, names.index(other), start - MARK, stop - MARK))
    return found


def _are_apart(apart: Iterable[tuple[str, str]], names: list[str], values: tuple, flat: tuple) -> bool:
    return Frozen(None, None, None, (), tuple(_pairs(apart, names, dict(zip(names, values))))).allows(flat)
