"""One example in the docstring of every word of TLX and TLE, that parses and calls what there is as it can be called."""

import ast
import inspect
import re
import textwrap

import mimw.tle as tle
import mimw.tlx as tlx
from tests.every import every

FAMILIES = {"tlx": tlx, "tle": tle, "tle.gpu": tle.gpu}
# What no author writes: bases, types of values that words give, and what stands for a layout inside of the compiler.
INTERNAL = set("""tlx.layout_encoding tlx.shared_layout_encoding tlx.DummyRegisterLayoutEncoding tlx.reuse_group_ir_type
tlx.storage_alias_spec_type tlx.storage_alias_spec_type_class tlx.buffered_tensor_type tlx.clc_response_type tlx.mbarrier_type
tlx.tensor_descriptor_ptr_type tle.gpu.buffered_tensor_type tle.gpu.layout tle.gpu.shared_layout""".split())
# Words of TLE that stand in for those of raw code, and the rooms whose words are told in docs/tle.md.
ELSEWHERE = {"tle.B", "tle.call", "tle.dsa", "tle.gpu", "tle.hardware_constraint", "tle.jit", "tle.raw", "tle.gpu.smem",
             "tle.gpu.tmem"}
WORDS = sorted({f"{family}.{name}" for family, module in FAMILIES.items() for name in module.__all__}
               - INTERNAL - ELSEWHERE)


def value_of(word: str):
    family, _, name = word.rpartition(".")
    return getattr(FAMILIES[family], name)


def example_of(word: str) -> str:
    """The code behind `example:` of a word's docstring; "" where there is none."""
    page = inspect.getdoc(value_of(word)) or ""
    found = re.search(r"^example:   (.*(?:\n {11}.*)*)", page, re.MULTILINE)
    return textwrap.dedent(" " * 11 + found[1]) if found else ""


@every(WORDS)
def test_it_has_an_example(word):
    """Which names the word, or shows a value of that class in use."""
    tree = ast.parse(example_of(word))
    assert tree.body, "write a line `example:   ...` at the end of its docstring"
    value = value_of(word)
    named = {value_of(one) for one in _calls(tree)[0]}
    assert value in named or isinstance(value, type), "the example calls other words"


@every(WORDS)
def test_calls_in_it_can_be_made(word):
    names, calls = _calls(ast.parse(example_of(word)))
    assert names, "no word of ours is called"
    for name, call in zip(names, calls, strict=True):
        function = value_of(name)
        function = getattr(function, "fn", function)
        inspect.signature(function).bind(*[None] * len(call.args), **{one.arg: None for one in call.keywords})


def _calls(tree: ast.AST) -> tuple[list[str], list[ast.Call]]:
    """The names of TLX and TLE that are called, decorators of classes among them, and the calls."""
    decorated = [ast.Call(one, [node], []) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
                 for one in node.decorator_list]
    found = [(ast.unparse(node.func), node) for node in (*ast.walk(tree), *decorated) if isinstance(node, ast.Call)]
    ours = [(name, node) for name, node in found if name.rpartition(".")[0] in FAMILIES]
    return [name for name, _ in ours], [node for _, node in ours]


def test_what_is_left_out_is_there():
    """So that the lists above lose what becomes a word."""
    every_name = {f"{family}.{name}" for family, module in FAMILIES.items() for name in module.__all__}
    assert every_name >= INTERNAL | ELSEWHERE and len(WORDS) > 120
