"""What ops are stands in their rows (`ir.ops`): no other file keeps lists of op names.

Input: the sources, read by `ast`. What counts as a list of ops: a set, tuple, list or split string with two op names or more, a
dictionary with two for keys, an `or` of two comparisons of a `name` with them, and `name.startswith("..")`. For example:

    _FILLS = frozenset(("local_store", "local_scatter"))      refused: ask `op.row.stores_registers`
    if op.name == "distributed_barrier":                      fine: a pass that is about exactly one op names it
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mimw
from mimw.ir import OPS
from tests.every import every

SOURCE = Path(mimw.__file__).parent
FILES = sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py"))

# Where each op has an entry of its own: its row, what it is lowered to, the text that records to it,
# and what it does when it is simulated.
TABLES = ("ir/ops/", "compiler/lowering/", "compiler/orchestrate/writing/", "simulator/words/")

# Files that name several ops at once all the same, each with its reason.
ARGUED = {
    "compiler/analysis/affine.py": "one rule of arithmetic for each op, as an emission or a meaning is one",
    "compiler/analysis/pointer_forms.py": "as affine.py: one rule for each op",
    "compiler/analysis/scalar_ranges.py": "as affine.py: the host's function for each op",
    "compiler/ttgir/arithmetic.py": "which ops of ours each op of MLIR's is",
    "compiler/analysis/folding.py": "as affine.py: one rule of arithmetic for each op",
    "compiler/orchestrate/rounding_bounds.py": "as affine.py: the bound of each op's roundings",
    "compiler/orchestrate/remainders.py": "the two divisions of which a remainder is made",
    "score_mods/computed.py": "names of the language of score_mods, not of ops",
    "score_mods/derive.py": "as computed.py",
    "score_mods/nodes.py": "as computed.py",
    "score_mods/rules.py": "as computed.py",
    "score_mods/text.py": "as computed.py",
    "score_mods/written.py": "as computed.py",
    "compiler/analysis/mask_runs.py": "as affine.py: one rule for each op",
    "compiler/analysis/tile_run_rules.py": "as affine.py: one rule for each op",
    "compiler/orchestrate/authors_tiles.py": "the two numbers that a program has of itself and its grid",
    "compiler/orchestrate/tensor_work.py": "what each task has all of, of whatever rows it computes",
    "compiler/analysis/same_program.py": "which spellings of casts, of broadcasts and of regions mean the same",
    "compiler/passes/check_scratch.py": "names of Triton's ops that take scratch, not of ours",
    "compiler/passes/pad_ends.py": "the rewriting of each op that idle elements could be seen by, as an emission is one",
    "compiler/passes/stamp_time.py": "values of the fact `time`, two of which are op names too",
    "report/timeline.py": "as stamp_time.py: the kinds of time that a timeline shows",
    "language/tle/body/arith.py": "names of MLIR's ops, and which op of ours records each",
    "language/tle/body/atomics.py": "kinds of atomics, as MLIR names them",
    "language/tle/body/math.py": "as arith.py",
    "language/tle/body/expressions.py": "Python's operators, and which op of MLIR's each is",
    "compiler/triton_port/older_words.py": "functions of Triton's language that its release 3.8 lacks",
    "integrations/inductor/flex/constants.py": "names of torch's functions",
    "integrations/inductor/flex/reading.py": "names of torch's functions",
    "runtime/export/arguments.py": "words that C and C++ keep for themselves",
    "compiler/frontend/plain_pointers.py": "methods of Triton's descriptors",
    "language/descriptor_methods.py": "kinds of reductions, as TLX names them",
    "tools/mends/listing.py": "words as a kernel's source spells them, some of which are op names too",
    "language/tlx/multimem.py": "kinds of reductions, as PTX names them",
    "simulator/memory/global_tensors.py": "kinds of reductions, as TMA has them",
    "simulator/clock/table.py": "the figure of the time that each op takes before its effect, as an emission or a meaning is one",
}

# Files that are still to be done; whoever does one takes it off.
NOT_YET = {
}


_HOLDING = (ast.Assign, ast.Set, ast.Tuple, ast.List, ast.Dict, ast.Call, ast.BoolOp)


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """What `ast.walk` gives, in half the time: nothing is below names, constants and the signs of operators."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                todo += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and value._fields:
                todo.append(value)


def lists_of_ops(source: str) -> list[tuple[int, list[str]]]:
    """(line, op names) of each list of ops in a source."""
    nodes = [node for node in _nodes(ast.parse(source)) if isinstance(node, _HOLDING)]
    exported = {id(node.value) for node in nodes if isinstance(node, ast.Assign)
                and any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)}
    found = []
    for node in nodes:
        named = [] if id(node) in exported else [word for word in _words(node) if word in OPS]
        if len(set(named)) > 1 or _asks_for_a_prefix(node):
            found.append((node.lineno, sorted(set(named))))
    return found


def _words(node: ast.AST) -> Iterator[str]:
    """The strings that a literal holds, or that an `or` compares a name with."""
    if isinstance(node, (ast.Set, ast.Tuple, ast.List)):
        yield from filter(None, map(_text, node.elts))
    elif isinstance(node, ast.Dict):
        yield from (_text(key) for key in node.keys if key is not None and _text(key))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        yield from _text(node.func.value).split()
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        for one in node.values:
            if isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.Eq) and _is_name(one.left):
                yield _text(one.comparators[0])


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "name"


def _asks_for_a_prefix(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith"):
        return False
    words = [_text(one) for arg in node.args for one in (arg.elts if isinstance(arg, ast.Tuple) else [arg])]
    return _is_name(node.func.value) and any(name.startswith(word) for word in words if len(word) > 1 for name in OPS)


@every(file for file in FILES if not file.startswith(TABLES) and file not in NOT_YET)
def test_a_file_keeps_no_lists_of_ops(file):
    found = lists_of_ops((SOURCE / file).read_text())
    if file in ARGUED:
        assert found, f"{file} has no list of ops any more: take it off ARGUED"
    else:
        assert not found, f"{file} keeps lists of ops; ask the row (`op.row`) instead: {found}"


def test_the_exceptions_are_files():
    assert {*ARGUED, *NOT_YET} <= set(FILES)


@pytest.mark.parametrize("source", [
    '_FILLS = frozenset(("local_store", "local_scatter"))', "x = {'if', 'for'}", "x = ['if', 'other', 'for']",
    "KINDS = {'barrier_wait': 1, **dict(a=1), 'barrier_arrive': 2}", "x = 'load masked_load'.split()",
    "y = op.name == 'yield' or op.name == 'condition'", "y = op.name.startswith('atomic_')",
    "y = op.name.startswith(('tma_', 'x'))", "y = op.name in ('if', 'for')"])
def test_what_counts_as_a_list(source):
    assert lists_of_ops(source)


@pytest.mark.parametrize("source", [
    "y = op.name == 'dot'", "y = row.layout in ('memory', 'dot', 'none')", "__all__ = ['load', 'store']", "x = ('dot', 'dot')",
    "x = 'load it and store it'", "y = kind.startswith('peer')", "y = op.name.startswith('no_such_')"])
def test_what_does_not(source):
    assert not lists_of_ops(source)
