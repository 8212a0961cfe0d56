"""Rows that tasks share out: the parts put together are the whole, in 1,000 random programs; refusals by line and sentence."""

import functools
import importlib

import numpy as np
import pytest

from mimw.compiler.analysis import row_links
from mimw.compiler.analysis.remarks import Remark
from mimw.compiler.analysis.shared_rows import shared, shared_rows
from mimw.ir import I32, Descriptor, Pointer, Tensor
from mimw.runtime.simulate import prepare
from tests.analysis.sliced_programs import cut, random_program, values
from tests.building import FP8, FP16, FP32, I8, Kernel

PARTS = 2
ACC, HALF = Tensor(FP32, (128, 64)), Tensor(FP16, (128, 64))


graph = functools.cache(random_program)


@functools.cache
def whole_of(seed):
    return values(graph(seed), seed)


def wrong(seed):
    """None where rows cannot be shared out; else whether some part of some value is not what it should be."""
    program = graph(seed)
    axes = shared_rows(program, program.walk(), PARTS, least=2)
    if isinstance(axes, Remark):
        return None
    whole = whole_of(seed)
    for part in range(PARTS):
        try:
            found = values(program, seed, axes, part, PARTS)
        except (IndexError, ValueError):    # shapes that do not fit
            return True
        if not all(np.array_equal(found[value], cut(array, axes.get(value), part, PARTS)) for value, array in whole.items()):
            return True
    return False


def test_parts_put_together_are_the_whole():
    """No part of 1,000 random programs takes an element of another one; a good share of them is not refused."""
    answers = [wrong(seed) for seed in range(1000)]
    assert True not in answers, f"seed {answers.index(True)}"
    assert answers.count(False) > 250 and answers.count(None) > 250


def _forget(name):
    """The rule of `name`, without what has to stay whole."""
    def rule(op, found, parts):
        own = row_links.Links()
        RULES[name](op, own, parts)
        found.together += own.together
    return rule


def _loose(name):
    """The rule of `name`, without what goes together."""
    def rule(op, found, parts):
        own = row_links.Links()
        RULES[name](op, own, parts)
        found.whole += own.whole
    return rule


def _straight(op, found, parts):
    """As if every axis stayed in its place."""
    for axis in range(min(len(row_links.shape_of(op.value)), len(row_links.shape_of(op.result)))):
        found.join(op.value, axis, op.result, axis)


def _crosswise(op, found, parts):
    """As if the last axis became the first one."""
    for axis in range(min(len(row_links.shape_of(op.value)), len(row_links.shape_of(op.result)))):
        found.join(op.value, len(row_links.shape_of(op.value)) - 1 - axis, op.result, axis)


RULES = dict(row_links._RULES)
MISTAKES = {"dot": _forget("dot"), "reduce": _forget("reduce"), "scan": _forget("scan"), "gather": _forget("gather"),
            "trans": _straight, "split": _loose("split"), "expand_dims": _loose("expand_dims"), "reshape": _crosswise}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_axis_is_found(name, monkeypatch):
    monkeypatch.setitem(row_links._RULES, name, MISTAKES[name])
    assert any(map(wrong, range(1000)))


def test_a_wrong_axis_of_one_value_is_found():
    """Of the first programs that are shared out, with one tile cut along its other axis: none goes unseen."""
    tried = 0
    for seed in range(100):
        program, whole = graph(seed), whole_of(seed)
        axes = shared_rows(program, program.walk(), PARTS, least=2)
        (op, *_) = program.named("dot")
        if isinstance(axes, Remark):
            continue
        tried += 1
        try:
            found = values(program, seed, axes | {op.a: 1 - axes[op.a]}, 0, PARTS)
            assert not np.array_equal(found[op.result], cut(whole[op.result], 0, 0, PARTS))
        except ValueError:
            pass
    assert tried > 20


# ---- by hand ------------------------------------------------------------------------------------------------------------


class Rows(Kernel):
    """A product on line 5, whose sum is `acc`; what follows is added by the test."""

    def __init__(self, rows=128):
        super().__init__()
        self.zero = self.constant(0, I32)
        self.x, self.y = self.param("x", Descriptor(FP16, (rows, 64))), self.param("y", Descriptor(FP16, (64, 64)))
        a, b = (self.op("descriptor_load", one, (self.zero, self.zero), None) for one in (self.x, self.y))
        self.acc = self.at(5).op("dot", a, b, self.constant(0.0, Tensor(FP32, (rows, 64))), None, 0)

    def along(self, axis):
        found = self.regions("reduce", (self.acc, ), axis)
        self.block(found, lambda a, b: [self.op("fadd", a, b)], (FP32, FP32))
        return found.results[0]

    def pointers(self, name, shape=(128, 64)):
        return self.op("splat", Tensor(Pointer(FP32), shape), self.param(name, Pointer(FP32)))


def answer(k, **given):
    program = k.program()
    return shared_rows(program, program.walk(), **given)


def refusal(k, **given):
    found = answer(k, **given)
    assert isinstance(found, Remark)
    assert found.message.startswith("rows cannot be shared out among tasks: ")
    return found.site.line, found.message.removeprefix("rows cannot be shared out among tasks: ")


def test_rows_of_a_product_and_what_is_made_of_them():
    k = Rows()
    sums = k.along(1)
    k.op("store", k.pointers("sums", (128, )), sums, None)
    k.op("store", k.pointers("all"), k.acc, None)
    axes = answer(k)
    (product, ), (first, second) = k.program().named("dot"), k.program().named("store")
    assert {axes[value] for value in (product.a, product.acc, k.acc, sums, first.pointer, second.pointer)} == {0}
    assert product.b not in axes


def test_scales_go_with_their_rows():
    k = Kernel()
    tiles = [k.op("poison", Tensor(element, shape)) for element, shape in (
        (FP8, (128, 64)), (I8, (128, 2)), (FP8, (64, 32)), (I8, (32, 2)), (FP32, (128, 32)))]
    a, a_scale, b, b_scale, acc = tiles
    result = k.op("dot_scaled", a, a_scale, "e4m3", b, b_scale, "e4m3", False, True, True, acc)
    assert answer(k) == {a: 0, a_scale: 0, acc: 0, result: 0}


def test_rows_that_are_picked():
    """Each task picks the rows of its own part, by its own row numbers; bins count what all have."""
    k = Rows()
    rows = k.op("make_range", Tensor(I32, (128, )), 0, 128)
    half = k.op("fp_trunc", k.acc, HALF)
    more = k.op("fadd", half, k.op("descriptor_gather", k.param("table", Descriptor(FP16, (1, 64))), rows, k.zero, HALF))
    axes = answer(k)
    assert axes[rows] == axes[more] == 0
    k.at(9).op("histogram", k.op("fp_to_si", k.op("reshape", k.acc, (128 * 64, ), False), Tensor(I32, (128 * 64, ))), 8, None)
    assert refusal(k) == (9, "`histogram` counts all elements")


def test_the_type_of_a_part():
    assert shared(ACC, 0, 2) == Tensor(FP32, (64, 64)) and shared(ACC, 1, 4) == Tensor(FP32, (128, 16))
    assert shared(ACC, None, 2) is ACC and shared(I32, None, 2) is I32
    with pytest.raises(ValueError, match="no 3 equal parts"):
        shared(ACC, 0, 3)


def test_parts_and_their_least_rows_are_asked_for():
    assert isinstance(answer(Rows(192), parts=3), dict)
    assert refusal(Rows(192), parts=2) == (5, "of 192 rows each of 2 tasks has 96, and a product takes 64 at a time")
    assert isinstance(answer(Rows(192), parts=2, least=32), dict)
    assert refusal(Rows(128), parts=3) == (5, "128 rows have no 3 equal parts")


def _store_sum(k):
    k.at(7).op("store", k.pointers("total", (64, )), k.at(6).along(0), None)


def _store_number(k):
    k.at(7).op("store", k.param("flag", Pointer(I32)), k.constant(1, I32), None)


def _store_whole(k):
    k.at(7).op("store", k.pointers("other"), k.constant(0.0, ACC), None)


def _both_axes(k):
    square = k.op("dot", k.op("descriptor_load", k.x, (k.zero, k.zero), None),
                  k.op("trans", k.at(6).op("descriptor_load", k.x, (k.zero, k.zero), None), (1, 0)),
                  k.constant(0.0, Tensor(FP32, (128, 128))), None, 0)
    k.op("fadd", square, k.op("trans", square, (1, 0)))


def _right_operand(k):
    k.at(7).op("dot", k.op("descriptor_load", k.y, (k.zero, k.zero), None), k.op("trans", k.op("fp_trunc", k.acc, HALF), (1, 0)),
               k.constant(0.0, Tensor(FP32, (64, 128))), None, 0)


def _printed(k):
    k.at(7).op("print", "x", False, (k.acc, ), (True, ))


def _counted(k):
    k.at(7).op("atomic_rmw", "add", k.param("count", Pointer(I32)), k.constant(1, I32), None, None, None)


def _transposed_store(k):
    at = k.pointers("out")
    k.at(6).op("store", at, k.acc, None)
    k.at(7).op("store", k.op("addptr", at, k.constant(64, Tensor(I32, (128, 64)))), k.acc, None)


def _loads_what_is_stored(k):
    at = k.pointers("out")
    k.at(6).op("store", at, k.acc, None)
    k.at(7).op("load", k.op("addptr", at, k.constant(64, Tensor(I32, (128, 64)))), None, False)


def _volatile(k):
    k.at(7).op("load", k.param("flag", Pointer(I32)), None, True)


def _hinted(k):
    k.at(7).op("hint", k.op("fp_trunc", k.acc, HALF), "tt.contiguity", (1, 64))


def _synchronised(k):
    k.at(7).op("barrier")


REFUSED = {
    _store_sum: (6, "`reduce` goes along the rows that would be shared out"),
    _store_number: (7, "each task would do `store` of a number"),
    _store_whole: (7, "each task would do `store` of a whole tile"),
    _both_axes: (6, "a tile of fp32[128, 128] would be shared out along axes"),
    _right_operand: (7, "would be shared out along axes"),
    _printed: (7, "`print` is not followed"),
    _counted: (7, "each task would do `atomic_rmw` of a number"),
    _transposed_store: (7, "`store` writes what line 6 may write for another task"),
    _loads_what_is_stored: (7, "`load` loads what line 6 may write for another task"),
    _volatile: (7, "tasks would do `load` of volatile memory at different times"),
    _hinted: (7, "`hint` tt.contiguity is said of the whole tile"),
    _synchronised: (7, "`barrier` is not followed"),
}


@pytest.mark.parametrize("add", REFUSED, ids=lambda add: add.__name__.strip("_"))
def test_refused_with_line_and_reason(add):
    k = Rows()
    add(k)
    (line, said), (at, why) = refusal(k), REFUSED[add]
    assert line == at and why in said


def test_without_a_product_there_are_no_rows():
    k = Kernel()
    assert refusal(k) == (1, "there is no product")


def _stored_in_a_loop(offset_step, by_pointers=False):
    """`x` is stored on line 8 of a loop whose trips are `offset_step` rows apart, beginning anywhere."""
    k = Rows()
    out, start = k.param("out", Descriptor(FP32, (128, 64))), k.param("start")
    at = k.pointers("at")
    loop = k.regions("for", start, k.param("end"), k.constant(offset_step, I32), ())
    with k.at(8).inside(loop, (I32, )) as (row, ):
        if by_pointers:
            k.op("store", k.op("addptr", at, k.op("splat", Tensor(I32, (128, 64)), row)), k.acc, None)
        else:
            k.op("descriptor_store", out, k.acc, (row, k.zero))
        k.op("yield", ())
    return k


def test_stores_of_trips_are_the_same_rows_or_others():
    """Rows 64 further on are another task's in the trip before, and tasks do not wait for each other."""
    assert isinstance(answer(_stored_in_a_loop(128)), dict) and isinstance(answer(_stored_in_a_loop(256)), dict)
    said = "in a loop may write in one trip what another task writes in another trip"
    assert refusal(_stored_in_a_loop(64)) == (8, f"`desc.store` {said}")
    assert refusal(_stored_in_a_loop(128, by_pointers=True)) == (8, f"`store` {said}")


def test_the_same_elements_may_be_loaded_and_stored():
    k = Rows()
    at = k.pointers("c")
    k.op("store", at, k.op("fadd", k.acc, k.op("load", at, None, False)), None)
    assert isinstance(answer(k), dict)
    out = k.param("out", Descriptor(FP32, (128, 64)))
    for column in (0, 64):      # halves of a wide tile: each task has its rows of both
        k.op("descriptor_store", out, k.acc, (k.zero, k.constant(column, I32)))
    assert isinstance(answer(k), dict)


def test_elements_that_are_the_task_s_own_may_be_changed_by_atomics():
    k = Rows()
    k.op("atomic_rmw", "fadd", k.pointers("sums"), k.acc, None, None, None)
    assert isinstance(answer(k), dict)


def test_a_tile_from_outside_is_not_shared_out():
    k = Rows()
    ones = k.at(3).constant(1.0, ACC)
    k.at(6).op("fadd", k.acc, ones)
    program = k.program()
    ops = [op for op in program.walk() if op.site.line > 3 or op.name == "descriptor_load"]
    found = shared_rows(program, ops)
    assert isinstance(found, Remark) and "made outside of the tasks" in found.message
    assert isinstance(shared_rows(program, program.walk()), dict)


CASES = {"gemm_descriptors": (), "attention": (), "gemm_pointers": (), "gemm_persistent": (), "gemm_int4": (("bm", 128), ),
         "gemm_fp8_blocks": (), "linear_attention": (("c", 128), ), "grouped_gemm": (("bm", 128), )}
SAID = {"gemm_fp8_blocks": "of 64 rows each of 2 tasks has 32, and a product takes 64 at a time",
        "linear_attention": "adds up along the rows of its right operand",
        "grouped_gemm": "`masked_store` in a loop may write in one trip what another task writes in another trip"}


@pytest.mark.parametrize("name", CASES)
def test_the_kernels_of_automatic_orchestration(name):
    kernel, grid, args, meta, _ = importlib.import_module(f"tests.orchestrate.cases.{name}").case(**dict(CASES[name]))
    program = prepare(kernel, grid, args, meta).recorded
    found = shared_rows(program, program.walk())
    if name in SAID:
        assert isinstance(found, Remark) and SAID[name] in found.message
    else:
        assert all(found[op.result] == found[op.a] == 0 and op.b not in found for op in program.named("dot"))
        assert all(op.value in found for op in program.walk() if op.row.stores or op.name == "descriptor_store")
