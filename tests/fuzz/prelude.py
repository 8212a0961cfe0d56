"""What the numpy side of a program is written in; this file's text is part of every program that is written out.

A program's numpy side is a generator, one for each CTA, that stops (`yield`) where the CTAs of a cluster meet. `read` runs them
all; it gives how often each channel was used by the CTA that used it most, which the mutator asks for.

    counts = read(program, grid, cluster, {"x0": x, "y0": y, ..})
"""

import math

import ml_dtypes
import numpy as np

COUNTS, USED = {}, [ml_dtypes, math]


def filled(fill, shape, dtype):
    """A fresh array: ("zeros",); ("ints", low, high, seed); ("listed", numbers), over and over; ("edges", seed, without): numbers
    at which a type's arithmetic turns, but for the kinds in `without`."""
    dtype = np.dtype(dtype)
    if fill[0] == "zeros":
        return np.zeros(shape, dtype)
    if fill[0] == "ints":
        return np.random.default_rng(fill[3]).integers(fill[1], fill[2] + 1, shape).astype(dtype)
    size = math.prod(shape)
    pool = np.array(fill[1], dtype) if fill[0] == "listed" else edges(dtype, *fill[1:])
    return np.resize(pool, size).reshape(shape)


def edges(dtype, seed, without=()):
    """The numbers at which a type's arithmetic turns, and as many others, shuffled."""
    random = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.integer):
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        near = [low, low + 1, high, high - 1, high // 2, high // 2 + 1, 0, 1, 2, 3, 5, 7, low // 2, *(-1, -2, -7) * (low < 0)]
        pool = np.array([*near, *(int(bits) % (high - low + 1) + low for bits in random.integers(0, 1 << 62, 48))], dtype)
        return random.permutation(pool)
    facts = ml_dtypes.finfo(dtype)
    top, tiny, least, step = (float(one) for one in (facts.max, facts.tiny, facts.smallest_subnormal, facts.eps))
    kinds = {
        "zero": [0.0, -0.0],
        "nan": [np.nan] * 2,
        "inf": [np.inf, -np.inf] * 2,
        "subnormal": [least, -least, 3 * least, tiny - least],
        "small": [tiny, -tiny, 2 * tiny],
        "large": [top, -top, top * (1 - step)],
        "": [1.0, -1.0, 0.5, -0.5, 1 + step, 1 - step, 1.5, 2.5, -2.5, 3.5, 255.5, 256.0, 1 / 3],
    }
    pool = [one for name, numbers in kinds.items() if name not in without for one in numbers]
    drawn = random.standard_normal(40) * 2.0 ** random.integers(-9, 10, 40)
    with np.errstate(all="ignore"):
        pool = np.array([*pool, *np.clip(drawn, -top, top)]).astype(dtype)
    return random.permutation(pool)


def wide(value):
    """The same numbers in 64 bits, for arithmetic that neither wraps nor rounds."""
    value = np.asarray(value)
    return value.astype(np.int64 if np.issubdtype(value.dtype, np.integer) or value.dtype == bool else np.float64)


def cast(value, dtype):
    """As another type: integers wrap, floats lose their fraction on the way to integers."""
    value = np.asarray(value)
    if np.issubdtype(dtype, np.integer) and not np.issubdtype(value.dtype, np.integer):
        value = value.astype(np.int64)
    with np.errstate(all="ignore"):
        return value.astype(dtype)


def quotient(value, by):
    """Division of integers as C has it: towards zero."""
    value = wide(value)
    return np.where(value < 0, -(-value // by), value // by)


def rest(value, by):
    return wide(value) - quotient(value, by) * by


def take(array, index, shape, *_):
    """Tile number `index` of an array that is one tile after the other."""
    size = math.prod(shape)
    return array.reshape(-1)[index * size : (index + 1) * size].reshape(shape).copy()


def put(array, index, value, where=None):
    """Write tile number `index`, or the elements of it that `where` picks."""
    value = np.asarray(value)
    part = array.reshape(-1)[index * value.size : (index + 1) * value.size].reshape(value.shape)
    part[...] = value if where is None else np.where(where, value, part)


def replaced(whole, box, part):
    whole = whole.copy()
    whole[box] = part
    return whole


def swizzled(i, j, rows=4, columns=4, group=2):
    """tl.swizzle2d as one number, row * 4 + column."""
    position, together = i * columns + j, group * columns
    first = position // together * group
    group = min(rows - first, group)
    position %= together
    return (first + position % group) * 4 + position // group


def halvings(number):
    return int(number).bit_length()


def seen(channel):
    """One use of a channel by the CTA that runs."""
    COUNTS[channel] = COUNTS.get(channel, 0) + 1


def read(program, grid, cluster, arguments):
    """Run the CTAs one cluster after the other, and those of a cluster from meeting to meeting."""
    most = {}
    for first in range(0, math.prod(grid), cluster):
        peers = [{} for _ in range(cluster)]
        running = [(rank, {}, program(first + rank, rank, peers, **arguments)) for rank in range(cluster)]
        while running:
            left = []
            for rank, counts, one in running:
                COUNTS.clear()
                COUNTS.update(counts)
                try:
                    next(one)
                    left.append((rank, dict(COUNTS), one))
                except StopIteration:
                    for name, count in COUNTS.items():
                        most[name] = max(most.get(name, 0), count)
            running = left
    return most
