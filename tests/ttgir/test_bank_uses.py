"""Bank conflicts of accesses in TTGIR: the instructions against those of Triton's lowering, and wavefronts."""

import re
from collections import Counter

import pytest
import triton
from triton.backends.compiler import GPUTarget

from mimw.compiler.triton_port.bank_conflicts import bank_conflicts
from mimw.compiler.ttgir.bank_uses import bank_use
from mimw.ir.layouts import Blocked, NvmmaShared, SwizzledShared
from mimw.target import target
from tests.compiling import stopping

SHAPE = (64, 64)
ELEMENTS = {"i8": 8, "f16": 16, "f32": 32}
LANES = "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>"
ROWS = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
COLUMNS = "#ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>"
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>"
WGMMA = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>"
MFMA = "#ttg.amd_mfma<{version = 4, warpsPerCTA = [2, 2], instrShape = [32, 32, 16], isTransposed = true}>"
A = f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>"
B = A.replace("opIdx = 0", "opIdx = 1")
A_OF_BYTES = A.replace("kWidth = 2", "kWidth = 4")
PLAIN = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
TURNED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [0, 1]}>"
TURNED_BYTES = "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 8}>"
COLUMN_BYTES = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>"
TMA = "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>"
# A tile that is stored, the buffer, the tile that is read, the element.
ACCESSES = [(ROWS, SWIZZLED, A, "f16"), (ROWS, SWIZZLED, B, "f16"), (MMA, SWIZZLED, ROWS, "f16"), (COLUMNS, PLAIN, LANES, "f16"),
            (COLUMNS, TURNED, MMA, "f16"), (MMA, TURNED, COLUMNS, "f16"), (ROWS, TMA, COLUMNS, "f16"), (LANES, PLAIN, ROWS, "f32"),
            (COLUMNS, TURNED, B, "f32"), (MMA, TURNED_BYTES, MMA, "i8"), (ROWS, TURNED_BYTES, A_OF_BYTES, "i8")]
_INSTRUCTION = re.compile(r"\b(ld|st)(?:matrix\.sync\.aligned\.(m\d+n\d+)\.x(\d)(\.trans)?|\.shared)\.?([\w.]*)")


def written(chip):
    """The TTGIR of a kernel with all these accesses."""
    lines = []
    for number, (stored, buffer, read, element) in enumerate(ACCESSES):
        def tensor(layout, of=element):
            return f"tensor<64x64x{of}, {layout}>"

        pointer = f"!tt.ptr<{element}>"
        memory = f"!ttg.memdesc<64x64x{element}, {buffer}, #ttg.shared_memory, mutable>"
        lines += [f"%p{number} = tt.splat %{element} : {pointer} -> {tensor(stored, pointer)}",
                  f"%x{number} = tt.load %p{number} : {tensor(stored, pointer)}",
                  f"%m{number} = ttg.local_alloc : () -> {memory}",
                  f"ttg.local_store %x{number}, %m{number} : {tensor(stored)} -> {memory}",
                  f"%y{number} = ttg.local_load %m{number} : {memory} -> {tensor(read)}",
                  f"%q{number} = tt.splat %{element} : {pointer} -> {tensor(read, pointer)}",
                  f"tt.store %q{number}, %y{number} : {tensor(read, pointer)}"]
    arguments, body = ", ".join(f"%{element}: !tt.ptr<{element}>" for element in ELEMENTS), "\n".join(lines)
    return (f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:{chip}", '
            f'"ttg.threads-per-warp" = 32 : i32}} {{\ntt.func public @k({arguments}) {{\n{body}\ntt.return\n}}\n}}\n')


def lowered(path, chip):
    """How many instructions of which kind, with bytes a lane, Triton makes of it."""
    path.write_text(written(chip))
    with stopping(("ptx", )):
        options = {"num_warps": 4, "enable_fp_fusion": True}
        ptx = triton.compile(str(path), target=GPUTarget("cuda", chip, 32), options=options).asm["ptx"]
    found = Counter()
    for kind, matrix, together, turned, types in _INSTRUCTION.findall(ptx):
        if matrix:
            found[f"{kind}matrix{turned}", int(together) * (8 if matrix == "m16n16" else 4)] += 1
        else:
            vector, bits = re.search(r"v(\d)", types), int(re.search(r"[bfsu](\d+)$", types)[1])
            found[f"{kind}.shared", bits // 8 * (int(vector[1]) if vector else 1)] += 1
    return found


@pytest.mark.parametrize("chip, name", [(80, "sm_80"), (90, "sm_90a"), (100, "sm_100a")])
def test_instructions_are_those_of_tritons_lowering(tmp_path, chip, name):
    expected, found = lowered(tmp_path / "accesses.ttgir", chip), Counter()
    for stored, buffer, read, element in ACCESSES:
        for op, tile in (("ttg.local_store", stored), ("ttg.local_load", read)):
            use = bank_use(op, tile, buffer, SHAPE, ELEMENTS[element], target(name))
            found[use.how, use.width] += use.instructions
    assert found == expected
    assert ("stmatrix", 16) in found or chip < 90
    assert ("ldmatrix.trans", 16) in found


def test_conflicts_are_tritons():
    """The excess of one wavefront, of accesses that are no matrices."""
    tiles = {ROWS: Blocked((1, 8), (4, 8), (4, 1), (1, 0)), COLUMNS: Blocked((8, 1), (8, 4), (1, 4), (0, 1)),
             LANES: Blocked((1, 1), (1, 32), (4, 1), (1, 0))}
    buffers = {PLAIN: SwizzledShared(1, 1, 1, (1, 0)), SWIZZLED: SwizzledShared(8, 1, 8, (1, 0)),
               TURNED: SwizzledShared(8, 1, 8, (0, 1)), TMA: NvmmaShared(128, 16, 2)}
    cases = [(tile, buffer) for tile in tiles for buffer in buffers]
    theirs = bank_conflicts([(tiles[tile], buffers[buffer], SHAPE, 16) for tile, buffer in cases], GPUTarget("cuda", 80, 32))
    uses = [bank_use("ttg.local_store", tile, buffer, SHAPE, 16, target("sm_80")) for tile, buffer in cases]
    assert [use.excess // use.least for use in uses] == theirs and len(set(theirs)) > 2


@pytest.mark.parametrize("op, tile, buffer, bits, chip, expected", [
    ("local_load", B, SWIZZLED, 16, "sm_80", (32, 32)),      # 8 instructions of 4 matrices, each of 8 rows of 16 bytes
    ("local_load", B, PLAIN, 16, "sm_80", (256, 32)),        # whose rows are 128 bytes apart
    ("local_load", A, PLAIN, 16, "sm_80", (256, 32)),
    ("local_load", A, SWIZZLED, 16, "sm_80", (32, 32)),
    ("local_store", WGMMA, TMA, 16, "sm_90a", (16, 16)),
    ("local_store", WGMMA, PLAIN, 16, "sm_90a", (128, 16)),
    ("local_load", MMA, TURNED_BYTES, 8, "sm_100a", (8, 8)),      # rows of 64 bytes, two a line of the banks
    ("local_load", MMA, COLUMN_BYTES, 8, "sm_100a", (32, 8)),
])
def test_wavefronts(op, tile, buffer, bits, chip, expected):
    use = bank_use(op, tile, buffer, SHAPE, bits, target(chip))
    assert (use.wavefronts, use.least) == expected and use.excess == expected[0] - expected[1]


def test_a_part_of_a_buffer_lies_in_the_whole():
    """Of rows of 128 bytes a tile of 16 columns sees 32: alone, its rows would follow each other."""
    alone, part = (bank_use("local_load", A, PLAIN, (64, 16), 16, target("sm_80"), whole) for whole in (None, SHAPE))
    assert (alone.wavefronts, part.wavefronts, part.least) == (16, 64, 8)


def test_amds_operands_are_turned_on_the_way():
    """gfx950 reads B, whose K runs down the columns, by ds_read_b64_tr_b16; gfx1250's is not known."""
    b = f"#ttg.dot_op<{{opIdx = 1, parent = {MFMA}, kWidth = 8}}>"
    use = bank_use("local_load", b, PLAIN, SHAPE, 16, target("gfx950"))
    assert (use.how, use.instructions, use.width) == ("ds_read", 8, 8)
    padded = "#ttg.padded_shared<[512:+8] {order = [1, 0], shape = [64, 64]}>"
    a = f"#ttg.dot_op<{{opIdx = 0, parent = {MFMA}, kWidth = 8}}>"
    assert [bank_use("local_load", a, buffer, SHAPE, 16, target("gfx950")).wavefronts for buffer in (PLAIN, padded)] == [128, 32]
    wmma = "#ttg.amd_wmma<{version = 3, isTranspose = true, ctaLayout = {warp = [[0, 1], [1, 0]]}, instrShape = [16, 16, 32]}>"
    turned = f"#ttg.dot_op<{{opIdx = 1, parent = {wmma}, kWidth = 8}}>"
    assert bank_use("local_load", turned, PLAIN, SHAPE, 16, target("gfx1250")) is None
    assert bank_use("local_load", turned, TURNED, SHAPE, 16, target("gfx1250")).how == "ds_read"


def test_a_sentence():
    use = bank_use("ttg.local_load", COLUMNS, PLAIN, SHAPE, 32, target("sm_90a"))
    assert use.sentence() == "local_load: 256 wavefronts a warp, 32 without bank conflicts (32 ld.shared of 4 bytes a lane)"


def test_other_ops_are_refused():
    with pytest.raises(ValueError, match="ttg.async_copy_global_to_local is no access of threads to a whole tile"):
        bank_use("ttg.async_copy_global_to_local", ROWS, PLAIN, SHAPE, 16, target("sm_90a"))
