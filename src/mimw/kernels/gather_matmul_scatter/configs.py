"""How the tiles of a gathered product are cut: one configuration, which a GEMM of wide tiles has too.

Input: the bytes of input and output elements. Output: the kernel's compile-time arguments. For example:

    Configuration().meta(2, 2, False)        {"FORM": Form(tiles=Tiles(BM=128, BN=256, ...), STAGES=4), "LOAD_WARPS": 4}
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..gemm.configs import Configuration as OfGemm


@dataclass(frozen=True)
class Configuration(OfGemm):
    """The GEMM's, whose consumers share each tile; `load_warps` share out the rows to copy."""

    group_m: int = 16
    load_warps: int = 4

    def meta(self, in_bytes: int, out_bytes: int, b_is_nk: bool, blackwell: bool = False) -> dict:
        """The kernel's compile-time arguments; that of Blackwell has one task that stores."""
        of = replace(self, consumers=1) if blackwell else self
        return dict(FORM=of.form(in_bytes, out_bytes, b_is_nk), LOAD_WARPS=self.load_warps)

    def blocks(self, in_bytes: int, out_bytes: int, b_is_nk: bool) -> tuple[list[int], list[int], list[int]]:
        """Blocks that descriptors copy at a time: single rows of A and of C."""
        a, b, c = super().blocks(in_bytes, out_bytes, b_is_nk)
        return [1, *a[1:]], b, [1, *c[1:]]
