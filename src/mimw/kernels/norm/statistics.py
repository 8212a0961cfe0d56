"""Mean and variance of a row whose parts are in several CTAs: each tells all others two numbers, and all put them together.

Input: the parts of one CTA in registers. Output: mean and variance of the row, in each CTA of the cluster. For example:

    mean, squares = part_statistics(xs, inside, count, CENTRED)               of this CTA's `count` columns
    send_statistics(mean, squares, parts[turn], arrived[turn], rank, CLUSTER)
    mean, variance = row_statistics(parts[turn], arrived[turn], phase, N, BLOCK, CLUSTER)

Nowhere is E[x^2] - E[x]^2, which loses all digits where the mean is large: squares are summed about a mean of the part, and
parts are joined by Chan's rule. Of RMSNorm (not CENTRED) the mean is 0 throughout.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def added(tiles):
    """The elementwise sum of a tuple of tiles."""
    total = tiles[0]
    for i in tl.static_range(1, len(tiles)):
        total += tiles[i]
    return total


@mimw.jit
def part_statistics(xs, inside, count, CENTRED: tl.constexpr):
    """(mean, sum of squares about the mean) of `count` numbers in a tuple of tiles, which have zeros where `inside`, a tuple of
    masks or None, is false."""
    mean = 0.0
    if CENTRED:
        mean = tl.sum(added(xs)) / tl.maximum(count, 1)
    squares = ()
    for i in tl.static_range(len(xs)):
        centred = xs[i] - mean if CENTRED else xs[i]
        if CENTRED and inside is not None:
            centred = tl.where(inside[i], centred, 0.0)
        squares = squares + (centred * centred, )
    return mean, tl.sum(added(squares))


@mimw.jit
def send_statistics(mean, squares, parts, arrived, rank, CLUSTER: tl.constexpr):
    """Write this CTA's two numbers into row `rank` of `parts`, of every CTA of the cluster. The bytes of an early sender may come
    before they are expected: a phase ends when arrivals and bytes both add up."""
    both = tl.where(tl.arange(0, 2) == 0, mean, squares)
    tlx.barrier_expect_bytes(arrived, 8 * CLUSTER)
    for cta in tl.static_range(CLUSTER):
        tlx.async_remote_shmem_store(parts[rank], both, cta, arrived)


@mimw.jit
def row_statistics(parts, arrived, phase, N, BLOCK: tl.constexpr, CLUSTER: tl.constexpr):
    """(mean, variance) of the whole row of N columns, of which each CTA has BLOCK or what is left."""
    tlx.barrier_wait(arrived, phase)
    means, squares = tlx.local_load(parts).split()
    counts = tl.maximum(tl.minimum(N - tl.arange(0, CLUSTER) * BLOCK, BLOCK), 0)
    mean = tl.sum(means * counts) / N
    return mean, tl.sum(squares + (means - mean) * (means - mean) * counts) / N


@mimw.jit
def two_added(a, b, c, d):
    """One step of two sums."""
    return a + c, b + d


@mimw.jit
def four_added(a, b, c, d, e, f, g, h):
    """One step of four sums."""
    return a + e, b + f, c + g, d + h


@mimw.jit
def eight_added(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p):  # noqa: E741
    """One step of eight sums."""
    return a + i, b + j, c + k, d + l, e + m, f + n, g + o, h + p


@mimw.jit
def all_summed(tiles):
    """The sum of each of 1, 2, 4 or 8 tiles, all by one pass through shared memory."""
    if len(tiles) == 1:
        sums = (tl.sum(tiles[0]), )
    elif len(tiles) == 2:
        sums = tl.reduce(tiles, 0, two_added)
    elif len(tiles) == 4:
        sums = tl.reduce(tiles, 0, four_added)
    else:
        sums = tl.reduce(tiles, 0, eight_added)
    return sums


@mimw.jit
def tell_sums(sums, parts, arrived, rank, CLUSTER: tl.constexpr):
    """Write these numbers of this CTA's into row `rank` of `parts`, which is as wide as they are many, 2 at least, of every CTA of
    the cluster."""
    COUNT: tl.constexpr = max(2, len(sums))
    places = tl.arange(0, COUNT)
    told = tl.zeros((COUNT, ), tl.float32)
    for i in tl.static_range(len(sums)):
        told = tl.where(places == i, sums[i], told)
    tlx.barrier_expect_bytes(arrived, 4 * COUNT * CLUSTER)
    for cta in tl.static_range(CLUSTER):
        tlx.async_remote_shmem_store(parts[rank], told, cta, arrived)


@mimw.jit
def heard_sums(COUNT: tl.constexpr, parts, arrived, phase):
    """The first COUNT numbers that all CTAs have told, each added up."""
    tlx.barrier_wait(arrived, phase)
    places = tl.arange(0, max(2, COUNT))
    totals, found = tl.sum(tlx.local_load(parts), 0), ()
    for i in tl.static_range(COUNT):
        found = found + (tl.sum(tl.where(places == i, totals, 0.0)), )
    return found
