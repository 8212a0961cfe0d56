"""Sort the tokens of a mixture of experts by expert, each expert's list padded to whole blocks: one launch, in three
forms.

Input: the expert of each token. Output: sorted token numbers, the expert of each block, the length in use, and, where
`places_ptr` is given, the place of each token among the sorted. For example, for three tokens and BS = 2:

    ids 0 2 0          tokens 0 2 1 3 (3 is the sentinel), the blocks' experts 0 2, and 4, the length in use

Every program counts its tokens by expert in shared memory, learns the counts of the programs before it, and writes its
tokens behind theirs. The programs exchange one number an expert:

    grid       as many programs as tokens ask for; each adds to counters in global memory by an atomic, which gives the
               count from before; barriers of the whole grid (a cooperative launch)
    cluster    the 8 CTAs of one cluster add to counters in the shared memory of CTA 0; barriers of the cluster:
               quicker, but 8 SMs only. With PULL each CTA reads the counts of all eight: more reads, no atomics and
               a barrier less
    alone      one program takes all tiles and exchanges nothing, so any chip runs it; it is for few tokens

All padding, with the unused end, is E (BS - 1) elements: only these are filled with the sentinel, and nothing is
written twice. The token at the first place of a block writes the block's expert; every block in use has such a token.
"""

from typing import Any

import triton
import triton.language as tl

import mimw
import mimw.tle as tle

GRID = tle.device_mesh({"block": 1})  # a mesh of blocks is the whole grid, however many they are
CLUSTER = tle.device_mesh({"cluster": 8})


@tle.struct
class Form:
    """Constants: E experts, blocks of BS tokens, tiles of BLOCK tokens; ONE_TILE: no program has more than one."""
    E: tl.constexpr
    BS: tl.constexpr
    BLOCK: tl.constexpr
    ONE_TILE: tl.constexpr


@tle.struct
class Problem:
    """The experts of `numel` tokens, to be sorted into blocks, `length` places in all. Program number `me` takes each `programs`-th
    tile."""
    ids: tl.tensor
    numel: Any
    length: Any
    me: Any
    programs: Any
    FORM: tl.constexpr


@tle.struct
class Outputs:
    """Sorted tokens, the expert of each block, the length in use, and, or None, the place of each token."""
    tokens: tl.tensor
    experts: tl.tensor
    total: tl.tensor
    places: tl.tensor | None


@mimw.jit
def count(problem, counts, first):
    """Add one tile of tokens to `counts`; (their experts, what each token found counted of its own expert)."""
    at = first + tl.arange(0, problem.FORM.BLOCK)
    ids = tl.load(problem.ids + at, mask=at < problem.numel, other=0).to(tl.int32)
    return ids, tl.atomic_add(tle.gpu.local_ptr(counts, (ids, )), 1, mask=at < problem.numel)


@mimw.jit
def place(ids, position, first, problem, out):
    """Write one tile of tokens to its positions, its positions if somebody wants them, and the expert of each block that one of
    the tokens begins."""
    at = first + tl.arange(0, problem.FORM.BLOCK)
    tl.store(out.tokens + position, at, mask=at < problem.numel)
    if out.places is not None:
        tl.store(out.places + at, position, mask=at < problem.numel)
    tl.store(out.experts + position // problem.FORM.BS, ids, mask=(at < problem.numel) & (position % problem.FORM.BS == 0))


@mimw.jit
def pad(starts, counts, padded, total, problem, out):
    """This program's share of the sentinels behind each expert's tokens and of what is left behind all of them."""
    BS: tl.constexpr = problem.FORM.BS
    BLOCK: tl.constexpr = problem.FORM.BLOCK
    for column in range(problem.me, BS - 1, problem.programs):
        tl.store(out.tokens + starts + counts + column, problem.numel, mask=counts + column < padded)
    lane = tl.arange(0, BLOCK)
    for first in range(total + problem.me * BLOCK, problem.length, problem.programs * BLOCK):
        tl.store(out.tokens + first + lane, problem.numel, mask=first + lane < problem.length)
    blocks = tl.cdiv(problem.length, BS)
    for first in range(total // BS + problem.me * BLOCK, blocks, problem.programs * BLOCK):
        tl.store(out.experts + first + lane, 0, mask=first + lane < blocks)


@mimw.jit
def count_all(problem, counts):
    """Count this program's tiles; of an only tile the tokens stay in registers, as (experts, ranks)."""
    if problem.FORM.ONE_TILE:
        return count(problem, counts, problem.me * problem.FORM.BLOCK)
    for first in range(problem.me * problem.FORM.BLOCK, problem.numel, problem.programs * problem.FORM.BLOCK):
        count(problem, counts, first)
    return 0, 0


@mimw.jit
def write_all(ids, rank, counts, before, places, problem, out):
    """All outputs, from `counts` of all programs and `before` of those before this one; `places` is room in shared memory."""
    padded = tl.cdiv(counts, problem.FORM.BS) * problem.FORM.BS
    starts, total = tle.cumsum(padded)
    tl.store(tle.gpu.local_ptr(places), starts + before)
    if problem.FORM.ONE_TILE:
        first = problem.me * problem.FORM.BLOCK
        inside = first + tl.arange(0, problem.FORM.BLOCK) < problem.numel
        position = tl.load(tle.gpu.local_ptr(places, (ids, )), mask=inside, other=0) + rank
        place(ids, position, first, problem, out)
    else:
        for first in range(problem.me * problem.FORM.BLOCK, problem.numel, problem.programs * problem.FORM.BLOCK):
            tile, position = count(problem, places, first)
            place(tile, position, first, problem, out)
    pad(starts, counts, padded, total, problem, out)
    if problem.me == 0:
        tl.store(out.total, total)


@mimw.jit
def grid_form(ids_ptr, sorted_ptr, experts_ptr, total_ptr, counters_ptr, numel, length, places_ptr, FORM: tl.constexpr,
              mesh: tl.constexpr):
    """Program p takes the tiles p, p + programs, ...; `counters_ptr` is room for E numbers, whatever they are."""
    E: tl.constexpr = FORM.E
    BINS: tl.constexpr = triton.next_power_of_2(E)
    me, programs = tl.program_id(0), tl.num_programs(0)
    expert = tl.arange(0, BINS)
    mine = tle.gpu.alloc([BINS], tl.int32)
    tl.store(tle.gpu.local_ptr(mine), tl.zeros([BINS], tl.int32))
    if me == 0:
        tl.store(counters_ptr + expert, 0, mask=expert < E)
    problem = Problem(ids_ptr, numel, length, me, programs, FORM)
    ids, rank = count_all(problem, mine)
    tle.distributed_barrier(mesh)  # the counters are zero
    before = tl.atomic_add(counters_ptr + expert, tl.load(tle.gpu.local_ptr(mine)), mask=expert < E, sem="relaxed")
    tle.distributed_barrier(mesh)  # the counters are complete
    counts = tl.load(counters_ptr + expert, mask=expert < E, other=0, cache_modifier=".cg")
    write_all(ids, rank, counts, before, mine, problem, Outputs(sorted_ptr, experts_ptr, total_ptr, places_ptr))


@mimw.jit
def cluster_form(ids_ptr, sorted_ptr, experts_ptr, total_ptr, numel, length, places_ptr, FORM: tl.constexpr, PULL: tl.constexpr,
                 mesh: tl.constexpr):
    """The same by one cluster, through each other's shared memory."""
    BINS: tl.constexpr = triton.next_power_of_2(FORM.E)
    SIZE: tl.constexpr = mesh.size
    me = tle.shard_id(mesh, "cluster")
    mine, other = tle.gpu.alloc([BINS], tl.int32), tle.gpu.alloc([BINS], tl.int32)
    tl.store(tle.gpu.local_ptr(mine), tl.zeros([BINS], tl.int32))
    if not PULL:
        tl.store(tle.gpu.local_ptr(other), tl.zeros([BINS], tl.int32))
    problem = Problem(ids_ptr, numel, length, me, SIZE, FORM)
    ids, rank = count_all(problem, mine)
    tle.distributed_barrier(mesh)
    if PULL:
        counts, before = tl.zeros([BINS], tl.int32), tl.zeros([BINS], tl.int32)
        for cta in tl.static_range(SIZE):
            found = tl.load(tle.gpu.local_ptr(tle.remote(mine, cta, mesh)))
            counts += found
            before += tl.where(cta < me, found, 0)
        places = other  # the others may still read `mine`
    else:
        counters = tle.gpu.local_ptr(tle.remote(other, 0, mesh))
        before = tl.atomic_add(counters, tl.load(tle.gpu.local_ptr(mine)), sem="relaxed")
        tle.distributed_barrier(mesh)
        counts = tl.load(counters)
        places = mine
    write_all(ids, rank, counts, before, places, problem, Outputs(sorted_ptr, experts_ptr, total_ptr, places_ptr))


@mimw.jit
def alone_form(ids_ptr, sorted_ptr, experts_ptr, total_ptr, numel, length, places_ptr, FORM: tl.constexpr):
    """The same by one program, which has all counts itself."""
    mine = tle.gpu.alloc([triton.next_power_of_2(FORM.E)], tl.int32)
    tl.store(tle.gpu.local_ptr(mine), tl.zeros([triton.next_power_of_2(FORM.E)], tl.int32))
    problem = Problem(ids_ptr, numel, length, 0, 1, FORM)
    ids, rank = count_all(problem, mine)
    counts = tl.load(tle.gpu.local_ptr(mine))
    write_all(ids, rank, counts, 0, mine, problem, Outputs(sorted_ptr, experts_ptr, total_ptr, places_ptr))
