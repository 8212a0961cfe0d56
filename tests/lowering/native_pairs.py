"""What Triton's own code for one program of two CTAs tells the tensor cores: the oracle for our assembly.

Input: the types, orders, swizzles and shape of a product. Output: what its PTX puts into descriptors:

    native(Product("fp16", rows=128)).instruction        272629776
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from unittest.mock import patch

import triton.experimental.gluon.language as gl
from triton import knobs
from triton._C.libtriton import ir, nvidia
from triton._C.libtriton.gluon_ir import GluonOpBuilder
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout
from triton.experimental.gluon.language.nvidia.hopper.mbarrier import MBarrierLayout

BITS = {"fp16": 16, "bf16": 16, "fp32": 32, "fp8e5": 8, "fp8e4nv": 8, "i8": 8}
_BUILT = {"fp16": "half", "bf16": "bf16", "fp32": "float", "fp8e5": "fp8e5", "fp8e4nv": "fp8e4nv", "i8": "int8"}
TARGET = GPUTarget("cuda", 100, 32)


@dataclass(frozen=True)
class Product:
    """A (2 rows, depth) x B (depth, columns), both CTAs together; `*_k_major` if a buffer is contiguous along K."""

    element: str
    rows: int = 128
    columns: int = 128
    depth: int = 64
    a_k_major: bool = True
    b_k_major: bool = True
    a_swizzle: int = 128
    b_swizzle: int = 128

    def __str__(self) -> str:
        return f"{self.element}-{self.rows}x{self.columns}x{self.depth}-{lying(self)}"


def lying(product) -> str:
    """How both operands lie: "K128-MN64"."""
    return "-".join(f"{'K' if k_major else 'MN'}{swizzle}" for k_major, swizzle in (
        (product.a_k_major, product.a_swizzle), (product.b_k_major, product.b_swizzle)))


@dataclass(frozen=True)
class Told:
    """Of each step along K the low and the high word of A's and of B's descriptor, without the buffers' addresses."""

    kind: str
    instruction: int
    a: tuple[tuple[int, int], ...]
    b: tuple[tuple[int, int], ...]


def native(product: Product) -> Told:
    """What Triton's code says of a product."""
    return _told(ptx_of(lambda b: _product(b, product)))


# Passes that look for hazards among all bytes of the buffers and put barriers and fences between ops: nine tenths of the time, and
# nothing of what a descriptor or an instruction is.
_HAZARDS = ((nvidia.passes.ttgpuir, "add_membar"), (nvidia.passes.ttnvgpuir, "add_proxy_fence_insertion"),
            (nvidia.passes.ttnvgpuir, "add_tmem_barrier_insertion"))


def ptx_of(fill: Callable[[GluonOpBuilder], None]) -> str:
    """The PTX of a kernel of one program of two CTAs, whose body `fill` makes; no barriers and fences but those it asks for."""
    backend, context = make_backend(TARGET), ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    options = backend.parse_options({"num_warps": 4, "num_ctas": 2})
    b = GluonOpBuilder(context, options.arch)
    b.options = options
    module = b.create_module()
    for name, attribute in (("ttg.target", b.get_string_attr("cuda:100")), ("ttg.num-warps", b.get_int32_attr(4)),
                            ("ttg.num-ctas", b.get_int32_attr(2)), ("ttg.threads-per-warp", b.get_int32_attr(32)),
                            ("ttng.two-ctas", b.get_bool_attr(True))):
        module.set_attr(name, attribute)
    b.set_loc("native_pairs.py", 1, 1)
    function = b.get_or_insert_function(module, "native", b.get_function_ty([], []), "public", False)
    module.push_back(function)
    b.set_insertion_point_to_start(function.add_entry_block())
    fill(b)
    b.ret([])
    module.context = context
    stages: dict = {}
    backend.add_stages(stages, options, _Gluon)
    metadata = {"target": TARGET, **options.__dict__}
    names = list(stages)
    text = module
    with knobs.compilation.scope(), ExitStack() as without:
        for passes, name in _HAZARDS:
            without.enter_context(patch.object(passes, name, lambda *_: None))
        for name in names[names.index("llir"):names.index("ptx") + 1]:
            text = stages[name](text, metadata)
    return text


def buffer(b: GluonOpBuilder, element: str, shape: list[int], layout):
    """A buffer in shared memory."""
    return b.create_local_alloc(b.get_shared_mem_desc_ty(getattr(b, f"get_{element}_ty")(), shape, layout._to_ir(b), shape))


def columns(b: GluonOpBuilder, element, shape: list[int], layout):
    """A buffer in tensor memory."""
    return b.create_tmem_alloc(b.get_tensor_mem_desc_ty(element, shape, layout._to_ir(b), shape), None)


def accumulator(b: GluonOpBuilder, element, rows: int, width: int):
    """The sums of both CTAs, `rows` of them in each."""
    layout = TensorMemoryLayout((rows, width), 1, two_ctas=True, cga_layout=[[1, 0]])
    return columns(b, element, [2 * rows, width], layout)


def barrier(b: GluonOpBuilder):
    done = buffer(b, "int64", [2], MBarrierLayout(cga_layout=[[1]]))
    b.create_mbarrier_init(done, 1)
    return done


def _product(b: GluonOpBuilder, product: Product) -> None:
    bits, element = BITS[product.element], _BUILT[product.element]
    left = buffer(b, element, [2 * product.rows, product.depth], gl.NVMMASharedLayout(
        product.a_swizzle, bits, 2, transposed=not product.a_k_major, cga_layout=[[1, 0]]))
    right = buffer(b, element, [product.depth, product.columns], gl.NVMMASharedLayout(
        product.b_swizzle, bits, 2, transposed=product.b_k_major, cga_layout=[[0, 1]]))
    done = barrier(b)
    acc = accumulator(b, b.get_int32_ty() if product.element == "i8" else b.get_float_ty(), product.rows, product.columns)
    true = b.get_int1(True)
    b.create_tcgen05_mma(left, right, acc, b.get_int1(False), true, [done], [true], True, False)
    b.create_mbarrier_wait(done, b.get_int32(0), true, [])


class _Gluon:
    """The language of a module that is TTGIR from the start."""


def _told(ptx: str) -> Told:
    steps, kind, described = [], "", 0
    for line, known in followed(ptx):
        if match := re.search(r"tcgen05\.mma\.cta_group::2\.kind::(\w+) \[[^]]*\], (%rd\d+), (%rd\d+), (%r\d+)", line):
            kind, described = match[1], known[match[4]][1]
            steps.append((known[match[2]][1:], known[match[3]][1:]))
    return Told(kind, described, tuple(a for a, _ in steps), tuple(b for _, b in steps))


def followed(ptx: str) -> Iterator[tuple[str, dict[str, tuple]]]:
    """The lines of straight code, each with what is known before it of the registers: ("word", what has been added to an address in
    units of 16 bytes, or a constant), ("pair", low word, high word), ("column", what has been added to that of all tensor
    memory)."""
    known: dict[str, tuple] = {}
    for line in ptx.splitlines():
        yield line, known
        if match := re.match(r"\s*bfe\.u32\s+(%r\d+), %r\d+, 4, 1[45];", line):
            known[match[1]] = ("word", 0)
        elif match := re.match(r"\s*ld\.shared\.b32\s+(%r\d+), \[global_smem\];", line):
            known[match[1]] = ("column", 0)
        elif match := re.match(r"\s*(?:or\.b32|add\.s32)\s+(%r\d+), (%r\d+), (-?\d+);", line):
            if match[2] in known:
                kind, value = known[match[2]]
                known[match[1]] = (kind, value + int(match[3]))
        elif match := re.match(r"\s*mov\.b32\s+(%r\d+), (-?\d+);", line):
            known[match[1]] = ("word", int(match[2]) & 0xFFFFFFFF)
        elif match := re.match(r"\s*mov\.b64\s+(%rd\d+), \{(%r\d+), (%r\d+)\};", line):
            if match[2] in known and match[3] in known:
                known[match[1]] = ("pair", known[match[2]][1], known[match[3]][1])
