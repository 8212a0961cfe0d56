"""Kernels by pointers with descriptors in place of their loads and stores: which, why not, and the same result to the last bit."""

import importlib.util

import ml_dtypes  # noqa: F401  numpy learns its types
import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.compiler.analysis.same_program import difference
from mimw.compiler.analysis.tensor_boxes import UNBOUNDED
from mimw.compiler.orchestrate.box_host import host_parts, host_source
from mimw.compiler.orchestrate.boxes import lifted
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.orchestrate.tasks import orchestrated
from mimw.compiler.orchestrate.text import module_text
from mimw.compiler.triton_port.interpreter import one_by_one
from mimw.ir import verify
from mimw.runtime.simulate import prepare
from mimw.simulator import run
from mimw.target import wanted
from tests.orchestrate import refused
from tests.orchestrate.launched import HOPPER, Launched


def of_case(name: str, sizes: dict, **options):
    kernel, grid, args, meta, (out, expected) = importlib.import_module(f"tests.orchestrate.cases.{name}").case(**sizes)
    return Launched(kernel, grid, args, meta, **options), out, expected


def said(launched: Launched) -> list[str]:
    return [remark.message for remark in launched.made.remarks]


CASES = {
    "gemm_pointers": (dict(m=72, n=88, k=56, bm=32, bn=32, bk=16),
                      ["a: 32 x 16 at [32*(srem of line 15) + 128*band, 16*trip@23] of [M, K], by the mask on line 25",
                       "b: 16 x 32 at [16*trip@23, 32*tile_n] of [K, N], by the mask on line 26",
                       "c: 32 x 32 at [32*(srem of line 15) + 128*band, 32*tile_n] of [M, N], by the mask on line 31"]),
    "gemm_bias_gelu": (dict(m=64, n=64, k=64, bm=32, bn=32, bk=32),
                       ["a: 32 x 32 at [32*program_id(0), 32*trip@14] of [any, any], without a mask",
                        "b: 32 x 32 at [32*trip@14, 32*program_id(1)] of [any, any], without a mask",
                        "c: 32 x 32 at [32*program_id(0), 32*program_id(1)] of [any, any], without a mask"]),
    "gemm_fp8_blocks": (dict(m=32, n=128, k=256, bm=32),
                        ["a: 32 x 128 at [32*program_id(0), 128*trip@20] of [any, K], by the mask on line 21",
                         "b: 128 x 128 at [128*program_id(1), 128*trip@20] of [any, K], by the mask on line 22, turned",
                         "c: 32 x 128 at [32*program_id(0), 128*program_id(1)] of [any, any], without a mask"]),
    "gemm_int4": (dict(m=24, n=64, k=128, bm=32, bn=32, bk=64, group=64),
                  ["a: 32 x 64 at [32*program_id(0), 64*trip@14] of [M, any], by the mask on line 15",
                   "w: 32 x 32 at [32*program_id(1), 32*trip@14] of [any, any], without a mask",
                   "c: 32 x 32 at [32*program_id(0), 32*program_id(1)] of [M, any], by the mask on line 21"]),
    "attention_pointers": (dict(z=2, heads=2, t=40, d=32, bm=32, bn=32),
                           ["q: 32 x 32 at [32*program_id(0), h*stride_h + stride_z*z] of [T, any], by the mask on line 14",
                            "k: 32 x 32 at [32*trip@20, h*stride_h + stride_z*z] of [T, any], by the mask on line 22, turned",
                            "v: 32 x 32 at [32*trip@20, h*stride_h + stride_z*z] of [T, any], by the mask on line 28",
                            "o: 32 x 32 at [32*program_id(0), h*stride_h + stride_z*z] of [T, any], by the mask on line 34"]),
}


@pytest.fixture
def in_one_order(monkeypatch):
    """Products of numpy whose sums do not depend on how an operand lies in memory: a turned tile is one behind a `trans`."""
    product = np.matmul
    monkeypatch.setattr(np, "matmul", lambda a, b, **options: product(*map(np.ascontiguousarray, (a, b)), **options))


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_the_same_to_the_last_bit(name, in_one_order):
    sizes, boxes = CASES[name]
    launched, out, expected = of_case(name, sizes, loads="all")
    shown = [message.partition(" is a block of ")[2].rstrip(".") for message in said(launched)]
    assert [one for one in shown if one] == boxes
    verify(launched.made.program)
    names = {op.name for op in launched.made.program.walk()}
    assert {"descriptor_load", "descriptor_store"} <= names and not any(
        op.row.loads and len(getattr(op.result.type, "shape", ())) == 2 for op in launched.made.program.walk())
    assert launched.fault() == ""
    launched.run_plain()
    plain = out.copy()
    assert np.abs(plain.astype(np.float32) - expected()).max() < 0.5 and plain.astype(np.float32).any()
    out[...] = 0
    launched.run_lifted(races=name == "gemm_pointers")
    assert plain.tobytes() == out.tobytes()


def test_descriptors_and_vectors_are_left_alone():
    attention, *_ = of_case("linear_attention", dict(heads=1, t=64))
    assert attention.made.program is attention.launch.recorded and not attention.made.remarks
    norm, *_ = of_case("layer_norm", dict(m=1, n=256))
    assert norm.made.program is norm.launch.recorded and not norm.made.remarks
    grouped, *_ = of_case("grouped_gemm", {})
    assert ["not made of arguments alone" in message for message in said(grouped)] == [True] * 3


def test_switches():
    launched, *_ = of_case("gemm_pointers", CASES["gemm_pointers"][0])
    recorded = launched.launch.recorded
    assert [one.base for one in lifted(recorded, HOPPER, stores=False).descriptors] == ["a", "b"]
    assert [one.base for one in lifted(recorded, HOPPER, loads="none").descriptors] == ["c"]
    inside = lifted(of_case("attention_pointers", CASES["attention_pointers"][0])[0].launch.recorded, HOPPER)
    assert [one.base for one in inside.descriptors] == ["q", "k", "v", "o"], "queries are loaded in no loop, for products"
    older = lifted(recorded, wanted("gfx942"))
    assert older.program is recorded and "has no TMA" in older.remarks[0].message


def test_the_text_for_the_host(golden):
    launched, *_ = of_case("gemm_pointers", CASES["gemm_pointers"][0])
    golden(host_source(launched.made))


@pytest.mark.parametrize("name, consumers, sizes", [
    ("gemm_pointers", 0, {}), ("gemm_int4", 0, {}), ("gemm_pointers", 2, dict(m=200, n=72, k=72, bm=128, bn=64, bk=32)),
])
def test_the_text_is_the_same_kernel(name, consumers, sizes, tmp_path):
    """Lifted, in tasks if there are consumers, printed with the host's part, and recorded again. Packed weights are unsigned, as
    the host's descriptor is; each of two consumers stores half of a tile's rows, whose sums have the same bits in numpy, too, if
    they are added in one order."""
    launched, out, _ = of_case(name, CASES[name][0] | sizes)
    program, (imports, host) = launched.made.program, host_parts(launched.made)
    if consumers:
        tasks = orchestrated(program, Plan(consumers=consumers, stages=2), HOPPER)
        program, (imports, host) = tasks.program, host_parts(launched.made, tasks.blocks)
        assert "c_desc = mimw.TensorDescriptor(c, [M, N], [stride_cm, 1], [64, 64])" in host and host.count("not apart(") == 2
    with one_by_one():
        launched.run_plain()
    plain = out.copy()
    out[...] = 0
    (tmp_path / f"{name}_text.py").write_text(module_text(program, f"{name}_text", host, imports=imports))
    spec = importlib.util.spec_from_file_location(f"{name}_text", tmp_path / f"{name}_text.py")
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    assert module.fits(launched.launch.grid, *launched.values) == ""
    kernel, args = getattr(module, f"{name}_text"), module.arguments(launched.launch.grid, *launched.values)
    again = prepare(kernel, launched.launch.grid, args, dict(num_warps=program.num_warps))
    assert difference(program, again.recorded) is None
    with one_by_one():
        run(again.program, again.grid, again.values)
    assert plain.tobytes() == out.tobytes()


def test_extents_that_cut_nothing_off(machine):
    """Rows of a descriptor whose extents are beyond its strides: what an access without a mask becomes."""

    @mimw.jit
    def copied(x_desc, y_desc, B: tl.constexpr):
        row, col = tl.program_id(0) * B, tl.program_id(1) * B
        y_desc.store([row, col], x_desc.load([row, col]))

    x, y = (np.arange(64 * 32, dtype=np.float16).reshape(64, 32) * sign for sign in (1, 0))
    seen = [mimw.TensorDescriptor(array, [UNBOUNDED, UNBOUNDED], [32, 1], [16, 16]) for array in (x, y)]
    machine.launch(copied, (3, 2), *seen, 16)
    assert (y[:48] == x[:48]).all() and not y[48:].any()


# ---- what the host asks ----------------------------------------------------------------------------------------------


def test_launches_that_take_the_plain_kernel():
    launched, *_ = of_case("gemm_pointers", CASES["gemm_pointers"][0])
    a, b, c = launched.values[:3]
    assert launched.fault() == "" and launched.fault(M=np.int64(72)) == ""
    for says, changed in {
        "the extent K is not 1 to 2^31 - 1: 0": dict(K=0),
        "16 bytes do not divide the stride stride_am: 57": dict(stride_am=57),
        "the stride stride_bk is not positive": dict(stride_bk=-88),
        "a does not begin at a multiple of 16 bytes": dict(a=a.ravel()[1:]),
        "a and c overlap, and the kernel writes one of them": dict(a=c),
        "b and c overlap": dict(b=c.ravel()[8:]),
        "rows of N elements end within 16 bytes": dict(N=84),
        "rows that are written overlap: stride_cm - N is negative": dict(stride_cm=80),
        "may be more than 32 bits hold": dict(stride_am=1 << 26),
        "in front of the tensor": dict(grid=(400, )),        # more programs than tiles: heights of 0 and below
    }.items():
        assert says in launched.fault(**changed), says
    assert launched.fault(a=b) == "", "two that are read may be one"


def test_a_launch_that_does_not_fit_would_go_wrong():
    """Where a block begins in front of the tensor, pointers read what is there, and TMA reads zeros."""

    @mimw.jit
    def shifted(x, y, back, N, B: tl.constexpr):
        rows, cols = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
        tl.store(y + rows * B + cols, tl.load(x + (rows - back) * N + cols, mask=cols < N))

    whole, y = np.arange(1024, dtype=np.float32).reshape(64, 16), np.zeros((16, 16), np.float32)
    launched = Launched(shifted, (1, ), (whole[32:], y, 8, 16), dict(B=16), loads="all", stores=False)
    assert "in front of the tensor" in launched.fault() and "front" not in launched.fault(back=0)
    launched.run_plain(memory=[whole])
    assert (y == whole[24:40]).all()
    launched.run_lifted()
    assert (y[:8] == 0).all() and (y[8:] == whole[32:40]).all()


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_each_refusal_has_its_line_and_reason():
    launched, reasons = Launched(*refused.case(), loads="all"), refused.reasons()
    assert {remark.site.line for remark in launched.made.remarks} == set(reasons)
    for remark in launched.made.remarks:
        wanted_text = reasons[remark.site.line]
        assert (" is a block of " if wanted_text == "box" else wanted_text) in remark.message, remark
    assert sum(reason == "box" for reason in reasons.values()) == 6
    assert launched.fault() != ""       # of some boxes: the kernel does not care what it reads


@mimw.jit
def waits(a, flag, c, N, B: tl.constexpr, HOW: tl.constexpr):
    rows, cols = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    if HOW == "first":
        tl.atomic_add(flag, 1)
    x = tl.load(a + rows * N + cols)
    if HOW == "between":
        tl.debug_barrier()
    tl.store(c + rows * N + cols, x)
    if HOW == "elsewhere":
        tl.store(tl.load(flag).to(tl.int64).to(tl.pointer_type(tl.int8)), 0)
    if HOW == "last":
        tl.atomic_add(flag, 1)


@pytest.mark.parametrize("how, load, store", [
    ("never", "is a block", "is a block"),
    ("first", "`atomic_rmw` on line", "is a block"),
    ("between", "is a block", "is a block"),
    ("elsewhere", "through an address that comes from elsewhere", "through an address that comes from elsewhere"),
    ("last", "is a block", "`atomic_rmw` on line"),
])
def test_what_orders_accesses_keeps_them(how, load, store):
    a, c = np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float16)
    launched = Launched(waits, (1, ), (a, np.zeros(1, np.int32), c, 16), dict(B=16, HOW=how), loads="all")
    assert [text in message for text, message in zip((load, store), said(launched), strict=True)] == [True, True]


def test_stores_in_a_loop_lie_beside_each_other():

    @mimw.jit
    def rows_of(x, y, T, N, B: tl.constexpr, STEP: tl.constexpr):
        rows, cols = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
        for t in range(0, T, STEP):
            tl.store(y + (t + rows) * N + cols, tl.load(x + (t + rows) * N + cols) * 2)

    x, y = np.arange(512, dtype=np.float32).reshape(32, 16), np.zeros((32, 16), np.float32)
    apart = Launched(rows_of, (1, ), (x, y, 32, 16), dict(B=16, STEP=16), loads="all")
    assert len(apart.made.descriptors) == 2 and apart.fault() == "" and "overlap" in apart.fault(y=x)
    apart.run_lifted()
    assert (y == 2 * x).all()
    over = Launched(rows_of, (1, ), (x, y, 16, 16), dict(B=16, STEP=8), loads="all")
    assert "may write one place in two of its rounds" in said(over)[1] and len(over.made.descriptors) == 1


def test_equal_boxes_share_a_descriptor_and_names_are_new():

    @mimw.jit
    def twice(a, a_desc, y, N, B: tl.constexpr):
        rows, cols = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
        one = tl.load(a + rows * N + cols, mask=cols < N, other=0.0)
        two = tl.load(a + (rows + B) * N + cols, mask=cols < N, other=0.0)
        three = tl.load(a + rows * N + cols)
        tl.store(y + rows * B + cols, one + two + three + a_desc)

    a, y = np.arange(512, dtype=np.float32).reshape(32, 16), np.zeros((16, 16), np.float32)
    launched = Launched(twice, (1, ), (a, 3, y, 16), dict(B=16), loads="all", stores=False)
    assert [one.name for one in launched.made.descriptors] == ["a_desc2", "a_desc3"] and launched.fault() == ""
    launched.run_lifted()
    assert (y == 2 * a[:16] + a[16:] + 3).all()


def test_arguments_of_any_kind():
    """Fields of tuples, extents of a descriptor, and names that the host's module has itself."""

    @mimw.jit
    def mixed(pair, x_desc, bits, grid, B: tl.constexpr):
        rows, cols = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
        a, stride = pair[0], pair[1]
        x = tl.load(a + (grid + rows) * stride + cols, mask=grid + rows < x_desc.shape[0], other=0.0)
        tl.store(bits + rows * B + cols, x + x_desc.load([0, 0]))

    a, x, y = np.arange(512, dtype=np.float32).reshape(32, 16), np.ones((12, 16), np.float32), np.zeros((16, 16), np.float32)
    args = (a, 16), mimw.TensorDescriptor.from_tensor(x, [16, 16]), y, 3
    launched = Launched(mixed, (1, ), args, dict(B=16), loads="all")
    assert [len(one.assumed) > 0 for one in launched.made.descriptors] == [True, False]
    assert launched.host["fits"]((1, ), *launched.values) == ""
    launched.run_lifted()
    expected = np.concatenate([a[3:12], np.zeros((7, 16), np.float32)])
    expected[:12] += 1
    assert (y == expected).all()


def test_a_program_without_boxes_has_a_host_module_too():
    launched, *_ = of_case("linear_attention", dict(heads=1, t=64))
    module: dict = {}
    exec(host_source(launched.made), module)
    assert module["fits"]((1, ), *launched.values) == "" and module["arguments"]((1, ), *launched.values) == tuple(launched.values)
    with pytest.raises(mimw.errors.ArgumentError, match="loads is .*; got 'some'"):
        lifted(launched.launch.recorded, HOPPER, loads="some")


def test_a_lifted_program_is_not_lifted_again():
    launched, *_ = of_case("gemm_bias_gelu", CASES["gemm_bias_gelu"][0])
    again = lifted(launched.made.program, HOPPER)
    assert again.program is launched.made.program and not again.descriptors and not again.remarks
