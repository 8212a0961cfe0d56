"""A chip with engines: what a vector, a product and a copy take, worked out by hand from the published rates."""

import pytest

from mimw.ir import Op, Scalar, Tensor, Value
from mimw.simulator.costs import EngineModel, model
from mimw.target import TARGETS
from mimw.target.spaces import ASCEND_220X

FP16, FP32 = Scalar("fp16"), Scalar("fp32")
MODEL = model("ascend_910b")


def op(name, element, shape):
    return Op(name, (Value(Tensor(element, shape)), Value(Tensor(element, shape))), (Value(Tensor(element, shape)), ))


def test_vectors_take_256_bytes_a_cycle():
    assert isinstance(MODEL, EngineModel) and MODEL.core == "core"
    assert MODEL.vector(op("fadd", FP16, (128, 64))) == 20 + 128 * 64 * 2 / 256
    assert MODEL.vector(op("fadd", FP32, (128, 64))) == 20 + 128 * 64 * 4 / 256
    assert MODEL.vector(op("exp2", FP32, (128, 64))) == 20 + 4 * 128 * 64 * 4 / 256
    assert MODEL.vector(op("trans", FP32, (128, 64))) == 0


@pytest.mark.parametrize("m, n, k, bits, cycles", [
    (128, 256, 64, 16, 512), (128, 256, 64, 8, 256), (1, 16, 16, 16, 1), (17, 16, 16, 16, 2), (128, 128, 64, 32, 1024)])
def test_products_take_blocks_of_16(m, n, k, bits, cycles):
    assert MODEL.product(m, n, k, bits) == 30 + cycles


def test_copies_go_at_the_rate_of_their_path():
    assert MODEL.copy("MTE1", "l0a", 16384) == 20 + 32 and MODEL.copy("MTE1", "l0b", 16384) == 20 + 64
    assert MODEL.copy("MTE3", "global", 6400) == 30 + 100 and MODEL.copy("FixPipe", "global", 25600) == 30 + 100
    assert MODEL.copy("MTE2", "ub", 6400) == 30     # as fast as memory gives it
    engines = {path.engine.lower() for space in ASCEND_220X for path in space.copies}
    assert all(f"{engine}.start" in MODEL.figures for engine in engines)


def test_the_chip_and_its_model_agree():
    chip = TARGETS["ascend_910b"]
    assert MODEL.sms == chip.multiprocessors and MODEL["chip.vector_cores"] == 2 * chip.multiprocessors
    assert MODEL.residency(0, 4, 128) == (1, "its scalar unit")
