"""Results of experts back to the GPUs of their tokens, weighted and added: the second half of a mixture of experts over several
GPUs.

Input: at each GPU the results for its experts by row, `places` as `moe_dispatch` has found them, the tokens' experts, and weights:
those of its own tokens, which are sent to all GPUs, or those of all tokens, which came with the dispatch. Output: at each GPU a row
for each of its tokens. For example:

    sizes = room_for(4096, 8, 7168, sms, ranks)                                 what a launch needs of symmetric memory
    workspace = {name: world.symmetric(*one, name) for name, one in sizes.items()}
    arguments(y, places, ids, weights, out, workspace, world, experts, sms)     (grid, args, meta) of a launch

`world` is a `mimw.World`, and the arrays are then one for each rank, or what `mimw.distributed` makes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..checks import persistent
from ..contract import Contract
from ..ranks import at_one, size_of
from .kernel import combine as kernel

CONTRACT = Contract("y: float (rows, hidden)", "places: i32 (ranks, most, k)", "ids: int (own, k)",
                    "weights: float (weighted, k) or (ranks, most, k)", "out: float (results, hidden)",
                    empty="own, weighted, results")

__all__ = ["CONTRACT", "Configuration", "arguments", "configuration", "kernel", "room_for"]

TELL = 1024                 # weights that a program tells at a time
TWICE = 16 << 20            # bytes of partial sums: two generations of up to so many, and one of more


@dataclass(frozen=True)
class Configuration:
    """Programs a multiprocessor; columns that a program adds up at a time, warps, and in how many parts a token is shared out.
    `together` they are tasks of one program, which has the multiprocessor for itself: small programs would take a place on each,
    where then none of another launch that wants all threads finds room. `generations` of partial sums: with two nobody waits until
    the peers have begun a launch, which pays where weights came with the dispatch. `roles`: 2 for half of the programs that push
    and half that finish, 1 for programs that do both, one after the other. Peers are `told` by a signal that sums are there; or
    sums go as words that say so themselves (words.py)."""

    ctas: int = 8
    block: int = 1024
    warps: int = 4
    parts: int = 1
    together: bool = False
    generations: int = 1
    roles: int = 2
    told: bool = True

    def __post_init__(self):
        if self.together and (self.ctas % 2 or self.warps % 4):
            raise ValueError(f"{self}: tasks of one program are half of either role, of 4 or 8 warps each")
        if self.generations not in (1, 2) or self.roles not in (1, 2):
            raise ValueError(f"{self}: there are one or two generations of partial sums, and one or two roles")

    def columns(self, hidden: int) -> int:
        """Of a part: whole blocks, but for the last one."""
        return -(-hidden // (self.block * self.parts)) * self.block


def configuration(hidden: int, most: int, multiprocessors: int, ranks: int = 2, came: bool = False) -> Configuration:
    """The configuration for rows of `hidden` columns of so many tokens at most: as many parts as programs have. Where weights
    came with the dispatch, few partial sums have two generations. Of so few tokens that they have parts each block is one, and
    sums are words that say so themselves, as was fastest (benchmarks/notes/dispatch-combine.md); a word has 4 of 16 bits."""
    block = min(1024, max(128, 1 << (hidden - 1).bit_length()))
    chosen = Configuration(block=block, warps=max(1, block // 256))
    parts = min(-(-hidden // block), max(1, multiprocessors * chosen.ctas // 2 // max(1, most)))
    few = came and 2 * 2 * (ranks - 1) * most * hidden <= TWICE
    if few and parts > 1 and hidden % 4 == 0:
        return replace(chosen, parts=-(-hidden // block), generations=2, told=False)
    return replace(chosen, parts=parts, generations=2 if few else 1)


def sharing(most: int, multiprocessors: int, chosen: Configuration) -> int:
    """How many programs have a role: as many as fit, and no more than there are parts of tokens, where they are not `together`."""
    fit = max(1, persistent(multiprocessors, "multiprocessors") * chosen.ctas // chosen.roles)
    return fit if chosen.together else min(fit, max(1, most * chosen.parts))


def room_for(most: int, k: int, hidden: int, multiprocessors: int, ranks: int, dtype: str = "bfloat16",
             chosen: Configuration | None = None, came: bool = False) -> dict:
    """What a launch needs of symmetric memory: name -> (shape, type). `all_weights`, and `partials` whose owner is told of them,
    may hold anything before; all others are 0 before the first launch. All belong to launches of these numbers.

    args:  most, k             tokens of a rank, at most, and their experts
           hidden              columns
           multiprocessors     of a GPU, the same at all ranks
           dtype               of sums on their way: that of the rows, or "float32" for twice the bytes and one rounding less
           came                whether weights come with the dispatch: then there is no `all_weights`
    """
    chosen = chosen or configuration(hidden, most, multiprocessors, ranks, came)
    half = sharing(most, multiprocessors, chosen)
    room = dict(partials=((chosen.generations, max(1, ranks - 1), most, hidden), dtype), told=((ranks, ), "int64"),
                arrived=((ranks, half), "int64"), calls=((chosen.roles * half, ), "int64"))
    return room if came else dict(all_weights=((ranks, most, k), "float32")) | room


def arguments(y, places, ids, weights, out, workspace: dict, world, experts: int, multiprocessors: int, tokens=None,
              chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill out: for each token the sum of its rows by weight.

    args:      y           (rows, hidden), contiguous; bf16, fp16 or fp32: what this rank's experts have made
               places      (ranks, most, k) int32: which row of y each choice of each rank is, -1 for those of other ranks' experts
               ids         (tokens, k), contiguous, int32 or int64: this rank's tokens' experts, as dispatched
               weights     contiguous, bf16, fp16 or fp32: (tokens, k) of this rank's tokens, which are sent; or (ranks, most, k) of
                           all ranks' tokens, which came with the dispatch, each rank's from its part on
               out         (tokens, hidden), contiguous, of any of these types
               workspace   symmetric arrays of the shapes and types that `room_for` says for either
               experts     of all ranks together
               multiprocessors   of a GPU, the same at all ranks
               tokens      (opt) how many tokens there are here, at most `most`; a number for each rank in a simulated world. By
                           default out's
               chosen      by default that for this size; the same as for `room_for`
    order:     a rank's choices in the order of j, in fp32, rounded to the type of partials on their way to another rank; the own
               rank's first, then those of the next rank and so on
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    ranks, came = size_of(world), at_one(weights).ndim == 3
    one_y, one_ids, one_weights, one_out, one_places = map(at_one, (y, ids, weights, out, places))
    of = CONTRACT.check(y=one_y, places=one_places, ids=one_ids, weights=one_weights, out=one_out, ranks=ranks)
    most, k, hidden = of.most, of.k, of.hidden
    chosen = chosen or configuration(hidden, most, multiprocessors, ranks, came)
    half = sharing(most, multiprocessors, chosen)
    tokens = one_out.shape[0] if tokens is None else tokens
    size = 8 // _bytes_of(workspace["partials"])
    if not chosen.told and not (came and hidden % size == 0):
        raise ValueError(f"{chosen}, {hidden} columns, weights that {'came' if came else 'are sent'}: sums without an announcement "
                         f"go in pieces of {size} columns, and a sender of weights waits for signals; take told=True")
    everyones = weights if came else workspace["all_weights"]
    symmetric = (workspace[name] for name in ("partials", "told", "arrived", "calls"))
    args = (y, places, ids, weights, out, everyones, *symmetric, world, tokens)
    meta = dict(TOKENS=most, HIDDEN=hidden, K=k, RANKS=ranks, LOCAL=experts // ranks, BLOCK=chosen.block, TELL=TELL,
                PARTS=chosen.parts, COLUMNS=chosen.columns(hidden), HALF=half, CAME=came, GENERATIONS=chosen.generations,
                TOLD=chosen.told, ROLES=chosen.roles, num_warps=chosen.warps)
    if chosen.ctas > 1:
        meta["maxnreg"] = min(248, 65536 // chosen.ctas // (32 * chosen.warps) // 8 * 8)
    programs = chosen.roles * half
    if chosen.together:
        meta["TASKS"], programs = chosen.ctas, programs // chosen.ctas
    return (programs, ), args, meta


def _bytes_of(array) -> int:
    """Of a number of an array, of one rank or of all."""
    return at_one(array).itemsize
