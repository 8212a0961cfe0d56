"""Boxes of pixels that a tensor map in im2col mode walks through: which pixels one copy brings, in which order.

Input: the box of the map, then where a copy begins and how many pixels it takes. Output: runs of neighbours along the last spatial
dimension. For example, of two images of 4 x 4 pixels with a border of one in front, [-1, 2] in both dimensions:

    box = PixelBox((-1, -1), (-1, -1), (1, 1))
    list(box.runs((4, 4), (0, 1, 2), (0, 0), 16))       [((0, 1, 2), 1), ((0, 2, -1), 4), ((1, -1, -1), 4), ((1, 0, -1), 4), ..]

PTX ISA, "Tensors", "im2col mode", and CUDA driver API, `cuTensorMapEncodeIm2col`: the corners are those of a box in each image, the
lower one from the image's first pixel on, the upper one from its last; the offsets of a copy move the box and its first pixel. From
there TMA goes on along the last dimension; behind the box's edge it starts again at the lower corner, one step further in the
dimension before; behind all of them in the next image. Pixels of the box that lie outside of the image count as outside of the
tensor. Steps leave pixels out, and not fewer come for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

RANKS = 3, 5        # of the tensor: images, one to three spatial dimensions, channels
OFFSET_BITS = {1: 16, 2: 8, 3: 5}       # of the offsets of a copy, by the number of spatial dimensions
_MOST = {1: (-(1 << 15), (1 << 15) - 1), 2: (-128, 127), 3: (-16, 15)}      # of corners, by the same
_STEPS = 1, 8


@dataclass(frozen=True)
class PixelBox:
    """`lower` and `upper`: the corners; `steps` from pixel to pixel; each along the spatial dimensions."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]

    def edges(self, extents: Sequence[int], moved: Sequence[int]) -> list[tuple[int, int]]:
        """The first and the last place along each spatial dimension of images of these extents, the box moved by so much."""
        return [(low + by, extent - 1 + high + by) for low, high, extent, by in zip(self.lower, self.upper, extents, moved)]

    def outside(self, extents: Sequence[int], start: Sequence[int]) -> bool:
        """True if a copy that begins at (image, places) begins outside of the box."""
        return any(not low <= at <= high for at, (low, high) in zip(start[1:], self.edges(extents, (0, ) * len(extents))))

    def runs(self, extents: Sequence[int], start: Sequence[int], moved: Sequence[int],
             count: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """Runs of neighbouring pixels for `count` pixels from `start` on: their first ones, (image, places), and their lengths."""
        edges = self.edges(extents, moved)
        at = [start[0], *(place + by for place, by in zip(start[1:], moved))]
        while count:
            neighbours = edges[-1][1] - at[-1] + 1 if self.steps[-1] == 1 else 1
            run = min(neighbours, count)
            yield tuple(at), run
            count -= run
            at[-1] += run * self.steps[-1]
            for axis in range(len(edges), 0, -1):
                if at[axis] > edges[axis - 1][1]:
                    at[axis] = edges[axis - 1][0]
                    at[axis - 1] += self.steps[axis - 2] if axis > 1 else 1


def box_of(argument: Any, rank: int) -> PixelBox | str:
    """The box of a descriptor that Gluon made for a tensor of that rank; what is wrong with it, if it cannot be."""
    corners = [getattr(argument, name, None) for name in ("pixel_box_lower_corner", "pixel_box_upper_corner")]
    if None in corners:
        return "it has no box of pixels, and the kernel copies in im2col mode"
    if not RANKS[0] <= rank <= RANKS[1]:
        return f"it has {rank} dimensions, and im2col mode takes {RANKS[0]} to {RANKS[1]}"
    steps, low, high = tuple(argument.element_strides or (1, ) * rank), *_MOST[rank - 2]
    if any(len(corner) != rank - 2 for corner in corners) or not all(low <= at <= high for corner in corners for at in corner):
        return f"the corners of its box are {rank - 2} numbers each, {low} to {high}, and here {corners[0]} and {corners[1]}"
    if len(steps) != rank or steps[0] != 1 or steps[-1] != 1 or not all(_STEPS[0] <= step <= _STEPS[1] for step in steps):
        return f"its steps are {steps}; those of images and channels are 1, those of pixels {_STEPS[0]} to {_STEPS[1]}"
    extents, box = tuple(argument.shape)[1:-1], PixelBox(*(tuple(map(int, corner)) for corner in corners), steps[1:-1])
    if any(last < first for first, last in box.edges(extents, (0, ) * len(extents))):
        return f"its box, {corners[0]} to {corners[1]}, has no pixel in images of {extents}"
    return box
