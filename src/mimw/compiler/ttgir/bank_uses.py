"""Bank conflicts of one access to shared memory in TTGIR: how many wavefronts a warp takes, and how many it would take at least.

Input: an op's name, the texts of the layouts of tile and buffer, the shape, the bits of an element, the chip. Output: a `BankUse`:

    bank_use("ttg.local_load", columns, plain_rows, (64, 64), 32, target("sm_90a")).sentence()
    local_load: 1024 wavefronts a warp, 32 without bank conflicts (32 ld.shared of 4 bytes a lane)

One wavefront serves a different word of each bank (`constraints/bank_counts.py`). The instructions are those that Triton's lowering
takes: as wide as registers lie together in the buffer, at most 16 bytes a lane, and `ldmatrix` and
`stmatrix` where the rows of matrices do (PTX ISA, "ldmatrix"). A row is 16 bytes, so 8 of them cost what 8 lanes of 16 bytes do;
without `.trans` that is what the same words cost lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...ir.layouts import Linear
from ...target import Target
from ..constraints.bank_counts import BankAccess, Counted, Position, TileAccess, counted, held_access
from ..constraints.banks import WIDEST, WORD
from .layout_memory import BufferMap, buffer_map
from .layout_text import read_layout
from .layouts import TileMap, tile_map

_WRITES = {"ttg.local_load": False, "ttg.local_store": True, "ttg.local_alloc": True}
_ALONG = 3      # bits of the 8 rows of a matrix
_AT_ONCE = 4    # matrices of 8 rows of one instruction
_STORES_MATRICES, _TURNS_BYTES = 90, 100        # the first chips that have stmatrix, and matrices of 8-bit elements


@dataclass(frozen=True)
class BankUse:
    """One access to a tile: `wavefronts` of one warp, `least` without bank conflicts, by `instructions` of `width` bytes a lane."""

    op: str
    wavefronts: int
    least: int
    how: str
    instructions: int
    width: int

    @property
    def excess(self) -> int:
        """The wavefronts that bank conflicts cost."""
        return self.wavefronts - self.least

    def sentence(self) -> str:
        return (f"{self.op}: {self.wavefronts} wavefronts a warp, {self.least} without bank conflicts "
                f"({self.instructions} {self.how} of {self.width} byte{'s' if self.width > 1 else ''} a lane)")


def bank_use(op: str, tile: str, buffer: str, shape: tuple[int, ...], bits: int, chip: Target,
             whole: tuple[int, ...] | None = None) -> BankUse | None:
    """The wavefronts of one access.

    args:      op      `ttg.local_load`, `ttg.local_store` or `ttg.local_alloc` (of a value); ValueError for another
               shape   the tile's; `whole` that of the buffer, as a type of a view names it, if the tile is a subslice of it: where
                       in the buffer it begins changes nothing (but for padded memory, of which the first such part is counted)
               bits    of an element as it is stored, 8 for a boolean
    returns:   None where the instructions are not known: operands of AMD's gfx1250 whose K runs along the slower dimension
    raises:    LayoutProblem for a layout that is none of such a tile or buffer
    """
    op = f"ttg.{op.removeprefix('ttg.')}"
    if op not in _WRITES:
        raise ValueError(f"{op} is no access of threads to a whole tile in shared memory: give one of {', '.join(_WRITES)}")
    writes, held, memory = _WRITES[op], tile_map(tile, shape), buffer_map(buffer, (whole or shape)[-len(shape):], bits)
    if chip.backend == "cuda":
        found = _of_nvidia(held, memory, writes, chip)
    else:
        found = _of_amd(held, memory, writes, chip, None if writes else read_layout(tile).get("opIdx"))
    if found is None:
        return None
    how, use = found
    return BankUse(op.removeprefix("ttg."), use.wavefronts, use.least, how, use.instructions, use.width)


def _of_nvidia(held: TileMap, memory: BufferMap, writes: bool, chip: Target) -> tuple[str, Counted]:
    access = BankAccess(held.registers, held.lanes, held.warps, writes)
    matrix = "stmatrix" if writes else "ldmatrix"
    if not memory.gaps and (not writes or int(chip.arch) >= _STORES_MATRICES):
        if (turned := _turned_matrices(access, memory.offset, memory.element, chip)) is not None:
            rows = counted(turned, memory.offset, memory.element, chip)
            got = WORD << len(turned.lanes) - _ALONG     # a word of each matrix, while a lane names 16 bytes
            return f"{matrix}.trans", replace(rows, width=got)
        if _are_matrices(access, memory.offset, memory.element):
            words = counted(access, memory.offset, memory.element, chip)
            together = min(_AT_ONCE, words.instructions)
            return matrix, Counted(words.wavefronts, words.least, words.instructions // together, WORD * together)
    return "st.shared" if writes else "ld.shared", counted(access, memory.offset, memory.element, chip, memory.gaps)


def _are_matrices(access: BankAccess, offset: Callable[[Position], int], element: int) -> bool:
    """True if four lanes hold a row of 16 bytes, each a word of it, and the rows of 8 lanes may lie anywhere."""
    if element > WORD or len(access.lanes) != _ALONG + 2:
        return False
    registers, lanes = [offset(basis) for basis in access.registers if any(basis)], [offset(basis) for basis in access.lanes]
    inside = [element << bit for bit in range((WORD // element).bit_length() - 1)]
    return (lanes[:2] == [WORD, 2 * WORD] and set(inside) <= set(registers)
            and not any(step % WIDEST for step in (*lanes[2:], *map(offset, access.warps), *set(registers) - set(inside))))


def _turned_matrices(access: BankAccess, offset: Callable[[Position], int], element: int, chip: Target) -> BankAccess | None:
    """The rows that `ldmatrix.trans` reads, as lanes of 16 bytes: 8 lanes hold the elements of a row (of 8 bits, two registers of
    them), four lanes and one or two registers the rows. None if the elements do not lie so."""
    registers, lanes = [basis for basis in access.registers if any(basis)], access.lanes
    if len(lanes) != _ALONG + 2 or element > 2 or element == 1 and int(chip.arch) < _TURNS_BYTES:
        return None
    inside = [basis for basis in registers if element == 1 and offset(basis) == WIDEST // 2]
    apart = [basis for basis in registers if basis not in inside]
    along = [element << bit for bit in range((WIDEST // element).bit_length() - 1)]
    if [offset(basis) for basis in (*lanes[2:], *inside)] != along:
        return None
    needed = 2 if element == 1 and not access.writes else 1     # a matrix of bytes that is read has 16 rows, any other has 8
    if len(apart) < needed or any(offset(basis) % WIDEST for basis in (*apart, *lanes[:2], *access.warps)):
        return None
    # The lanes of an instruction name a row each: those of one matrix, then those of the next, by the registers that follow.
    named = apart[:_AT_ONCE.bit_length()]
    return BankAccess((*lanes[2:], *inside, *apart[len(named):]), (named[0], *lanes[:2], *named[1:]), access.warps, access.writes)


def _of_amd(held: TileMap, memory: BufferMap, writes: bool, chip: Target, operand: int | None) -> tuple[str, Counted] | None:
    turned = len(held.shape) == 2 and memory.steps[0][:1] == (memory.element, )      # columns lie together
    linear = Linear(held.registers, held.lanes, held.warps, held.shape)
    access = held_access(linear, TileAccess(None, turned, writes, operand), memory.element, chip)
    if access is None:
        return None
    offset = (lambda position: memory.offset(position[::-1])) if turned else memory.offset
    return "ds_write" if writes else "ds_read", counted(access, offset, memory.element, chip, memory.gaps)
