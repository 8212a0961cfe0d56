"""What Triton's own code for one program of two CTAs tells the tensor cores of block-scaled products, and of copies to tensor
memory.

Input: the formats, orders, swizzles and shape of a product with scales in shared memory; or the shape of a tile. Output: what its
PTX puts into descriptors and addresses:

    native(ScaledProduct("e4m3", "e4m3")).instructions        (278921216, 815792144, 1352663072, 1889534000)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import triton.experimental.gluon.language as gl
from triton._C.libtriton import ir
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout, TensorMemoryScalesLayout

from .native_pairs import accumulator, barrier, buffer, columns, followed, lying, ptx_of

_BUILT = {"e2m1": "int8", "e4m3": "fp8e4nv", "e5m2": "fp8e5"}
_OF_ROWS, _OF_ALL = [[1, 0]], [[0, 0]]      # what the second CTA has: other rows; the same
_ROWS = 128


@dataclass(frozen=True)
class ScaledProduct:
    """A (256, depth) x B (depth, columns), both CTAs together; `depth` counts elements, of which each `block` have a scale."""

    a_format: str
    b_format: str
    block: int = 32
    columns: int = 128
    depth: int = 256
    a_k_major: bool = True
    b_k_major: bool = True
    a_swizzle: int = 128
    b_swizzle: int = 128

    def __str__(self) -> str:
        return f"{self.a_format}-{self.b_format}-{self.block}-{self.columns}x{self.depth}-{lying(self)}"

    @property
    def mixed(self) -> bool:
        """True if one of the operands alone is fp4, and padded."""
        return (self.a_format == "e2m1") != (self.b_format == "e2m1")


@dataclass(frozen=True)
class Told:
    """Of each step along K the instruction, the low and high word of A's and of B's descriptor, and the columns of both scales; and
    the copies of both tables. Without the addresses of buffers and tables."""

    kind: str
    instructions: tuple[int, ...]
    a: tuple[tuple[int, int], ...]
    b: tuple[tuple[int, int], ...]
    scales: tuple[tuple[int, int], ...]
    copies: tuple[tuple[tuple[int, int, int], ...], ...]


def native(product: ScaledProduct) -> Told:
    """What Triton's code says of a product."""
    kind, steps, first = "", [], ()
    text = ptx_of(lambda b: _fill(b, product))
    for line, known in followed(text):
        if match := re.search(r"tcgen05\.mma\.cta_group::2\.kind::([\w.]+) \[[^]]*\], (%rd\d+), (%rd\d+), (%r\d+), "
                              r"\[ (%r\d+) \+ 0 \], \[ (%r\d+) \+ 0 \]", line):
            kind, scales = match[1], tuple(known[match[place]][1] for place in (5, 6))
            first = first or scales
            steps.append((known[match[4]][1], known[match[2]][1:], known[match[3]][1:],
                          tuple(one - start for one, start in zip(scales, first))))
    described, a, b, scales = zip(*steps)
    found, blocks = copies(text, "warpx4.32x128b"), product.depth // product.block // 4
    of_tables = (tuple((high, low, column - start) for high, low, column in some)
                 for start, some in zip(first, (found[:blocks], found[blocks:])))
    return Told(kind, described, a, b, scales, tuple(of_tables))


def copies(text: str, shape: str) -> list[tuple[int, int, int]]:
    """(high word, low word, column) of each copy to tensor memory, by the CTA that leads."""
    found = []
    for line, known in followed(text):
        if match := re.search(rf"tcgen05\.cp\.cta_group::2\.{re.escape(shape)} \[ (%r\d+) \+ 0 \], (%rd\d+);", line):
            low, high = known[match[2]][1:]
            found.append((high, low, known[match[1]][1]))
    return found


def native_tile(swizzle: int, width: int) -> list[tuple[int, int, int]]:
    """What Triton's code says of the copy of a tile of 128 rows of `width` words in each CTA."""

    def fill(b):
        tile = buffer(b, "int32", [2 * _ROWS, width], gl.NVMMASharedLayout(swizzle, 32, 2, cga_layout=_OF_ROWS))
        layout = TensorMemoryLayout((_ROWS, width), 1, two_ctas=True, cga_layout=_OF_ROWS)
        b.create_tmem_copy(tile, columns(b, b.get_int32_ty(), [2 * _ROWS, width], layout))
        done, true = barrier(b), b.get_int1(True)
        b.create_tcgen05_commit(done, true, [])
        b.create_mbarrier_wait(done, b.get_int32(0), true, [])

    return copies(ptx_of(fill), "128x256b")


def _fill(b, product: ScaledProduct) -> None:
    formats = {name: getattr(ir.ScaleDotElemTypeTY, name.upper()) for name in _BUILT}
    width_a, width_b = (product.depth // (1 + (one == "e2m1")) for one in (product.a_format, product.b_format))
    left = buffer(b, _BUILT[product.a_format], [2 * _ROWS, width_a], gl.NVMMASharedLayout(
        product.a_swizzle, 8, 2, not product.a_k_major, product.mixed and product.a_format == "e2m1", cga_layout=[[1, 0]]))
    right = buffer(b, _BUILT[product.b_format], [width_b, product.columns], gl.NVMMASharedLayout(
        product.b_swizzle, 8, 2, product.b_k_major, product.mixed and product.b_format == "e2m1", cga_layout=[[0, 1]]))
    scale, scales = "fp8e4nv" if product.block == 16 else "int8", product.depth // product.block
    tables = []
    for rows, ctas in ((2 * _ROWS, _OF_ROWS), (product.columns, _OF_ALL)):
        table = columns(b, getattr(b, f"get_{scale}_ty")(), [rows, scales], TensorMemoryScalesLayout(ctas))
        tables.append(table)
        if rows >= _ROWS:
            packed = buffer(b, scale, [rows // 128, scales // 4, 32, 4, 4],
                            gl.NVMMASharedLayout(0, 8, 5, cga_layout=[[*ctas[0], 0, 0, 0]]))
            turned = b.create_memdesc_trans(packed, [0, 3, 2, 1, 4])
            b.create_tmem_copy(b.create_memdesc_reshape(turned, [rows, scales]), table)
    done, acc, true = barrier(b), accumulator(b, b.get_float_ty(), _ROWS, product.columns), b.get_int1(True)
    b.create_tcgen05_mma_scaled(left, right, acc, *tables, formats[product.a_format], formats[product.b_format], b.get_int1(False),
                                true, [done], [true], True, False)
    b.create_mbarrier_wait(done, b.get_int32(0), true, [])
