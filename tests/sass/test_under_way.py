"""Registers of products under way, in machine code of a few lines and of two kernels."""

import os

import pytest
from triton.backends.nvidia import compiler

from mimw.tools.orchestrate.touched import touched
from mimw.tools.sass import touches
from tests.products_under_way import Seen, seen
from tests.sass.overwritten import compiled

START = "HGMMA.64x64x16.F32 R24, R56, gdesc[UR8].tnspB, R24, gsb0"      # sums in R24 to R55, A in R56 to R59
SHARED = "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24, gsb0"
WAIT, WAIT_1 = "WARPGROUP.DEPBAR.LE gsb0, 0x0", "WARPGROUP.DEPBAR.LE gsb0, 0x1"


def code(*texts):
    """As nvdisasm prints it: an instruction has 16 bytes."""
    return "\n".join(f"        /*{16 * at:04x}*/                   {text} ;" for at, text in enumerate(texts))


def found(*texts):
    return [(touch.at, touch.does, touch.register) for touch in touches(code(*texts))]


@pytest.mark.parametrize("text, what", [
    ("FADD R58, R2, R3", ("writes", 58)),
    ("@!P0 LDS.128 R56, [R4+UR8+0x4900]", ("writes", 56)),
    ("SHFL.BFLY PT, R57, R2, 0x1, 0x1f", ("writes", 57)),
    ("ATOMG.E.ADD.STRONG.GPU PT, R59, desc[UR6][R2.64], R5", ("writes", 59)),
    ("IMAD.WIDE R58, R2, 0x4, R4", ("writes", 58)),
    ("SOMETHING.NEW R56, R2", ("writes", 56)),
    ("FADD R2, R2, |R24|", ("touches", 24)),
    ("STG.E desc[UR6][R2.64], R55", ("touches", 55)),
    ("CS2R R40, SRZ", ("touches", 40)),
    ("HGMMA.64x64x16.F32 R88, R52, gdesc[UR8], RZ, !UPT, gsb0", ("touches", 52)),       # its A is a sum of the one before
    ("HGMMA.64x32x16.F32 R40, gdesc[UR8], R40, gsb0", ("touches", 40)),                  # of another shape
    ("HGMMA.64x64x16.F32 R56, gdesc[UR8], RZ, !UPT, gsb0", ("writes", 56)),
])
def test_what_touches_them(text, what):
    assert found(START, text, WAIT, text) == [(1, *what)]


@pytest.mark.parametrize("text", [
    "FADD R2, R56, R57", "STS [R2], R56", "FSETP.GT.AND P0, PT, R56, R3, PT", "STSM.16.M88.4 [R56], R4", "R2UR UR4, R56",
    "FADD R60, R2, R3", "FADD R23, R2, R3", "SYNCS.ARRIVE.TRANS64 RZ, [UR4], RZ", "BAR.SYNC.DEFER_BLOCKING R56, 0x80",
    "HGMMA.64x64x16.F32 R24, R56, gdesc[UR10].tnspB, R24, gsb0", "HGMMA.64x64x16.F32 R88, R56, gdesc[UR8], RZ, !UPT, gsb0",
    "HGMMA.64x32x16.F16 R60, gdesc[UR8], RZ, !UPT, gsb0"])
def test_what_does_not(text):
    assert found(START, text, WAIT) == []


def test_a_report_says_what_and_where():
    touch, = touches(code("NOP", START, "FADD R58, R2, R3"))
    assert str(touch) == f"0x0020: FADD R58, R2, R3 writes R58, which {START} reads until it is over"
    touch, = touches(code(SHARED, "FADD R2, R30, R3"))
    assert str(touch) == f"0x0010: FADD R2, R30, R3 touches R30, which {SHARED} has not done yet"


def test_waits_leave_the_youngest_under_way():
    other = "HGMMA.64x64x16.F32 R88, R60, gdesc[UR8].tnspB, R88, gsb0"
    writes = "MOV R56, R2", "MOV R60, R2"
    assert found(START, other, WAIT_1, *writes) == [(4, "writes", 60)]
    assert found(START, other, WAIT, *writes) == []
    assert found(START, other, *writes) == [(2, "writes", 56), (3, "writes", 60)]
    first = "HGMMA.64x64x16.F32 R24, R64, gdesc[UR8].tnspB, R24"        # of a group that START ends
    assert found(first, START, other, WAIT_1, "MOV R64, R2") == [] and found(first, START, WAIT_1, "MOV R64, R2")
    assert found(first, "MOV R64, R2", START, WAIT) == [(1, "writes", 64)]      # no wait ends a group that is open


def test_every_way_is_followed():
    """A loop: the next trip writes what the product of this one reads; a way around the wait; code behind the kernel's end."""
    trip = "MOV R56, R2", START
    assert found(*trip, "@P0 BRA 0x0", WAIT, "EXIT") == [(0, "writes", 56)]
    assert found(*trip, WAIT, "@P0 BRA 0x0", "EXIT") == []
    assert found(START, "@P0 BRA 0x30", WAIT, "MOV R56, R2", "EXIT") == [(3, "writes", 56)]
    assert found(START, "BRA 0x30", "MOV R56, R2", WAIT, "EXIT") == []
    assert found(START, "EXIT", "MOV R56, R2") == [] and found(START, "@P0 EXIT", "MOV R56, R2") == [(2, "writes", 56)]
    assert found("BRX R2 -0x10", START, "MOV R56, R2", WAIT, "EXIT") == [(2, "writes", 56)]
    far = "BSSY B0, 0x50", START, "@P0 BRA 0x40", "BSYNC B0", "BSYNC B0", "MOV R56, R2", WAIT, "EXIT"
    assert found(*far) == [(5, "writes", 56)]
    assert found(START, "CALL.REL.NOINC 0x40", WAIT, "EXIT", "MOV R56, R2", "RET.REL.NODEC R4 0x0") == [(4, "writes", 56)]
    assert found(*(START, ) * 9, WAIT_1, "MOV R56, R2", WAIT, "EXIT") == [(10, "writes", 56)]


def test_as_triton_prints_it():
    """Labels in place of addresses."""
    text = f"Function:k\nLBB0:\n--:-:-:-:1\tMOV R56, R2;\n--:-:-:Y:1\t{START};\n--:-:-:-:5\t@P0 BRA LBB0;\n--:-:-:-:2\t{WAIT};\n"
    assert [(touch.at, touch.does) for touch in touches(text)] == [(0, "writes")]


def test_a_product_that_reads_what_the_next_trip_writes():
    """The kernel that a GPU got wrong, and the same one with the wait that it lacks."""
    with seen.of_wrong_kernels():
        bad = touches((made := compiled(1)).sass)
    assert len(bad) > 10 and {touch.does for touch in bad} == {"writes"} and all(touch.product.a for touch in bad)
    assert touched(made).startswith(f"{len(bad)} instructions touch registers of a product under way, as 0x")
    good = compiled(0)
    assert touches(good.sass) == [] and touched(good) == ""
    both = Seen()
    both.add(good.stage("cubin"))
    assert both.failures() == []
    both.add(made.stage("cubin"))
    assert both.failures() == [f"machine code of {os.environ['PYTEST_CURRENT_TEST'].removesuffix(' (call)')}: {len(bad)} "
                               f"instructions touch registers of a product under way, first {bad[0]}"]


def test_what_was_kept_is_looked_at_as_well():
    """The plugin stands around the one that keeps what stages made, so a kernel that is found there is seen."""
    assert compiler.CUDABackend.make_cubin.__code__.co_name == "seeing"
