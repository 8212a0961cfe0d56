"""The shapes and rules that a header has from a kernel's contract: which contract, which way around, which extents are known."""

import json

import numpy as np
import pytest

from mimw.kernels import attention, batched_gemm, cross_entropy, gemm, swiglu
from mimw.runtime.export import export
from mimw.runtime.export.arguments import Described, Number, Pointer
from mimw.runtime.export.contracts import Said, said_by_contract
from tests.kernels import exported

M, N, K = (Number(name, "i32", False) for name in "MNK")


def matrix(name: str, rank: int = 2) -> Described:
    return Described(name, "fp16", rank, (64, ) * rank, 6, 3, 2)


def pointer(name: str) -> Pointer:
    return Pointer(name, "fp32", True)


def array(*shape: int) -> np.ndarray:
    return np.empty(shape, np.float16)


ARGUMENTS = matrix("a_desc"), matrix("b_desc"), matrix("c_desc"), M, N, K, pointer("bias")
LAUNCHED = dict(a_desc=array(512, 256), c_desc=array(512, 1024), M=512, N=1024, K=256, bias=array(1024))


@pytest.mark.parametrize("b, told", [((256, 1024), "(K, N)"), ((1024, 256), "(N, K)")])
def test_a_matrix_of_any_strides_is_told_as_it_lay(b, told):
    said = said_by_contract(gemm.kernel, ARGUMENTS, LAUNCHED | {"b_desc": array(*b)})
    assert said == Said(dict(a_desc="(M, K)", b_desc=told, c_desc="(M, N)", bias="(N), contiguous", M="the M of a_desc and c_desc",
                             N="the N of b_desc, c_desc and bias", K="the K of a_desc and b_desc"))


def test_a_square_one_may_lie_either_way():
    square = array(256, 256)
    said = said_by_contract(gemm.kernel, ARGUMENTS[:3], dict(a_desc=square, b_desc=square, c_desc=square))
    assert said.of == dict(a_desc="(M, K) or (K, M)", b_desc="(K, N) or (N, K)", c_desc="(M, N)")


def test_without_a_launch_the_contract_s_shapes_are_all_there_are():
    said = said_by_contract(gemm.kernel, ARGUMENTS, {})
    assert (said.of["b_desc"], said.of["bias"]) == ("(K, N) or (N, K)", "(N), contiguous")
    assert said.of["M"] == "the M of a_desc and c_desc"


def test_a_number_of_another_value_is_no_extent():
    assert "M" not in said_by_contract(gemm.kernel, ARGUMENTS, LAUNCHED | {"b_desc": array(256, 1024), "M": 7}).of


def test_an_array_of_another_rank_or_of_no_line_has_nothing():
    said = said_by_contract(gemm.kernel, (matrix("a_desc", 3), pointer("unheard_of")), dict(a_desc=array(2, 512, 256)))
    assert said == Said()
    assert said_by_contract(batched_gemm.kernel, (matrix("a_desc", 3), ), {}).of == dict(a_desc="(B|1, M, K)")


def test_the_contract_that_names_most_of_the_arrays_counts_and_one_shape_of_several():
    names = [pointer(f"{name}_ptr") for name in ("x", "targets", "lses", "dlosses", "dx")]
    said = said_by_contract(cross_entropy.cross_entropy_gradient, names, {})
    assert said.of["dlosses_ptr"] == "(rows)" and said.of["x_ptr"] == "(rows, N), its rows contiguous"
    slopes = pointer("slopes")
    assert said_by_contract(attention.kernel, [slopes], {}).of == dict(slopes="(heads) or (batch, heads), contiguous")
    assert said_by_contract(attention.kernel, [slopes], dict(slopes=array(8))).of == dict(slopes="(heads), contiguous")


def test_rules_of_extents_that_are_there():
    four = [matrix(f"{name}_desc", 4) for name in "qk"]
    rules = said_by_contract(attention.kernel, four, {}).rules
    assert "kv_heads > 0 and heads % kv_heads == 0 -- the heads of k and v must divide those of q" in rules
    assert not any("softcap" in rule or "value_dim" in rule for rule in rules)


def test_a_kernel_without_a_contract_is_told_by_types_alone():
    assert said_by_contract(exported.case()[0], [pointer("target")], {}) == Said()


def test_the_header_says_it_and_the_facts_have_it():
    gate, up, y = (np.zeros((64, 256), np.float32) for _ in range(3))
    kernel, grid, args, meta = swiglu.arguments(gate, up, y)
    files = export(kernel, grid, *args, target="sm_90a", **meta).files
    assert " * gate_ptr: the address of fp32 elements, (rows, N), its rows contiguous, a multiple of 16\n" in files["swiglu.h"]
    assert "the N of gate_ptr, up_ptr and y_ptr" in files["swiglu.h"]
    assert " * By the kernel's contract, extents of one name are equal.\n" in files["swiglu.h"]
    told = {one["name"]: one.get("contract") for one in json.loads(files["swiglu.json"])["arguments"]}
    assert told["y_ptr"] == "(rows, N), its rows contiguous"
