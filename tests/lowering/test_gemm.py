"""What ptxas says of the library's GEMM: wgmma overlaps, nothing spills."""

import re

import pytest

from mimw.kernels.gemm.configs import Configuration
from mimw.kernels.gemm.kernel import GemmForm, gemm
from tests.compiling import to_assembly
from tests.lowering.assembly import assembled
from tests.lowering.harness import Case


def gemm_ptx(configuration: Configuration, dtype: str, is_nk: bool) -> str:
    size = {"bf16": 2, "fp8e4nv": 1}[dtype]
    a, b, c = (",".join(map(str, block)) for block in configuration.blocks(size, 2, is_nk))
    signature = {"a_desc": f"tensordesc<{dtype}[{a}]>", "b_desc": f"tensordesc<{dtype}[{b}]>", "c_desc": f"tensordesc<bf16[{c}]>",
                 "M": "i32", "N": "i32", "K": "i32"}
    form = GemmForm(configuration.tiles(size, 2, is_nk), configuration.stages)
    return Case(gemm, signature, {"FORM": form}).compiled(by=to_assembly, num_warps=4).stage("ptx")


@pytest.mark.long(but=["ping-pong"], everywhere=True)       # the oracle below has bf16
@pytest.mark.parametrize("configuration, dtype, is_nk", [
    (Configuration(), "bf16", False), (Configuration(), "bf16", True), (Configuration(), "fp8e4nv", True),
    (Configuration(bm=64, bn=256, ping_pong=True), "bf16", False),
], ids=["bf16", "bf16-nk", "fp8", "ping-pong"])
def test_products_overlap_and_nothing_spills(configuration, dtype, is_nk, tmp_path):
    said = assembled(gemm_ptx(configuration, dtype, is_nk), tmp_path)
    assert "serialized" not in said and "C7510" not in said
    assert re.search(r"\b0 bytes spill stores, 0 bytes spill loads", said)


@pytest.mark.long(shown_by="test_products_overlap_and_nothing_spills")
def test_ptxas_sees_a_product_read_before_its_wait(tmp_path):
    """The oracle of the test above: a move of an accumulator before the wait makes ptxas serialise."""
    ptx = gemm_ptx(Configuration(), "bf16", False)
    last = ptx.rindex("wgmma.commit_group")
    register = re.findall(r"wgmma\.mma_async\S* \{(%\w+)", ptx[:last])[-1]
    end = ptx.index("\n", last)
    broken = f"{ptx[:end]}\n\tadd.f32 {register}, {register}, {register};{ptx[end:]}"
    assert "serialized" in assembled(broken, tmp_path)
