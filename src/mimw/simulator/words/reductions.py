"""`reduce`, `scan` and `map_elementwise`: a region of scalars, run on whole slices of tiles at once.

Input: a task at such an op. Output: the tiles that it gives. For example:

    reduce of 64 elements      six runs of the region, on 32, 16, 8, 4, 2 and 1 pairs

A region without control flow means the same on arrays as on scalars, so a reduction of N elements takes log2(N) runs of it. A
region with control flow runs once per element.
"""

from __future__ import annotations

import numpy as np

from ...ir import Block
from ..machine.interpreter import run_straight
from ..machine.table import handles
from ..memory.values import numpy_type


def _apply(task, block: Block, inputs) -> list[np.ndarray]:
    """The block's results for `inputs`, arrays of one shape."""
    if not any(op.blocks for op in block.ops):
        return _run(task, block, inputs)
    shape = np.shape(inputs[0])
    rows = [_run(task, block, [value[index] for value in inputs]) for index in np.ndindex(shape)]
    return [np.array([row[k] for row in rows], dtype=numpy_type(value.type)).reshape(shape)
            for k, value in enumerate(block.yielded)]


def _run(task, block: Block, inputs) -> list:
    """Here an array stands for a scalar of the region, in one element for each run: it has nothing to do with threads."""
    for argument, value in zip(block.args, inputs):
        task.env[argument] = value
    apart, task.machine.tells_threads_apart = task.machine.tells_threads_apart, False
    try:
        run_straight(task, task.code(block))
    finally:
        task.machine.tells_threads_apart = apart
    return [task.env[value] for value in block.yielded]


@handles("reduce")
def reduce(task, op):
    """Neighbours first, so the order of elements is kept: all that an associative combination may rely on."""
    parts = [np.moveaxis(task.read(value, op), op.axis, 0) for value in op.values]
    while len(parts[0]) > 1:
        odd = [part[-1:] for part in parts] if len(parts[0]) % 2 else None
        pairs = len(parts[0]) // 2 * 2
        parts = _apply(task, op.blocks[0], [*(part[0:pairs:2] for part in parts), *(part[1:pairs:2] for part in parts)])
        if odd is not None:
            parts = [np.concatenate(both) for both in zip(parts, odd)]
    for result, part in zip(op.results, parts):
        task.env[result] = part[0]


@handles("scan")
def scan(task, op):
    """Hillis and Steele: after the step of distance d, each element covers the 2 d elements that end at it."""
    parts = [np.moveaxis(task.read(value, op), op.axis, 0) for value in op.values]
    parts = [part[::-1] for part in parts] if op.reverse else parts
    distance = 1
    while distance < len(parts[0]):
        new = _apply(task, op.blocks[0], [*(part[:-distance] for part in parts), *(part[distance:] for part in parts)])
        parts = [np.concatenate((part[:distance], rest)) for part, rest in zip(parts, new)]
        distance *= 2
    parts = [part[::-1] for part in parts] if op.reverse else parts
    for result, part in zip(op.results, parts):
        task.env[result] = np.moveaxis(part, 0, op.axis)


@handles("map_elementwise")
def map_elementwise(task, op):
    """`pack` neighbouring elements of each tile are the arguments of one call, and it gives as many of each result."""
    pack, block = op.pack, op.blocks[0]
    tiles = [task.read(value, op) for value in op.values]
    shape = tiles[0].shape
    inputs = [tile.reshape(-1, pack)[:, j] for tile in tiles for j in range(pack)]
    outputs = _apply(task, block, inputs)
    for k, result in enumerate(op.results):
        columns = [np.broadcast_to(column, inputs[0].shape) for column in outputs[k * pack:(k + 1) * pack]]
        task.env[result] = np.stack(columns, axis=-1).reshape(shape)
