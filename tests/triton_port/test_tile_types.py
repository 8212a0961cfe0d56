"""Types of tiles as text: read, changed, and made into types again."""

from mimw.compiler.triton_port.codegen import mlir_context
from mimw.compiler.triton_port.tile_types import Tile, contiguous, lying_along, number, numbers, types

BLOCKED = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>"
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 4], instrShape = [16, 8]}>"
OPERAND = f"#ttg.dot_op<{{opIdx = 1, parent = {MMA}, kWidth = 4}}>"
BUFFER = ("!ttg.memdesc<128x32xbf16, #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>, "
          "#ttg.shared_memory>")


def test_a_type_is_read_changed_and_made():
    tile = Tile.of(f"tensor<64x32xf8E4M3FN, {BLOCKED}>")
    assert (tile.shape, tile.element, tile.bits) == ((64, 32), "f8E4M3FN", 8)
    context = mlir_context()    # the types live no longer
    made = types([tile, tile.in_layout(OPERAND), BUFFER], context)
    assert [str(type_) for type_ in made] == [str(tile), f"tensor<64x32xf8E4M3FN, {OPERAND}>", BUFFER]
    assert Tile.of(BUFFER) is None and Tile.of("i32") is None and Tile.of(f"tensor<8x!tt.ptr<f32>, {BLOCKED}>") is None


def test_what_a_layout_says():
    assert numbers("warpsPerCTA", OPERAND) == [1, 4] and number("kWidth", OPERAND) == 4 and number("kWidth", BLOCKED) == 0


def test_a_buffer_lies_along_the_other_dimension():
    turned = lying_along(BUFFER, 0)
    assert (contiguous(BUFFER), contiguous(turned)) == (1, 0)
    assert "swizzlingByteWidth = 128, transposed = true" in turned and lying_along(turned, 1) == BUFFER
    plain = ("!ttg.memdesc<128x32xbf16, #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>, "
             "#ttg.shared_memory>")
    assert contiguous(plain) == 0 and lying_along(plain, 1) is None
    assert contiguous(plain.replace("swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, ", "padded_shared<[32:+4] {")) is None
