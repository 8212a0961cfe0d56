"""What several GPUs take, as formulas: microseconds of p ranks, from constants that were measured between two.

    c = constants([json.loads(line) for line in ROWS.read_text().splitlines()])
    all_gather(c, 8, 64 << 20)              microseconds of 64 MiB on 8 GPUs
    dispatch(c, 4, 4096, 7168, 8)           of 4096 tokens of 7168 numbers a rank, each to 8 experts

Input: the rows of benchmarks/distributed_constants.py; what has not been measured are parameters of `Constants`. Output: times.
docs/SCALING.md says what the formulas leave out.
"""

from __future__ import annotations

from dataclasses import dataclass

FLOPS, DRAM = 650e6, 4.3e6      # a GPU's bf16 products, and its memory, an us: docs/performance.md, costs/sm_90a.toml


@dataclass(frozen=True)
class Constants:
    """Microseconds and bytes a microsecond.

    signal, barrier   from a release at a peer's word to the end of its wait; from the last rank's arrival at a barrier to its end
    link              bytes a us out of a GPU, and into one, by puts while the other direction is at work; `sms` fill it
    domain            how many GPUs have such links to each other
    network, far      bytes a us of a GPU's way out of the domain, and us of a message there: parameters, not measured
    memory            bytes a us of a GPU's memory
    """

    signal: float
    barrier: float
    link: float
    sms: int
    of: int
    domain: int = 8
    network: float = 50e3
    far: float = 5.0
    memory: float = DRAM

    def nodes(self, ranks: int) -> int:
        """How many domains the ranks fill."""
        return max(1, ranks // self.domain)

    def within(self, ranks: int) -> int:
        """How many ranks of a domain take part."""
        return min(ranks, self.domain)


def constants(rows: list[dict]) -> Constants:
    """The figures that the rows of benchmarks/distributed_constants.py say, of the newest date."""
    newest = max(row["date"] for row in rows)
    rows = [row for row in rows if row["date"] == newest and row.get("right", True)]

    def one(name: str, **facts) -> dict:
        return next(row for row in rows if row["name"] == name and all(row.get(key) == value for key, value in facts.items()))

    puts = {row["sms"]: row["gb_per_s"] for row in rows if row["name"] == "bandwidth" and row["direction"] == "put"
            and row["both"] and row["way"] == "TMA"}
    most = max(puts)
    fills = min(sms for sms, rate in puts.items() if rate > 0.95 * puts[most])
    return Constants(one("signal")["one_way_us"], one("world_barrier", programs=most)["us"], puts[most] * 1e3, fills, most)


def all_gather(c: Constants, p: int, size: float) -> float:
    """Every rank gets `size` bytes, of which it has 1/p: from its likes of the other domains first, then from its own domain."""
    nodes, near = c.nodes(p), c.within(p)
    inside = size * (near - 1) / near / c.link
    outside = size * (nodes - 1) / p / c.network
    return max(inside, outside) + c.signal + (c.far if nodes > 1 else 0.0)


reduce_scatter = all_gather     # the same bytes the other way round


def one_shot(c: Constants, p: int, size: float) -> float:
    """Every rank puts all it has at every other one, and adds up p parts."""
    nodes, near = c.nodes(p), c.within(p)
    return max(size * (near - 1) / c.link, size * (p - near) / c.network) + p * size / c.memory + c.signal + (
        c.far if nodes > 1 else 0.0)


def two_shot(c: Constants, p: int, size: float) -> float:
    """A reduce-scatter in the domain, a sum of the parts across domains, an all-gather in the domain."""
    nodes, near = c.nodes(p), c.within(p)
    inside = 2 * (c.signal + size * (near - 1) / near / c.link) + size / c.memory
    across = 2 * (c.far + size / near * (nodes - 1) / nodes / c.network) if nodes > 1 else 0.0
    return inside + across


def crossover(c: Constants, p: int) -> float:
    """The bytes up to which one shot is faster than two, in a domain of p."""
    low, high = 1.0, 1e9
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if one_shot(c, p, middle) <= two_shot(c, p, middle) else (low, middle)
    return low


def product(m: float, n: float, k: float, sms: int = 0, of: int = 132) -> float:
    """A product of bf16 by what the copies leave of the SMs."""
    return 2 * m * n * k / FLOPS * of / (of - sms)


def gathered_product(c: Constants, p: int, m: int, n: int, k: int, sms: int) -> float:
    """C[p m, n] = A[p m, k] B[k, n], of whose A every rank has m rows: tiles of what has come are computed while the rest comes."""
    whole = product(p * m, n, k, sms, c.of)
    return max(whole, all_gather(c, p, 2.0 * p * m * k) + whole / p)


def scattered_product(c: Constants, p: int, m: int, n: int, k: int, sms: int) -> float:
    """C[p m, n] = A[p m, k / p] B[k / p, n] summed over ranks, of which every rank keeps m rows."""
    whole = product(p * m, n, k / p, sms, c.of)
    size = 2.0 * p * m * n
    return max(whole, reduce_scatter(c, p, size) + whole / p) + size / c.memory


def sent(p: int, chosen: int) -> float:
    """Of a token's row, the share that goes to one other rank: it goes once where any of its experts is, evenly spread over p."""
    return 1 - (1 - 1 / p)**chosen


def dispatch(c: Constants, p: int, tokens: int, hidden: int, chosen: int) -> float:
    """A row of bf16 goes once to each rank that has an expert of its token; combine sends a sum as long back, so takes as long."""
    near, size = c.within(p), 2.0 * tokens * hidden * sent(p, chosen)
    far = size * (p - near) / c.network + c.far if p > near else 0.0
    return max(size * (near - 1) / c.link + c.signal, far)


def ring_attention(c: Constants, p: int, rows: int, heads: int, groups: int, dim: int) -> float:
    """`rows` of a sequence at each rank, full attention: in p steps keys and values go once around."""
    step = 4.0 * rows * rows * heads * dim / FLOPS
    slowest = c.network if c.nodes(p) > 1 else c.link
    passed = 2 * 2.0 * rows * groups * dim / slowest + c.signal + (c.far if c.nodes(p) > 1 else 0.0)
    return p * step if p == 1 else step + (p - 1) * max(step, passed)
