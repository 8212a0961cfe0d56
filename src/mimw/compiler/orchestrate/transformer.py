"""The task that transforms: it reads a slot that the producer filled, computes, and stores the tile to a slot that products read.

Input: a plain program, the slice of the tiles that it computes, and the rings. Output: the ops of the task. For example:

    y = f(w.load(..)); acc = dot(x, y)      wait raw chunk; t = local_load slot; release it; t = f(t);
                                            acquire chunk; local_store slot, t; commit

A raw slot is given back as soon as it is in registers. The tensor core reads the tile in the asynchronous proxy, and the producer
writes the next raw chunk there: the fences that this takes the compiler puts in (`passes.fence_deliveries`, `.fence_handovers`).
"""

from __future__ import annotations

from ...ir import I1, Tensor, Value
from ...ir.layouts import ThreadValue
from .rebuild import Rebuild
from .rings import Ring

BYTES = 16      # of a row that a thread stores at a time


def in_rows(tile: Tensor, threads: int) -> ThreadValue | None:
    """The layout in which each thread has pieces of rows, and threads that follow each other the pieces that do; None if there are
    too few for so many threads. Triton's passes take it back to the read, so that pairs are joined in registers: by default a
    thread has single elements, which are stored one by one, and pairs go through shared memory."""
    if len(tile.shape) != 2:
        return None
    (rows, columns), each = tile.shape, max(1, BYTES * 8 // tile.element.bits)
    across = columns // each
    if not across or across > threads or rows * across < threads:
        return None
    down = threads // across
    return ThreadValue(((across, each), (down, columns)), ((each, 1), (rows // down, columns * down)))


class Transformer(Rebuild):
    """Writes the task between the producer and the consumers, which has so many `threads`."""

    threads = 128

    def chunk(self, ring: Ring) -> None:
        if ring.made:
            self._made(ring)
        else:
            self._raw(ring)

    def _raw(self, ring: Ring) -> None:
        load, = ring.loads
        pipe, number, views = ring.root.pipe, self.counters[ring.root], self.views(ring)
        self.word("pipe_wait", (pipe, number), (*views, Value(I1)), load.site)
        tile = self.writer.emit("local_load", (views[0], None), load.site, label=load.result.name, layout=None)
        self.env[load.result] = tile
        self.word("pipe_release", (pipe, number, None), (), load.site)
        self.next_chunk(ring, load.site)

    def _made(self, ring: Ring) -> None:
        op, = ring.loads
        self.copy(op)
        if (layout := in_rows(op.result.type, self.threads)) is not None:
            self.env[op.result] = self.writer.emit("require_layout", (self.now(op.result), layout, True), op.site,
                                                   label=op.result.name)
        pipe, number, views = ring.root.pipe, self.counters[ring.root], self.views(ring)
        self.word("pipe_acquire", (pipe, number), views, op.site)
        self.writer.emit("local_store", (views[0], self.now(op.result)), op.site)
        self.word("pipe_commit", (pipe, number), (), op.site)
        self.next_chunk(ring, op.site)
