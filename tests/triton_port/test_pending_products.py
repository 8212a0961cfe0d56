"""Waits for products whose operands Triton's pipeline copies over: which of them change, and what stays as it is."""

import re
from threading import Event, Thread

import pytest
from triton import knobs
from triton.backends.compiler import GPUTarget

from mimw.compiler.triton_port.nvidia_stage import our_nvidia_stage
from mimw.compiler.triton_port.pending_products import _allocated, settle_products
from mimw.compiler.triton_port.runtime import compiled_ttgir
from mimw.compiler.triton_port.text import any_context, module_of
from tests.kernels.stock_pipelines import operand, operand_and_values, product_of_a_product, two_products


def compiled(kernel, stages=3, mended=False):
    """The TTGIR that Triton makes, or that mimw makes of it."""
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "d": "*fp16", "n": "i32"}
    aligned = {(place, ): [["tt.divisibility", 16]] for place in range(4)}
    options = {"num_stages": stages, "enable_fp_fusion": True}
    return compiled_ttgir(kernel, types, {}, aligned, GPUTarget("cuda", 90, 32), options, mended)


def pendings(text):
    """The products that each wait of the loop leaves pending."""
    loop = text[text.index("scf.for"):text.index("scf.yield")]
    return [int(count) for count in re.findall(r"warp_group_dot_wait .*?pendings = (\d+)", loop)]


@pytest.mark.parametrize("kernel, before, after", [
    (operand_and_values, [1], [0]), (two_products, [2], [0]), (product_of_a_product, [0], [0, 0]), (operand, [1], [1])])
def test_waits(kernel, before, after):
    assert pendings(compiled(kernel)) == before
    assert pendings(compiled(kernel, mended=True)) == after


def test_a_loop_that_is_right_stays_as_it_is():
    assert compiled(operand, 4) == compiled(operand, 4, mended=True)
    assert compiled(operand_and_values, 1) == compiled(operand_and_values, 1, mended=True)


def test_memory_of_the_author_is_left_to_the_author():
    module = module_of(compiled(operand_and_values), any_context())
    settle_products(module, _allocated(module))
    assert pendings(str(module)) == [1]
    settle_products(module)
    assert pendings(str(module)) == [0]


def test_threads_compile_at_once():
    """The hook is there as long as one thread is inside, and a thread outside keeps Triton's stages."""
    both, seen = [Event(), Event()], []

    def other():
        with our_nvidia_stage():
            both[0].set()
            both[1].wait()
        seen.append(knobs.runtime.add_stages_inspection_hook)

    thread = Thread(target=other)
    thread.start()
    both[0].wait()
    hook, stages = knobs.runtime.add_stages_inspection_hook, {"ttgir": None}
    assert hook() == ("", "")
    hook(object(), stages, None, None)
    assert stages == {"ttgir": None}
    with our_nvidia_stage():
        both[1].set()
        thread.join()
        assert seen == [hook] and knobs.runtime.add_stages_inspection_hook is hook
    assert knobs.runtime.add_stages_inspection_hook is None
