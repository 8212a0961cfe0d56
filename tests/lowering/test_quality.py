"""Our layouts and pass list against stock Triton's: the same kernels come out with the same memory traffic."""

import functools
import re

import pytest

from mimw.runtime.compile_kernel import compile_kernel
from mimw.runtime.compiled import Compiled
from tests.compiling import to_assembly
from tests.kernels import plain_tl as plain
from tests.lowering.assembly import assembled
from tests.lowering.harness import Case

_SIZES = {
    "softmax": {"B": 4096}, "layernorm": {"B": 2048}, "matmul": {"BM": 64, "BN": 64, "BK": 32},
    "matmul_by_sums": {"BM": 128, "BN": 64, "BK": 32}, "attention": {"BM": 64, "BN": 64, "D": 64}, "transpose": {"B": 64},
    "tiles3d": {"B": 64}, "scan": {"B": 2048}, "argmax": {"R": 32, "B": 256}, "sort": {"R": 4, "B": 32},
    "split_and_join": {"R": 32, "B": 128}, "gather": {"R": 32, "B": 128}, "histogram": {"B": 1024}, "unrolled": {"B": 1024},
    "persistent": {"B": 1024}, "grouped": {"R": 16, "B": 256}, "colsum": {"R": 32, "B": 128}, "atomics": {"B": 1024},
    "total": {"R": 32, "B": 128}, "gemv": {"R": 16, "B": 512}, "cat": {"B": 512},
}
_COUNTED = {
    "loads": r"ld\.global", "16-byte loads": r"ld\.global\S*\.v4", "stores": r"st\.global", "16-byte stores": r"st\.global\S*\.v4",
    "asynchronous copies": r"cp\.async\.c[ag]", "shared writes": r"st\.shared|stmatrix", "shared reads": r"ld\.shared|ldmatrix",
    "syncs": r"bar\.sync", "shuffles": r"shfl", "wgmma": r"wgmma\.mma_async",
}


@functools.cache
def compiled(name: str, ours: bool) -> Compiled:
    """The kernel on bf16 with every argument divisible by 16, by our path or by stock Triton's; ours as far as the cubin."""
    kernel = getattr(plain, name)
    constexprs = {**_SIZES[name], "OURS": ours}
    arguments = [name for name in kernel.arg_names if name not in constexprs]
    signature = {name: "*bf16" if name in ("x", "y", "z", "w", "b", "o") else "i32" for name in arguments}
    attrs = {(kernel.arg_names.index(name), ): [["tt.divisibility", 16]] for name in arguments}
    return Case(kernel, signature, constexprs, attrs=attrs).compiled(by=compile_kernel if ours else to_assembly)


def counts(kernel: Compiled) -> dict[str, int]:
    ptx = kernel.stage("ptx")
    found = {what: len(re.findall(pattern, ptx)) for what, pattern in _COUNTED.items()}
    found["syncs"] -= 2 * ptx.count("fence.acq_rel.gpu")    # a barrier on either side
    return found | {"conversions": kernel.stage("ttgir").count("convert_layout"), "shared bytes": kernel.metadata.shared}


@pytest.mark.filterwarnings("ignore:tl.cat")
@pytest.mark.long(everywhere=True, but=[
    "argmax", "colsum", "softmax", "total", "split_and_join", "persistent", "cat", "histogram", "matmul"])
@pytest.mark.parametrize("name", _SIZES)
def test_the_same_traffic_as_stock(name):
    ours, stock = compiled(name, True), compiled(name, False)
    assert "fence.acq_rel.gpu" in ours.stage("ptx") and "fence.acq_rel.gpu" not in stock.stage("ptx")
    assert ours.stage("cubin") and counts(ours) == counts(stock)


@pytest.mark.long(but=["layernorm", "softmax", "matmul"], everywhere=True)
@pytest.mark.parametrize("name", ["softmax", "layernorm", "matmul", "matmul_by_sums"])
def test_no_more_registers_than_stock(name, tmp_path):
    ours, stock = (assembled(compiled(name, path).stage("ptx"), tmp_path) for path in (True, False))
    assert "0 bytes spill stores" in ours
    registers = [int(re.search(r"Used (\d+) registers", said)[1]) for said in (ours, stock)]
    assert registers[0] <= registers[1]
