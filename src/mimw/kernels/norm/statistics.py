"""Mean and variance of a row whose parts are in several CTAs: each sends two numbers to all others, and all put them together.

Input: the parts of one CTA in registers. Output: mean and variance of the row, in each CTA of the cluster. For example:

    mean, squares = part_statistics(xs, inside, count, CENTRED)               of this CTA's `count` columns
    send_pair(exchange.at(place), mean, squares)
    mean, variance = row_statistics(exchange.at(place), phase, N, BLOCK)

Nowhere is E[x^2] - E[x]^2, which loses all digits where the mean is large: squares are summed about a mean of the part, and
parts are joined by Chan's rule. Of RMSNorm (not CENTRED) the mean is 0 throughout.
"""

import triton.language as tl

import mimw

from .exchange import received_pairs


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
def row_statistics(place, phase, N, BLOCK: tl.constexpr):
    """(mean, variance) of the whole row of N columns, of which each CTA has BLOCK or what is left."""
    means, squares = received_pairs(place, phase)
    counts = tl.maximum(tl.minimum(N - tl.arange(0, place.CLUSTER) * BLOCK, BLOCK), 0)
    mean = tl.sum(means * counts) / N
    return mean, tl.sum(squares + (means - mean) * (means - mean) * counts) / N


@mimw.jit
def packed(one, other):
    """Two fp32 in 64 bits: a warp writes both to shared memory by one access, behind one barrier."""
    low, high = one.to(tl.uint32, bitcast=True).to(tl.uint64), other.to(tl.uint32, bitcast=True).to(tl.uint64)
    return low | high << 32


@mimw.jit
def unpacked_pair(pair):
    """The two numbers of a packed pair."""
    return pair.to(tl.uint32).to(tl.float32, bitcast=True), (pair >> 32).to(tl.uint32).to(tl.float32, bitcast=True)


@mimw.jit
def pair_added(pair, more):
    """One step of the sums of a pair."""
    return pairs_added(pair, more)[0]


@mimw.jit
def pairs_added(*pairs):
    """One step of the sums of several pairs: those so far, then as many others."""
    totals = ()
    for i in tl.static_range(len(pairs) // 2):
        one, other = unpacked_pair(pairs[i])
        more, another = unpacked_pair(pairs[len(pairs) // 2 + i])
        totals = totals + (packed(one + more, other + another), )
    return totals


@mimw.jit
def all_summed(tiles):
    """The sum of each tile of a tuple of one, or of an even number, two of them by one pass through shared memory."""
    if len(tiles) == 1:
        sums = (tl.sum(tiles[0]), )
    else:
        pairs, sums = (), ()
        for i in tl.static_range(len(tiles) // 2):
            pairs = pairs + (packed(tiles[2 * i], tiles[2 * i + 1]), )
        if len(pairs) == 1:
            sums = unpacked_pair(tl.reduce(pairs[0], 0, pair_added))
        else:
            totals = tl.reduce(pairs, 0, pairs_added)
            for i in tl.static_range(len(totals)):
                sums = sums + unpacked_pair(totals[i])
    return sums
