"""Every name that we borrow from Triton's private modules, so that a new release says here what it changed.

Names and parameters are those of `mimw.compiler.triton_port.borrowed`; here is what only tests ask besides.
"""

import inspect
import re
from pathlib import Path

import pytest
import triton
import triton.language as tl
from triton import knobs
from triton._C.libtriton import ir as mlir
from triton._C.libtriton.gluon_ir import GluonOpBuilder

import mimw
from mimw.cli import main
from mimw.compiler.frontend.recorder import Recorder
from mimw.compiler.pipeline import gpu_target
from mimw.compiler.triton_port import borrowed
from mimw.compiler.triton_port.passes import amd_passes, nvidia_passes, takes_module
from mimw.compiler.triton_port.runtime import Language, StockConfig, TensorDescriptor, driver, make_backend
from mimw.compiler.triton_port.runtime import triton as triton_of_the_port
from mimw.ir import OPS
from mimw.target import target as find_target

ROOT = Path(mimw.__file__).parent
TRITON = Path(triton.__file__).parent


def test_the_release():
    assert triton_of_the_port is triton and triton.__version__.startswith(("3.8.", "3.9."))


def test_every_name_is_as_we_need_it(monkeypatch):
    """Names that the door imports, functions with their parameters, methods of the builder; each that is not is told. If another
    test has run a command in this process, Triton's name of `Config` is mimw's (`mimw.install_aliases`)."""
    monkeypatch.setattr("triton.runtime.autotuner.Config", StockConfig)
    assert borrowed.broken() == {}
    assert len(borrowed.signatures()) > 50 and len(borrowed.imported()) > 50 and len(borrowed.built()) > 50


def test_what_another_release_lacks_or_changes_is_told(monkeypatch, capsys):
    monkeypatch.setattr(borrowed, "signatures", lambda: (("triton.compiler.compiler:compile", "src, target"),
                                                         ("triton.compiler.compiler:Gone.method", "self")))
    monkeypatch.setattr(borrowed, "imported", lambda: ("triton.no.such:name", "triton.runtime:jit", "triton.runtime.jit:gone"))
    monkeypatch.setattr(borrowed, "built", lambda: ("triton._C.libtriton.gluon_ir:GluonOpBuilder.create_nothing", ))
    wrong = borrowed.broken()
    assert list(wrong) == ["triton.no.such:name", "triton.runtime.jit:gone",
                           "triton._C.libtriton.gluon_ir:GluonOpBuilder.create_nothing", "triton.compiler.compiler:compile",
                           "triton.compiler.compiler:Gone.method"]
    assert wrong["triton.compiler.compiler:compile"] == ("takes (src, target=None, options=None, _env_vars=None), and not "
                                                         "(src, target)")
    assert wrong["triton.compiler.compiler:Gone.method"] == "triton.compiler.compiler has no Gone"
    assert main(["doctor", "--triton"]) == 1
    assert "triton 3.9.0: 1 of 6 names are as this release" in capsys.readouterr().out


# ---- the builder --------------------------------------------------------------------------------------------------------

# Functions, modules and branches: we inline helpers and write early returns as `if`s. `tl.cat` becomes a join, in order.
NEVER_CALLED = {"call", "create_branch", "create_cat", "create_cond_branch", "create_module", "get_function_ty",
                "get_or_insert_function", "ret"}
FRONTEND_FILES = ("language/semantic.py", "language/core.py", "language/standard.py", "language/math.py", "language/random.py",
                  "compiler/code_generator.py")


def test_the_recorder_answers_every_call_of_triton_s_frontend():
    called = {name for file in FRONTEND_FILES for name in re.findall(r"\bbuilder\.(\w+)", (TRITON / file).read_text())}
    assert len(called) > 150
    recorder = Recorder()
    assert {name for name in called if not hasattr(recorder, name)} == NEVER_CALLED


def test_ops_of_triton_are_methods_of_the_builder():
    """An op that is not ours is replayed by name: the method must exist, except for what lowering writes itself."""
    by_hand = {"constant", "hint", "if", "for", "while", "condition", "yield"}
    assert {name for name, row in OPS.items() if not row.ours and not hasattr(GluonOpBuilder, f"create_{name}")} == by_hand


def test_values_and_blocks():
    for owner, names in {
        mlir.value: "get_type get_context set_attr id get_loc set_loc replace_all_uses_with",
        mlir.block: "arg get_argument merge_block_before get_parent erase",
        mlir.module: "set_attr push_back has_function get_function",
        mlir.pass_manager: "run enable_debug",
    }.items():
        assert [name for name in names.split() if not hasattr(owner, name)] == []
    assert callable(mlir.make_attr) and callable(mlir.load_dialects) and callable(mlir.parse_mlir_module)


# ---- passes and backends ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("listed", [nvidia_passes(90, 3, True, True, False), nvidia_passes(100, 3, False, False, True, True),
                                    amd_passes("gfx942")],
                         ids=["sm_90", "sm_100", "gfx942"])
def test_passes_can_be_added(listed):
    context = mlir.context()
    mlir.load_dialects(context)
    manager = mlir.pass_manager(context)
    names = []
    for name, add in listed:
        if not takes_module(add):  # functions between the passes
            add(manager)
        names.append(name)
    assert len(names) > 10


@pytest.mark.parametrize("name, stages", [("sm_90a", "ttir ttgir llir ptx cubin"), ("gfx942", "ttir ttgir llir amdgcn hsaco")])
def test_backends(name, stages):
    backend = make_backend(gpu_target(find_target(name)))
    options = backend.parse_options({"num_warps": 8, "enable_fp_fusion": True})
    assert (options.num_warps, options.num_ctas, options.debug) == (8, 1, False)
    for field in ("arch", "num_stages", "warp_size", "sanitize_overflow", "default_dot_input_precision"):
        assert hasattr(options, field)
    triton_stages, ours = {}, {}
    backend.add_stages(triton_stages, options, Language.TRITON)
    backend.add_stages(ours, options, Language.GLUON)
    assert list(triton_stages) == stages.split()
    assert list(ours) == ["glir", *stages.split()[1:]]
    assert callable(backend.load_dialects) and isinstance(backend.get_module_map(), dict)
    assert "min_dot_size" in backend.get_codegen_implementation(options)


# ---- the runtime --------------------------------------------------------------------------------------------------------

def test_jit_function_attributes():

    @triton.jit
    def kernel(x, n: tl.constexpr):
        pass

    for name in ("params arg_names signature src fn cache_key device_caches pre_run_hooks debug noinline repr file_name "
                 "def_file_line_number def_file_col_number used_global_vals").split():
        assert hasattr(kernel, name), name
    parameter = kernel.params[1]
    assert parameter._param is kernel.signature.parameters["n"]
    assert parameter.is_constexpr and not parameter.do_not_specialize and parameter.annotation_type == ""
    assert hasattr(parameter, "is_const") and hasattr(parameter, "do_not_specialize_on_alignment")


def test_generator_attributes():
    """What our generators read and write of the base class's state."""
    source = (TRITON / "compiler" / "code_generator.py").read_text()
    for name in ("lscope local_defs scf_stack return_vals return_ips ret_type cur_node caller_context function_ret_types "
                 "_loop_carry_discovery_depth dereference_name begin_line begin_col file_name prototype gscope jit_fn").split():
        assert re.search(rf"self\.{name}\b.*=", source), name


def test_autotuner_attributes():

    @triton.jit
    def kernel(x):
        pass

    tuned = triton.autotune(configs=[triton.Config({})], key=[])(kernel)
    for name in "configs arg_names pre_hook user_defined_pre_hook fn do_bench".split():
        assert hasattr(type(tuned), name) or hasattr(tuned, name), name
    assert triton.heuristics({"x": lambda args: 1})(kernel).values.keys() == {"x"}


def test_knobs():
    for group, names in {"runtime": "debug jit_cache_hook jit_post_compile_hook add_stages_inspection_hook",
                         "compilation": "listener always_compile"}.items():
        assert [name for name in names.split() if not hasattr(getattr(knobs, group), name)] == []


def test_descriptors_and_driver():
    fields = list(inspect.signature(TensorDescriptor).parameters)
    assert fields == ["base", "shape", "strides", "block_shape", "padding", "round_f32_to_tf32"]
    assert {"_active", "_default"} <= set(vars(driver)) and callable(driver.set_active)
