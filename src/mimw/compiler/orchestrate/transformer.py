"""The task that transforms: it reads a slot that the producer filled, computes, and stores the tile to a slot that products read.

Input: a plain program, the slice of the tiles that it computes, and the rings. Output: the ops of the task. For example:

    y = f(w.load(..)); acc = dot(x, y)      wait raw chunk; t = local_load slot; release it; t = f(t);
                                            acquire chunk; local_store slot, t; commit

A raw slot is given back as soon as it is in registers. The tensor core reads the tile in the asynchronous proxy, and the producer
writes the next raw chunk there: the fences that this takes the compiler puts in (`passes.fence_deliveries`, `.fence_handovers`).
"""

from __future__ import annotations

from ...ir import I1, Value
from .rebuild import Rebuild
from .rings import Ring


class Transformer(Rebuild):
    """Writes the task between the producer and the consumers."""

    def chunk(self, ring: Ring) -> None:
        if ring.made:
            self._made(ring)
        else:
            self._raw(ring)

    def _raw(self, ring: Ring) -> None:
        load, = ring.loads
        pipe, number, views = ring.root.pipe, self.counters[ring.root], self.views(ring)
        self.word("pipe_wait", (pipe, number), (*views, Value(I1)), load.site)
        self.env[load.result] = self.writer.emit("local_load", (views[0], None), load.site, label=load.result.name, layout=None)
        self.word("pipe_release", (pipe, number, None), (), load.site)
        self.next_chunk(ring, load.site)

    def _made(self, ring: Ring) -> None:
        op, = ring.loads
        self.copy(op)
        pipe, number, views = ring.root.pipe, self.counters[ring.root], self.views(ring)
        self.word("pipe_acquire", (pipe, number), views, op.site)
        self.writer.emit("local_store", (views[0], self.now(op.result)), op.site)
        self.word("pipe_commit", (pipe, number), (), op.site)
        self.next_chunk(ring, op.site)
