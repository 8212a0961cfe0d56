"""What benchmarks/loops.py finds in machine code, of a text with two roles."""

from types import SimpleNamespace

from benchmarks import loops

SASS = """
LBB0:
--:-:-:-:1\tS2R R0, SR_TID.X;
LBB1:
--:-:-:-:1\tLDL R5, [R1];
LBB2:
--:-:-:-:1\tHGMMA.64x64x16.F32 R24, gdesc[UR4], RZ;
--:-:-:-:1\tR2UR UR4, R5;
--:-:-:-:1\t@P0 BRA LBB2;
--:-:-:-:1\t@P1 BRA LBB1;
--:-:-:-:1\tEXIT;
LBB3:
--:-:-:-:1\tHGMMA.64x64x16.F32 R24, gdesc[UR4], R24;
--:-:-:-:1\tHGMMA.64x64x16.F32 R24, gdesc[UR4], R24;
--:-:-:-:1\tLDL R5, [R1];
--:-:-:-:1\tLDL R6, [R1+0x4];
--:-:-:-:1\t@!P0 BRA LBB3;
LBB4:
--:-:-:-:1\tUTMALDG.2D [UR8], [UR4];
--:-:-:-:1\t@P0 BRA LBB4;
--:-:-:-:1\tUSETMAXREG.DEALLOC.CTAPOOL 0x18;
LBB5:
--:-:-:-:1\tSYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R4], R56;
--:-:-:-:1\t@P1 BRA LBB3;
"""


def test_innermost_loops_of_each_role():
    """Neither the loop around another, nor the producer's, nor the wait at the end, which goes back to its role."""
    assert list(map(str, loops.loops(SASS))) == ["3 instructions, 1 products, 1 R2UR", "5 instructions, 2 products, 2 LDL"]


TWO_GROUPS = """
LBB0:
\tHGMMA.64x16x16.F32 R24, gdesc[UR4], RZ, !UPT, gsb0;
\tMUFU.EX2 R8, R40;
\tHGMMA.64x32x16.F32 R40, R4, gdesc[UR4], R40;
\tHGMMA.64x32x16.F32 R40, R8, gdesc[UR4], R40, gsb0;
	WARPGROUP.DEPBAR.LE gsb0, 0x1;
\tFADD R24, R24, R25;
\tMUFU.EX2 R8, R24;
\tWARPGROUP.DEPBAR.LE gsb0, 0x0;
\tMUFU.EX2 R9, R55;
\t@P0 BRA LBB0;
"""


def test_what_lies_beside_products():
    """Sums of 64 x 16 are 8 registers, of 64 x 32 16; the wait for all but one leaves the second group under way."""
    (loop, ) = loops.loops(TWO_GROUPS)
    assert loop.exponentials() == (2, 3) and str(loop).endswith("2 of 3 exponentials beside products")


def test_kernels_by_name(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(loops.mimw, "compile", lambda kernel, *args, **options: seen.append(kernel) or SimpleNamespace(sass=SASS))
    monkeypatch.setattr("sys.argv", ["loops", "--kernels", "gradients over"])
    loops.main()
    assert seen == [loops.ring_attention_backward.kernel] * 2
    assert capsys.readouterr().out.splitlines()[3] == "gradients over two GPUs, causal     5 instructions, 2 products, 2 LDL"
