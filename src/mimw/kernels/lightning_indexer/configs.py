"""How a launch is cut.

Input: heads, columns of a head, bytes of a number, and for keys in pages the queries of a sequence and the keys of a page. Output:
a `Configuration`:

    configuration(64, 128, 1)               Configuration(queries=2, bk=128, consumers=4, apart=True, stages=5, turns=2, ..)
    paged_configuration(64, 128, 1, 2, 64)  Configuration(queries=2, bk=128, apart=False, ..): both consumers have both queries
"""

from __future__ import annotations

from dataclasses import dataclass

from .nouns import Form

ROWS = 64           # keys of a warpgroup's product
COLUMNS = 256       # of a product at most: heads of some queries
ROW_BYTES = 128     # of a buffer at most: longer rows are in parts (kernel.py)
ROOM = 220 * 1024   # of shared memory, for queries and keys
PAGES = 16, 32, 64, 128, 256
HEADS = 8, 16, 32, 64, 128
DIMS = 32, 64, 128


@dataclass(frozen=True)
class Configuration:
    """Fields as in `Form` (nouns.py); `chunk` keys of a piece of work."""

    queries: int = 2
    bk: int = 128
    consumers: int = 2
    apart: bool = True
    stages: int = 4
    turns: int = 1
    chunk: int = 2048

    def meta(self, heads: int, parts: int, page: int, causal: bool, fill: bool) -> dict:
        """The kernel's constants, and launch options."""
        form = Form(heads, self.queries, parts, ROWS, self.bk, self.consumers, self.apart, self.stages, self.turns, self.chunk,
                    page, causal, fill)
        return dict(FORM=form, num_warps=4)


def parts_of(dim: int, size: int) -> int:
    """The parts of a row of so many numbers, of so many bytes each."""
    return -(-dim * size // ROW_BYTES)


def configuration(heads: int, dim: int, size: int) -> Configuration:
    """Of keys in one piece: four consumers, whose sums have as many columns as their registers hold, hide each other's waits better
    than two of twice as many, or with twice the keys; of rows in two parts, whose products take twice as long, two are quicker. Two
    turns of queries where there is room for four slots beside them, so that the next ones come meanwhile."""
    consumers = 4 if parts_of(dim, size) == 1 else 2
    queries, key = 2 * COLUMNS // consumers // heads, dim * size + 4
    rows = consumers * queries * heads * dim * size
    turns = turns_of(128, key, rows)
    bk = 128 if ROOM - turns * rows >= 4 * 128 * key else 64
    return Configuration(queries, bk, consumers, turns=turns, stages=stages_of(bk, key, turns * rows))


def paged_configuration(heads: int, dim: int, size: int, queries: int, page: int) -> Configuration:
    """Of keys in pages: all queries of a sequence together where they fit, a power of two of them, and a half of each block of keys
    for each consumer. A block is one page at least, of longer rows 128 keys, so that there are enough slots."""
    queries, bk = min(1 << (queries - 1).bit_length(), COLUMNS // heads), max(128, page) if dim * size <= ROW_BYTES else 128
    key, rows = dim * size + 4, queries * heads * dim * size
    turns = turns_of(bk, key, rows)
    return Configuration(queries, bk, 2, False, stages_of(bk, key, turns * rows), turns, 1024)


def turns_of(bk: int, key: int, rows: int) -> int:
    """The buffers for queries of so many bytes: 2 where there is room for four slots beside them."""
    return 2 if ROOM - 2 * rows >= 4 * bk * key else 1


def stages_of(bk: int, key: int, taken: int) -> int:
    """The slots for so many keys, of so many bytes each, that there is room for beside what is taken: 2 to 8."""
    return max(2, min(8, (ROOM - taken) // (bk * key)))
