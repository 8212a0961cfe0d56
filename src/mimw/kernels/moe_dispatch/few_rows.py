"""Few rows that stay where they come, in two generations: who puts them into which without waiting for its owner.

Input: rows in a ring, each in a slot of its own; at each GPU the generation that the caller wants its result in. Output: the rows
there. For example, of one GPU whose caller takes the generations in turn, but for launch 4 as a graph of three calls is replayed:

    launch           1   2   3   4   5   6      result lies in generation   1   0   1   1   0   1
    put at once to   1   0   1   0   -   1      4: put to 0, and again to 1 when its owner says that it has begun
                                                5: put when its owner has begun, as the last one has come as nobody expected

A result is its owner's until it begins the next launch. `started`, a word for each rank at each rank, holds what that rank has last
said as it began: 4 times the launch's number, 2 if the result lies where the last one does, and its generation. Who puts rows looks
at it once, and finds one of two:

    this launch     its owner has begun: all that it had is free, and the word says where the rows go
    the last one    not older: no launch ends before all ranks have begun it. The owner may still read the result of that launch,
                    in the generation that the word names. The other one is free: what it held has been read before the owner began
                    the last launch. Rows go there at once, or if the word has a 2, when the owner has begun

So nothing is written that is read, whatever the callers want, and at which rank they do. Before a rank says that its rows have come
it has seen that the owner has begun, and has put them again if they went to the generation that is not wanted. Nobody else
writes to them there, and the owner reads none of that generation. The word stays as it is until then, since its owner
ends no launch before.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..at_ranks import at_ranks
from .few import put_to
from .rings import Rows, tell


@mimw.jit
def begin(started, launch, generation):
    """Tell all ranks that this one has begun, and in which generation it wants its result; and note it here."""
    RANKS: tl.constexpr = launch.RANKS
    me = tlx.world_rank(launch.world)
    last = tl.load(started + me) & 1
    said = launch.call * 4 + (last == generation).to(tl.int64) * 2 + generation
    tell(at_ranks(started + me, 1, launch.world, RANKS), said, RANKS - 1)
    tl.store(started + me, said)


@mimw.jit
def last_said(word):
    """The last thing that a rank has said. Others of this rank look as well, and the rank may say more."""
    return tl.atomic_add(word, 0, sem="relaxed", scope="sys")


@mimw.jit
def has_begun(said, launch):
    """True if a rank that has said this has begun the launch."""
    return said >= launch.call * 4


@mimw.jit
def said_of(word, launch):
    """The word of a rank when it has begun this launch."""
    tlx.wait_signal(word, launch.call * 4)
    return last_said(word)


@mimw.jit
def looked_at(word, launch):
    """The word of a rank by which rows may go to it: of this launch, or of the last one without a 2."""
    said = last_said(word)
    if has_begun(said, launch) | ((said & 2) != 0):
        said = said_of(word, launch)
    return said


@mimw.jit
def generation_by(said, launch):
    """The generation to which rows go by what their owner has said."""
    return tl.where(has_begun(said, launch), said & 1, 1 - (said & 1)).to(tl.int32)


@mimw.jit
def put_few_rows(received, ring, outgoing, started, arrived, launch, generation):
    """Rows to the GPUs that have experts of them, this one as well; a signal to each peer, and a wait for its one."""
    RANKS: tl.constexpr = launch.RANKS
    world, program, programs = launch.world, tl.program_id(0), tl.num_programs(0)
    me = tlx.world_rank(world)
    there, scales_there = at_ranks(received.words, 0, world, RANKS), at_ranks(received.scales, 0, world, RANKS)
    signals = at_ranks(arrived + me * programs + program, 1, world, RANKS)
    said = ()
    if launch.GENERATIONS == 2:
        for step in tl.static_range(1, RANKS):
            said = said + (looked_at(started + (me + step) % RANKS, launch), )
    tlx.barrier_wait(outgoing.known, 0)
    for step in tl.static_range(1, RANKS):
        rank, place = (me + step) % RANKS, me
        if launch.GENERATIONS == 2:
            place += generation_by(said[step - 1], launch) * RANKS
        else:
            tlx.wait_signal(started + rank, launch.call)
        at = Rows(there[step], scales_there[step], received.WORDS, received.SCALES)
        put_to(at, ring, outgoing, launch, rank, place * launch.TOKENS)
    put_to(received, ring, outgoing, launch, me, (generation * RANKS + me) * launch.TOKENS)
    if launch.GENERATIONS == 2:
        for step in tl.static_range(1, RANKS):
            rank, known = (me + step) % RANKS, said[step - 1]
            if not has_begun(known, launch):
                wanted = generation_by(said_of(started + rank, launch), launch)
                if wanted != generation_by(known, launch):
                    at = Rows(there[step], scales_there[step], received.WORDS, received.SCALES)
                    put_to(at, ring, outgoing, launch, rank, (wanted * RANKS + me) * launch.TOKENS)
    tlx.async_descriptor_store_wait(0)
    tell(signals, launch.call, RANKS - 1)
    for step in tl.static_range(1, RANKS):
        tlx.wait_signal(arrived + (me + step) % RANKS * programs + program, launch.call)
