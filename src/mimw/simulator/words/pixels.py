"""Copies by a tensor map in im2col mode: pixels of images, one a row of the tile.

Input: a task at `tma_load_pixels`. Output: an operation in flight. For example:

    tma_load_pixels %images (%n, %h, %w, %c) (%r, %s) %full %tile       64 pixels, from that one on, each with 32 of its channels

Which pixels these are says `memory/pixel_boxes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...errors import IllegalCopy, SimulatorMisuse, fail
from ..costs.abstract import TMA_LATENCY
from ..machine.operands import enabled, offsets_of
from ..machine.table import handles
from ..machine.tasks import InFlight
from ..memory.mbarriers import single
from ..memory.pixel_boxes import OFFSET_BITS
from ..memory_model import ASYNC
from .copies import check_corner, issue


@handles("tma_load_pixels", switches=True)
def tma_load_pixels(task, op):
    if not enabled(task, op, op.predicate):
        return
    descriptor, view, barrier = task.env[op.descriptor], task.env[op.buffer], single(task, op, op.barrier)
    runs, size = list(_runs(task, op, descriptor)), view.data.nbytes
    if tuple(descriptor.block) != tuple(view.data.shape):
        raise fail(SimulatorMisuse, task, op, f"the descriptor's block is {tuple(descriptor.block)} and {view.name} is "
                   f"{view.data.shape}")

    def land(copy: InFlight) -> None:
        rows = [descriptor.read(task.memory, start, task, op, block).reshape(-1, block[-1]) for start, block in runs]
        view.arrive(copy, np.concatenate(rows))
        barrier.complete(copy, size)

    copy = issue(task, op, "TMA load", "TMA", size, TMA_LATENCY, land, view.name, destination=view, lands_by=barrier.landing())
    for start, block in runs:
        descriptor.touch(copy, op, task.memory, start, write=False, block=block)
    view.touch(copy, op, write=True, proxy=ASYNC)
    barrier.expect(copy)
    view.expect(copy)


def _runs(task, op, descriptor) -> Iterator[tuple[list[int], tuple[int, ...]]]:
    """Runs of pixels: the place in the tensor at which each begins, and its block there."""
    *start, channel = offsets_of(task, op, op.offsets)
    moved = [by & 0xffff for by in offsets_of(task, op, op.moved)]
    (count, channels), extents = descriptor.block, descriptor.shape[1:-1]
    if len(start) != len(extents) + 1 or len(moved) != len(extents):
        raise fail(SimulatorMisuse, task, op, f"{len(start) + 1} coordinates and {len(moved)} offsets, and the tensor has "
                   f"{len(descriptor.shape)} dimensions")
    check_corner(task, op, descriptor, [*start, channel])
    if descriptor.pixels.outside(extents, start):
        edges = descriptor.pixels.edges(extents, (0, ) * len(extents))
        box = " x ".join(f"[{low}, {high}]" for low, high in edges)
        raise fail(IllegalCopy, task, op, f"its first pixel, {tuple(start[1:])}, lies outside of the box of pixels, {box}: no "
                   "manual says where TMA goes on from there",
                   hint="begin at a pixel of the box; the offsets move box and pixel together")
    if max(moved) >> (bits := OFFSET_BITS[len(extents)]):
        raise fail(IllegalCopy, task, op, f"its offsets, as numbers without a sign, are {tuple(moved)}, and for {len(extents)} "
                   f"spatial dimensions they end at {2**bits - 1}", hint="put what is negative into the lower corner of the box")
    for at, run in descriptor.pixels.runs(extents, start, moved, count):
        yield [*at, channel], (*(1, ) * len(extents), run, channels)
