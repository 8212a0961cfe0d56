"""Tokens to the GPUs of their experts: the first half of a mixture of experts over several GPUs, one kernel on Hopper.

Input: at each GPU rows of any type and the experts of each. Output: at each GPU the rows for its experts. For example:

    sizes = room_for(4096, 8, 256, 14336, programs, ranks)                      what a launch needs of symmetric memory
    workspace = {name: world.symmetric(*one, name) for name, one in sizes.items()}
    arguments(x, ids, rows, ends, places, workspace, world, programs)           (grid, args, meta) of a launch, or of mimw.simulate

    rows_room_for(...), rows_arguments(x, ids, sources, ...)                    the same of `rows_kernel` (rows.py), which leaves
                                                                                rows where they come, and lists their numbers

`world` is a `mimw.World`, and the arrays are then one for each rank, or what `mimw.distributed` makes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..checks import PROGRAMS
from ..contract import Contract
from ..ranks import at_one, size_of
from .kernel import dispatch as kernel
from .rows import dispatch_rows as rows_kernel

__all__ = ["Configuration", "RowsConfiguration", "arguments", "chosen_for", "configuration", "kernel", "listed", "room_for",
           "rows_arguments", "rows_chosen_for", "rows_kernel", "rows_room_for"]

CONTRACT = Contract(
    "x: i32 (tokens, words)", "x_scales?: i32 (scaled, scales)", "rows?: i32 (count, words)", "row_scales?: any (count, scales)",
    "sources?: i32 (numbers)", "ends: i32 (local)", "places: i32 (ranks, most, k)", "ids: int (own, k)", "weights?: float (own, k)",
    "all_weights?: fp32 (ranks, most, k)", PROGRAMS, "(weights is None) == (all_weights is None) -- weights have a place for all",
    "words > 0 and words % 4 == 0 -- rows must be multiples of 16 bytes, as elements of int32",
    "x_scales is None or scales % 4 == 0 -- scales of a row must be multiples of 16 bytes, as elements of int32",
    "ranks * most * k < 2 ** 31 -- places must fit into 32 bits", empty="tokens, scaled, own, count, numbers")
SHARED = 200 << 10          # bytes of shared memory for the rings
MOST_EXPERTS = 4096         # of all ranks, for which configurations are chosen
MEET = 16384                # choices of a rank; fewer are counted sooner than programs meet
ROOM = 16 << 20             # bytes of rows that come, up to which there is room for them twice
SYMMETRIC = ("choices", "counts", "told_weights", "chunks", "counted", "told", "started", "arrived", "calls")


@dataclass(frozen=True)
class Configuration:
    """Slots of the rings for rows that leave and for rows that go to their places; how many of the latter may be on their way while
    the next are copied; after how many rows a program tells the peers, and of how many rounds it takes own rows before the peers';
    how many choices it ranks at a time, and counts at a time. `whole` warps take whole rows to their places, of which `unread` are
    then rows; each warp has slots of its own. With 0 one warp does, and they are copies. `few` rows have a slot each, and are
    loaded before it is known where they go; with 2 a program that announces choices puts its rows behind. Rows that come have
    `generations` places in turn: with 2 nobody waits for the peers to begin. Ranks are `told` of choices by signals; or choices go
    as words that say themselves that they have come (words.py).
    """

    out: int = 4
    home: int = 8
    unread: int = 4
    group: int = 1
    tile: int = 128
    count: int = 4096
    whole: int = 0
    few: int = 0
    generations: int = 1
    told: bool = True

    def __post_init__(self):
        _demand(1 <= self.group <= self.out and 1 <= self.unread < self.home,
                f"{self}: a ring has room for the rows in flight: out for a group, home for more than unread")
        _demand(self.whole == 0 or self.whole > 0 and not (self.unread % self.whole or self.home % self.whole),
                f"{self}: each of the `whole` warps has slots of its own: home and unread are multiples of it")
        _demand(self.generations in (1, 2), f"{self}: generations are 1 or 2")


def _demand(holds: bool, text: str) -> None:
    if not holds:
        raise ValueError(text)


def _slots(row_bytes: int, tables: int, needed: int) -> int:
    """The number of rows that shared memory holds beside so many bytes; a ValueError where that is too few."""
    slots = (SHARED - tables) // max(16, 1 << (row_bytes - 1).bit_length())
    _demand(slots >= needed, f"rows of {row_bytes} bytes: {max(0, slots)} of them fit into shared memory beside {tables} bytes of "
            f"tables, and {needed} are needed; dispatch parts of a row, or fewer tokens, one after the other")
    return slots


def configuration(row_bytes: int, tables: int = 0, k: int = 8, ranks: int = 2) -> Configuration:
    """The configuration for rows of so many bytes, scales included, beside `tables` bytes in shared memory; of k experts a token.

    Two warps take whole rows home. Peers are told the less often the more they are, since a rank sends each of them fewer rows, and
    of rows with few places here, which are on their way together (benchmarks/notes/dispatch-combine.md, "Whole rows, timed" and
    "Choices of many tokens as words")."""
    slots, pairs = _slots(row_bytes, tables, 6), max(1, ranks // 2)
    if slots < 10:
        return Configuration(out=2, home=slots - 2, unread=slots - 4)
    small = slots >= 24
    group = min(8, (2 if k >= 4 else 8) * pairs) if small else min(4, pairs)
    out = max(4 if small else 2, group + group % 2)
    home = (24 if small else min(12, slots // 2 * 2)) - out
    return Configuration(out=out, home=home, unread=home // 4 * 2 if small else home - 2, group=group, whole=2)


@dataclass(frozen=True)
class RowsConfiguration:
    """Slots of the ring, and how many rows may be on their way while the next are copied, where rows stay where they come; the rest
    as above. There are two generations of `few` rows alone."""

    out: int = 12
    unread: int = 6
    tile: int = 128
    count: int = 4096
    few: int = 0
    generations: int = 1
    told: bool = True

    def __post_init__(self):
        _demand(1 <= self.unread < self.out, f"{self}: a ring has room for the rows in flight: out for more than unread")
        _demand(self.generations == 1 or self.generations == 2 and self.few > 0, f"{self}: generations are 1, or 2 of few rows")


def rows_chosen_for(most: int, row_bytes: int, programs: int, ranks: int = 2, k: int = 8) -> RowsConfiguration:
    """The configuration that `rows_arguments` takes by itself. Where rows go to several peers half of the slots were faster."""
    tables = 4 * rounds_of(most, programs)
    slots = max(2, min(16, _slots(row_bytes, tables, 2)) // (1 if ranks == 2 else 2))
    few, choices = -(-most // programs) <= slots, most * k
    generations = 2 if few and ranks * most * row_bytes <= ROOM else 1
    return RowsConfiguration(slots, slots // 2, *tiles(choices, programs), int(few), generations, not (few and words_hold(choices)))


def rounds_of(most: int, programs: int) -> int:
    """A power of two of tokens that a program may have."""
    return 1 << (-(-most // programs) - 1).bit_length()


def tiles(choices: int, programs: int) -> tuple[int, int]:
    """(choices of a rank that a program ranks at a time, that it counts at a time): of few choices no more than there are."""
    return 32 if choices <= 32 * programs else 128, min(4096, max(128, 1 << (choices - 1).bit_length()))


def chosen_for(most: int, k: int, row_bytes: int, programs: int, ranks: int) -> Configuration:
    """The configuration that `arguments` takes by itself. Where programs meet to count, small tiles are ranked sooner (of 4096
    tokens with 8 choices 1 to 2 %)."""
    usual = configuration(row_bytes, 4 * rounds_of(most, programs) * (1 + ranks * (1 << (k - 1).bit_length())), k, ranks)
    (tile, count), few = tiles(most * k, programs), has_few(usual, most, programs, ranks)
    return replace(usual, tile=32 if most * k > MEET else tile, count=count, few=2 if few else 0, told=not words_hold(most * k),
                   generations=2 if (ranks - 1) * most * row_bytes <= ROOM else 1)


def has_few(chosen: Configuration, most: int, programs: int, ranks: int) -> bool:
    """True if all rows that a program may have find room in the rings at once."""
    rounds = -(-most // programs)
    return rounds <= chosen.out and ranks * rounds <= chosen.home


def words_hold(choices: int, experts: int = MOST_EXPERTS) -> bool:
    """True if a word beside its mark has room for a rank's choice: an expert, and how many of it came before."""
    return (experts + 1) << max(0, choices - 1).bit_length() <= 1 << 30


def room_for(tokens: int, k: int, experts: int, row_bytes: int, programs: int, ranks: int, scale_bytes: int = 0,
             chosen: Configuration | None = None, weighted: bool = False) -> dict:
    """What a launch needs of symmetric memory: name -> (shape, type). `staging`, `staging_scales`, `choices`, `counts`,
    `told_weights` and `chunks` may hold anything before, but choices and counts that are not told of, and the words of the others,
    are 0 before the first launch. All belong to launches of these numbers and this configuration.

    args:  tokens       of a rank, at most
           k            experts of a token
           experts      of all ranks together, the same number at each
           row_bytes    of a token, and scale_bytes of its scales
           programs     how many programs the launch has
           chosen       (opt) its configuration, by default that for rows of this size
           weighted     whether weights travel with the choices
    """
    chosen = chosen or chosen_for(tokens, k, row_bytes + scale_bytes, programs, ranks)
    rows = _rows_for("staging", chosen.generations * max(1, ranks - 1), tokens, row_bytes, scale_bytes)
    return rows | _board_for(tokens, k, experts, programs, ranks, weighted and chosen.told)


def _rows_for(name: str, held: int, tokens: int, row_bytes: int, scale_bytes: int) -> dict:
    room = {name: ((held, tokens, row_bytes // 4), "int32"), f"{name}_scales": ((held, tokens, scale_bytes // 4), "int32")}
    return room if scale_bytes else {name: room[name]}


def _board_for(tokens: int, k: int, experts: int, programs: int, ranks: int, weighted: bool) -> dict:
    board = dict(choices=((2, ranks, tokens * k), "int64"), counts=((2, ranks, experts), "int32"),
                 chunks=((programs, experts), "int32"), counted=((1, ), "int64"), told=((ranks, ), "int64"),
                 started=((ranks, ), "int64"), arrived=((ranks, programs), "int64"), calls=((programs, ), "int64"))
    return board | (dict(told_weights=((2, ranks, tokens * k), "float32")) if weighted else {})


def arguments(x, ids, rows, ends, places, workspace: dict, world, programs: int, x_scales=None, row_scales=None, tokens=None,
              block: int = 1, chosen: Configuration | None = None, weights=None,
              all_weights=None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill rows, ends and places.

    args:      x           (tokens, words) int32, contiguous: this rank's rows as words, multiples of 16 bytes
               ids         (tokens, k), contiguous, int32 or int64: the experts of each; others than 0 to experts - 1 are none
               rows        (count, words) int32, count enough for all rows, at most as `listed` says: becomes the rows for this
                           rank's experts, in the order of experts, then of ranks, then of tokens, then of j; what is behind is not
                           written
               ends        (experts / ranks) int32: becomes the row behind the last one of each
               places      (ranks, most, k) int32: becomes the row of each choice of each rank that is here, and -1 for others
               workspace   symmetric arrays of the shapes and types that `room_for` says
               programs    how many persistent programs, the same at all ranks, that run at the same time: at most one a
                           multiprocessor
               x_scales, row_scales    (opt) of x and rows, likewise
               tokens      (opt) how many of x there are, at most `most`; a number for each rank in a simulated world. By default
                           x's
               block       the rows of each expert begin at a multiple of it, behind rows that are not written; ends are multiples
               chosen      by default that for rows of this size
               weights     (opt) (tokens, k), contiguous, bf16, fp16 or fp32: of this rank's choices
               all_weights     (opt) (ranks, most, k) fp32: becomes those of all ranks, 0 where a rank has no token
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    given = dict(x=x, rows=rows, ends=ends, places=places)
    of = _Launch(given, ids, world, programs, tokens, dict(x_scales=x_scales, row_scales=row_scales, weights=weights,
                                                           all_weights=all_weights))
    chosen = chosen or chosen_for(of.most, of.k, 4 * (of.words + of.scales), programs, of.ranks)
    meta = of.meta(chosen, block, has_few(chosen, of.most, programs, of.ranks), "staging", workspace, max(1, of.ranks - 1))
    meta |= dict(HOME=chosen.home, GROUP=chosen.group, WHOLE=chosen.whole)
    args = (x, _or(x_scales, x), ids, _or(weights, ids), rows, _or(row_scales, rows), ends, places, _or(all_weights, places),
            workspace["staging"], workspace.get("staging_scales", workspace["staging"]), *_board(workspace), world, of.tokens)
    return (programs, ), args, meta


def _or(array, other):
    """An argument that is not there is another one, which the kernel does not use."""
    return other if array is None else array


def _board(workspace: dict) -> list:
    return [_or(workspace.get(name), workspace["choices"]) for name in SYMMETRIC]


def listed(tokens: int, k: int, experts: int, ranks: int, block: int = 1) -> int:
    """How many rows a rank's experts may get, those of each filled up to whole blocks: whole blocks."""
    return -(-(ranks * tokens * k + (block - 1) * (experts // ranks)) // block) * block


def rows_room_for(tokens: int, k: int, experts: int, row_bytes: int, programs: int, ranks: int, scale_bytes: int = 0,
                  chosen: RowsConfiguration | None = None, weighted: bool = False) -> dict:
    """As `room_for`: what a launch of `rows_kernel` needs. `received` (generations * ranks, tokens, words) and `received_scales`
    are results: of the launch's generation the rows of each rank's tokens that have experts here, until this rank begins the next
    launch."""
    chosen = chosen or rows_chosen_for(tokens, row_bytes + scale_bytes, programs, ranks, k)
    rows = _rows_for("received", chosen.generations * ranks, tokens, row_bytes, scale_bytes)
    return rows | _board_for(tokens, k, experts, programs, ranks, weighted and chosen.told)


def rows_arguments(x, ids, sources, ends, places, workspace: dict, world, programs: int, block: int = 1, x_scales=None,
                   tokens=None, chosen: RowsConfiguration | None = None, weights=None, all_weights=None,
                   generation=0) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill sources, ends, places and workspace["received"].

    args:      sources     `listed` int32: become the numbers of rows, rank * most + token, by expert, then rank, then token, then
                           j; the list of each expert is filled up to whole blocks with ranks * most. What is behind is not written
               ends        (experts / ranks) int32: becomes where the list of each ends
               places      (ranks, most, k) int32: becomes where in sources each choice of each rank is, and -1 for others' experts
               workspace   as `rows_room_for` says, of scales where there are x_scales
               x, ids, world, programs, tokens, chosen, weights, all_weights     as `arguments`
               generation  0 or 1, of two: where in received the result of this launch lies. Of launches that follow each other it
                           had better alternate, beginning with 1, since a result of the same one as the last makes the peers
                           wait; any will do, also another one at each rank; then one for each rank in a simulated world
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    of = _Launch(dict(x=x, sources=sources, ends=ends, places=places), ids, world, programs, tokens,
                 dict(x_scales=x_scales, weights=weights, all_weights=all_weights))
    numbers = listed(of.most, of.k, of.ranks * at_one(ends).shape[0], of.ranks, block)
    if at_one(sources).shape[0] < numbers:
        raise ValueError(f"sources has {at_one(sources).shape[0]} numbers; {of.ranks} ranks of {of.most} tokens with {of.k} "
                         f"experts each need {numbers} in blocks of {block}")
    chosen = chosen or rows_chosen_for(of.most, 4 * (of.words + of.scales), programs, of.ranks, of.k)
    meta = of.meta(chosen, block, -(-of.most // programs) <= chosen.out, "received", workspace, of.ranks)
    received = workspace["received"]
    args = (x, _or(x_scales, x), ids, _or(weights, ids), sources, ends, places, _or(all_weights, places), received,
            workspace.get("received_scales", received), *_board(workspace), world, of.tokens, generation)
    return (programs, ), args, meta


class _Launch:
    """What both kernels need to know of their arguments, which are checked."""

    def __init__(self, given: dict, ids, world, programs: int, tokens, scaled: dict):
        self.ranks, one_x = size_of(world), at_one(given["x"])
        ones = {name: at_one(one) for name, one in (given | scaled | dict(ids=ids)).items() if one is not None}
        of = CONTRACT.check(**ones, ranks=self.ranks, programs=programs)
        self.programs, self.weighted = programs, "weights" in ones
        self.words, self.most, self.k, self.scales = of.words, of.most, of.k, getattr(of, "scales", 0)
        rounds, width = rounds_of(self.most, programs), 1 << (self.k - 1).bit_length()
        choices = 1024 // (width * max(2, 1 << (self.ranks - 1).bit_length()))      # of a rank, whose numbers registers hold
        self.tokens = one_x.shape[0] if tokens is None else tokens
        self.sizes = dict(TOKENS=self.most, K=self.k, RANKS=self.ranks, LOCAL=of.local, WORDS=self.words, SCALES=self.scales,
                          ROUNDS=rounds, SLOTS=min(rounds, max(1, choices)))

    def meta(self, chosen: Configuration | RowsConfiguration, block: int, has_few: bool, name: str, workspace: dict,
             ranks: int) -> dict:
        """The constants that both kernels take. Few rows have to be few, words to hold choices, and the workspace has to have the
        configuration's generations for so many ranks' rows."""
        _demand(has_few or not chosen.few,
                f"{chosen}: {self.most} tokens are not few for {self.programs} programs: each row has a slot of its own")
        experts, found, wanted = self.ranks * self.sizes["LOCAL"], at_one(workspace[name]).shape[0], chosen.generations * ranks
        _demand(chosen.told or words_hold(self.most * self.k, experts),
                f"{chosen}: pieces have no room for {self.most} x {self.k} choices of {experts} experts; take told=True")
        _demand(found == wanted, f"{name} has {found} x tokens rows and needs {wanted}: its workspace is of another configuration")
        return self.sizes | dict(BLOCK=block, OUT=chosen.out, UNREAD=chosen.unread, TILE=chosen.tile, COUNT=chosen.count, MEET=MEET,
                                 WEIGHTED=int(self.weighted), FEW=chosen.few, GENERATIONS=chosen.generations, TOLD=chosen.told,
                                 num_warps=4)
