"""How keys are cut, and how many rows go with them. Measured choices, if there are any, are data, in `configs.json`.

Input: the head dim and the rows of a tile. Output: a `Configuration`, whose `meta` gives a launch's constants and warps:

    configuration(128, 8)           Configuration(bn=64, stages=5, streams=2, least=2): 8 rows are one tile of 64
    configuration(128, 100)         streams=1: both consumers of an SM have rows of the same keys
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from ..measured import by_chip
from .nouns import Form

HEAD_DIMS = (64, 128, 256)
BLOCK_BYTES = 16 << 10      # of keys or of values: 64 of 128 bf16
COMBINERS = 264             # programs of the second step: two for each SM, which holds three
MOST_LENGTHS = 256          # that a producer's warp looks at at a time
ROWS = 64                   # of a consumer: those of a wgmma
FEW_ROWS, FEW_KEYS = 16, 64     # rows of a product of one warp, and keys of four
BYTE_KEYS = 128     # of a block of e4m3, 32 a warp
FEW_DIM = 128               # of tiles: 256 spill in few_rows
MOST_UNITS = 1 << 22        # of all tiles, with few_rows
SM_BYTES, OTHER_BYTES = 227 << 10, 6 << 10      # of shared memory; of a program of few_rows: barriers, items, changes of layout
PARTS = {8: 16, 16: 4}      # of tiles of so many rows, which registers hold at a time
RING_BYTES = {64: 192 << 10, 128: 160 << 10, 256: 128 << 10}    # of an SM: the rest is for queries and changes of layout
PAGES = (16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Configuration:
    """Blocks of `bn` keys, `stages` of them for each of `streams` workers of an SM, who have `least` units each, if possible; the
    last `drawn` eighths of all units go to who comes first. With `few`, for up to 16 rows, there is one launch, 1 by few_rows, 2 by
    few_rows_epilogue, whose programs have `stages` blocks of keys and as many of values."""

    bn: int = 64
    stages: int = 5
    streams: int = 2
    least: int = 2
    drawn: int = 1
    few: int = 0

    def meta(self, dim: int, page: int, batches: int, rows: int) -> dict:
        """The constants and warps of a launch for so many rows of a tile."""
        tall = tall_of(rows) if self.few else 2 // self.streams
        batch = min(MOST_LENGTHS, max(16, 1 << (batches - 1).bit_length()))
        form = Form(tile_of(dim), dim, self.bn, page, tall, PARTS.get(tall), batch, batches <= MOST_LENGTHS, self.least, self.drawn)
        more = dict(launch_pdl=True) if self.few else dict(STREAMS=self.streams)
        return dict(FORM=form, STAGES=self.stages, num_warps=4) | more


@by_chip(Path(__file__).parent / "configs.json")
def _measured(rows: list[dict]) -> dict[tuple[int, int], Configuration]:
    """(head dim, most rows) -> the fastest configuration found on the chip that the file names."""
    return {(row["head_dim"], row["rows"]): Configuration(**row["configuration"]) for row in rows}


def tile_of(dim: int) -> int:
    """The head dim of tiles that hold heads of `dim`, up to 256; what is left of them costs no bytes of memory."""
    if dim > HEAD_DIMS[-1]:
        raise ValueError(f"the head dim is {dim}; it may be up to {HEAD_DIMS[-1]}")
    return next(tile for tile in HEAD_DIMS if tile >= dim)


def most_rows(rows: int) -> int:
    """The rows as which `rows` are measured: those of a product of one warp, of a consumer, or of two."""
    return next((most for most in (FEW_ROWS, ROWS) if rows <= most), 2 * ROWS)


def configuration(dim: int, rows: int, blocks: int = 0, cache_bytes: int = 2) -> Configuration:
    """The configuration for heads of `dim` and so many rows, queries times heads that share a head of keys, and `blocks` of keys
    of all tiles at most, of numbers of so many bytes. Rows that one consumer holds leave the other one to another worker."""
    streams, dim = 2 if rows <= ROWS else 1, tile_of(dim)
    if cache_bytes == 1 and rows <= FEW_ROWS and dim <= FEW_DIM and blocks < MOST_UNITS:
        return Configuration(BYTE_KEYS, 4 * FEW_DIM // dim, 1, 1, 0, 1)
    chosen = _measured().get((dim, most_rows(rows)))
    if chosen is None or chosen.few and blocks >= MOST_UNITS:
        return Configuration(BLOCK_BYTES // 2 // dim, RING_BYTES[dim] // (streams * BLOCK_BYTES), streams)
    return chosen


def few_stages(dim: int, bn: int) -> int:
    """The blocks of keys with their values that a program with `few` has room for, beside queries and sums of 64 rows."""
    return (SM_BYTES - OTHER_BYTES - 64 * 6 * tile_of(dim)) // (4 * bn * tile_of(dim))


def columns_of(tiles: int, programs: int) -> tuple[int, int]:
    """(columns, programs of each) for so many heads of keys: one column a head, unless that leaves more than a sixteenth of the
    programs with nothing."""
    per = programs // tiles
    return (tiles, per) if 16 * tiles * per >= 15 * programs else (1, programs)


def as_row(dim: int, rows: int, chosen: Configuration) -> dict:
    """One row of `configs.json`."""
    return {"head_dim": tile_of(dim), "rows": most_rows(rows), "configuration": asdict(chosen)}


def combine_tile(dim: int, rows: int, tiles: int) -> tuple[int, int]:
    """(rows, parts) that a program of the second step takes at a time: few rows and many parts where there are few tiles."""
    each = 1
    while each < 16 and each < rows and tiles * -(-rows // each) > COMBINERS:
        each *= 2
    return each, max(2, min(32, 4096 // (each * dim)))


def tall_of(rows: int) -> int:
    """The rows of a tile of which so many count, with `few`: the 8 or 16 columns of its products."""
    return FEW_ROWS // 2 if rows <= FEW_ROWS // 2 else FEW_ROWS
