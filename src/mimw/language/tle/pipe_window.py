"""What a writer does between `acquire` and `commit`, and the one arrival that publishes it.

A chunk is complete after one arrival and the bytes of its TMA copies. Each copy first says for itself how many bytes it
brings; `commit` then takes what is certain together. If the chunk is nothing but TMA copies, the arrival stands in front of
them, as in a kernel written by hand, and `commit` leaves nothing to do.
"""

from __future__ import annotations

from typing import Any

from ...ir.ops import is_pure
from ..tlx.barrier import MOST_BYTES
from .gpu.copy import start_tile_load
from .pipe_record import PipeRecord

_VIEWS = ("buffer_index", "buffer_slice", "buffer_trans", "buffer_reinterpret")


class Window:
    """A slot that the writer holds. Meets `tle.gpu.copy.PipeWindow`."""

    def __init__(self, record: PipeRecord, full: Any, buffers: dict, builder):
        self.record, self.full, self.buffers, self.builder = record, full, buffers, builder
        self.block = builder.get_insertion_block()
        self.announced: list = []  # the ops that say how many bytes a TMA copy brings
        self.transports: dict[str, str] = {}  # field -> how this chunk fills it

    def holds(self, buffer) -> bool:
        """True if the buffer is a field of the slot, or a view of one."""
        return self._field(buffer.handle) is not None

    def _field(self, handle) -> str | None:
        """The name of the field that a handle is, or is a view of."""
        log = self.builder.log
        while True:
            for name, field in self.buffers.items():
                if field.handle is handle:
                    return name
            maker = next((op for op in reversed(log) if handle in op.results), None)
            if maker is None or maker.name not in _VIEWS:
                return None
            handle = maker.args[0]

    def load_tile(self, desc, offsets: tuple, buffer, semantic) -> None:
        """Start a TMA copy that completes on the pipe's full barrier."""
        self._filled(buffer, "TMA")
        self.announced.append(self.builder.record("barrier_bytes", self.full, desc.handle.get_type().block_bytes))
        start_tile_load(desc, offsets, self.full, buffer, semantic)

    def load_pointers(self, pointers, mask, buffer, semantic) -> None:
        """Start cp.async copies, which `commit` waits for."""
        self._filled(buffer, "pointers")
        self.record.by_threads = True
        policy = self.builder.get_cache_policy("none", "evict_normal")
        where = None if mask is None else mask.handle
        self.builder.record("async_load", pointers.handle, buffer.handle, where, None, policy, False)

    def _filled(self, buffer, transport: str) -> None:
        name = self._field(buffer.handle)
        had = self.transports.setdefault(name, transport)
        if had != transport:
            raise ValueError(f"{self.record.label}: field {name!r} is filled by {had} and by {transport} in one chunk; order "
                             "between them is not kept, so fill a field in one way")

    def publish(self) -> None:
        """Record what makes the chunk complete: one arrival after all that was written, and the bytes under way."""
        builder, here = self.builder, self.builder.get_insertion_block()
        certain = [op for op in self.announced if here is self.block and op.block is here and op in here.ops]
        total = sum(op.args[1] for op in certain)
        if total > MOST_BYTES:
            raise ValueError(f"{self.record.label}: {total} bytes a chunk are more than the {MOST_BYTES} that a barrier counts")
        since = here.ops[here.ops.index(certain[0]):] if certain else []
        self._check_pointers(here)
        if certain and len(certain) == len(self.announced) and all(is_pure(op.name) or op.name == "tma_load" or op in certain
                                                                    for op in since):
            builder.restore_insertion_point((here, certain[0]))
            builder.record("barrier_expect", self.full, total, None)
            builder.set_insertion_point_to_end(here)
        else:
            if self.record.by_threads:
                group = builder.record("async_commit", ()).results[0]
                builder.record("async_wait", 0, (group, ))
            builder.record("fence", "async_shared")
            if total:
                builder.record("barrier_expect", self.full, total, None)
            else:
                builder.record("barrier_arrive", self.full, 1, None)
        for op in certain:
            here.ops.remove(op)

    def _check_pointers(self, here) -> None:
        """Refuse pointers into a field that a TMA copy of the same chunk fills: nothing orders the two."""
        tiles = [name for name, transport in self.transports.items() if transport == "TMA"]
        if not tiles or here is not self.block:
            return
        for op in here.ops[here.ops.index(self.announced[0]) if self.announced[0] in here.ops else 0:]:
            for used in _pointed_into(op):
                if (name := self._field(used)) in tiles:
                    raise ValueError(f"{self.record.label}: field {name!r} is filled by TMA and touched through local_ptr in one "
                                     "chunk; the copy is complete only for who waits, so fill a field in one way")


def _pointed_into(op):
    """Buffers that the op, or an op in it, makes pointers into."""
    if op.name == "local_ptr":
        yield op.args[0]
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from _pointed_into(inner)


def open_window(window: Window) -> None:
    """From here on copies into the slot are the window's."""
    window.builder.pipe_windows.append(window)


def close_window(record: PipeRecord, full: Any, builder) -> Window:
    """The innermost open window of the pipe, closed; an empty one if it was opened where it cannot be seen from here."""
    for window in reversed(builder.pipe_windows):
        if window.record is record:
            builder.pipe_windows.remove(window)
            return window
    return Window(record, full, {}, builder)
