"""Write src/mimw/ops/__init__.pyi and that of ops/distributed: what type checkers and editors know of the operators.

Input: the public functions of `mimw.ops`, and the contracts of the operators behind them. Output: stub files; `python
docs/support/operator_stubs.py` writes them, and tests/docs/test_operator_stubs.py compares. For example:

    def matmul(
        a: Annotated[Tensor, "bf16|fp16|fp32|e4m3|e5m2 (..., m, k) or (k)"],
        ...
    ) -> Annotated[Tensor, "out_dtype|=a|bf16 (..., m, n)"]:

A function may have several contracts: that of the operator that bears its name, and those that refuse in its name and ask for no
tensor but its own. Its docstring is followed by what they say of more than one argument: rules, several results, operations.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / "src")]

import mimw.ops  # noqa: E402
import mimw.ops.distributed  # noqa: E402
from mimw.ops.contract import Contract  # noqa: E402
from mimw.ops.operator import OPERATORS  # noqa: E402

_HEAD = '''"""Written by docs/support/operator_stubs.py, from the operators' contracts: {module} for type checkers and editors.

{words}
"""

{imports}
__all__ = [
{names}]
'''
_WORDS = """A tensor is annotated with the types and the shape that the contract gives it (mimw.kernels.contract explains the words,
mimw.ops.contract those of results); `or` stands between the lines of several contracts."""
_KNOWN = {"Any", "Callable", "None", "ScoreMod", "Sequence", "Tensor", "bool", "float", "int", "str", "torch", "tuple"}
_WIDTH = 132
# Arguments by which a result is one tensor or two, with their types for either.
_EITHER = "Tensor | tuple[Tensor, Tensor]"
_SWITCHES = {"return_lse": ("Literal[False]", "Literal[True]"), "residual": ("None", "Tensor"),
             "x": ("Tensor", "tuple[Tensor, Tensor]")}
_STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def stubs() -> dict[Path, str]:
    """The text of each file."""
    rooms = ROOT / "src" / "mimw" / "ops"
    imports = ["from ..score_mods import ScoreMod", "from . import distributed as distributed"]
    return {rooms / "__init__.pyi": stub(mimw.ops, imports),
            rooms / "distributed" / "__init__.pyi": stub(mimw.ops.distributed, [])}


def stub(module: ModuleType, imports: list[str]) -> str:
    """The stub of the names of `module`: its functions from their contracts, its classes from where they are defined."""
    public = {name: getattr(module, name) for name in sorted(module.__all__)}
    functions = [_function(one, contracts(one)) for one in public.values() if isinstance(one, FunctionType)]
    classes = [one for one in public.values() if not isinstance(one, FunctionType)]
    imports = imports + [f"from .{one.__module__.rpartition('.')[2]} import {one.__name__} as {one.__name__}" for one in classes]
    return _HEAD.format(module=module.__name__, words=_WORDS, imports=_imports("".join(functions), imports),
                        names="".join(f'    "{name}",\n' for name in public)) + "".join(f"\n{one}" for one in functions)


def _imports(text: str, ours: list[str]) -> str:
    """The lines that import what stands in the functions' signatures."""
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    typing = ", ".join(name for name in ("Annotated", "Any", "Literal", "overload") if name in used)
    abc = ", ".join(name for name in ("Callable", "Sequence") if name in used)
    return "".join([*[f"from collections.abc import {abc}\n"] * bool(abc), f"from typing import {typing}\n\n",
                    *["import torch\n"] * ("torch" in used), "from torch import Tensor\n\n", *(f"{line}\n" for line in ours)])


def contracts(function: FunctionType) -> list[Contract]:
    """The contracts of a public function, each once."""
    name, room, parameters = function.__name__, function.__module__.rpartition(".")[0], inspect.signature(function).parameters
    here = [one for one in OPERATORS.values() if one.contract is not None and room == one.run.__module__.rpartition(".")[0]]
    found = [one.contract for one in here if one.name == name or one.contract.name == name and all(
        line.optional or line.name in parameters for line in one.contract.tensors)]
    return list(dict(zip([one.text for one in found], found)).values())


def _function(function: FunctionType, told: list[Contract]) -> str:
    """The function; one whose result goes by an argument first for each of that argument's types."""
    name = next((name for name in _SWITCHES if name in inspect.signature(function).parameters), None)
    if name is None or not inspect.signature(function).return_annotation.startswith(_EITHER):
        return _signed(function, told)
    return "\n".join(["".join(["@overload\n", _signed(function, told, given)]) for given in
                      (*((name, type_, result) for type_, result in zip(_SWITCHES[name], _EITHER.split(" | "))), None)])


def _signed(function: FunctionType, told: list[Contract], given: tuple[str, str, str] | None = None) -> str:
    """The function; `given` is (parameter, its type, type of the result), of a call in which it has that type."""
    signature = inspect.signature(function)
    lines, star = [], False
    for one in signature.parameters.values():
        by_name = given is not None and one.name == given[0] and one.default is not one.empty
        if (one.kind is one.KEYWORD_ONLY or by_name and not _holds(one.default, given[1])) and not star:
            lines, star = [*lines, "    *,\n"], True
        if given is not None and one.name == given[0]:
            default = f" = {_default(one.default)}" if by_name and _holds(one.default, given[1]) else ""
            lines.append(f"    {one.name}: {given[1]}{default},\n")
            continue
        stars = _STARS.get(one.kind, "")
        star = star or stars == "*"
        default = "" if one.default is one.empty else f" = {_default(one.default)}"
        lines.append(f"    {stars}{one.name}: {_parameter(function, one, told)}{default},\n")
    if given is not None:
        return f"def {function.__name__}(\n{''.join(lines)}) -> {given[2]}: ...\n"
    document = "\n".join(["    " * bool(line) + line for line in [*inspect.getdoc(function).splitlines(), *_more(told)]])
    return (f"def {function.__name__}(\n{''.join(lines)}) -> {_result(function, signature.return_annotation, told)}:\n"
            f'    """{document.strip()}\n    """\n')


def _holds(value: Any, type_: str) -> bool:
    """True if a default is of the type."""
    return type_ in (str(value), f"Literal[{value}]")


def _parameter(function: FunctionType, parameter: inspect.Parameter, told: list[Contract]) -> str:
    """The type of a parameter, annotated with what contracts say of it; the choices of one that has a few."""
    type_ = _named(function, parameter.annotation)
    for contract in told:
        if choices := next(filter(None, (_choices(rule.text, parameter.name) for rule in contract.rules if rule.offered)), None):
            return f"Literal[{', '.join(map(_default, choices))}]"
    said = [_said(line.text) for contract in told for line in [*contract.tensors, *contract.options] if line.name == parameter.name]
    return _annotated(type_, said)


def _result(function: FunctionType, annotation: str, told: list[Contract]) -> str:
    """The type of the result, annotated if all contracts have one."""
    said = [_said(contract.results[0].text) for contract in told if len(contract.results) == 1]
    return _annotated(_named(function, annotation), said if len(said) == len(told) else [])


def _annotated(type_: str, said: list[str]) -> str:
    return f'Annotated[{type_}, "{" or ".join(dict.fromkeys(said))}"]' if said else type_


def _said(line: str) -> str:
    """The line of a contract without its name."""
    return line.partition(": ")[2]


def _choices(rule: str, name: str) -> tuple | None:
    """The choices of "NAME in (...)", if the rule is that."""
    tree = ast.parse(rule.strip(), mode="eval").body
    if isinstance(tree, ast.Compare) and ast.unparse(tree.left) == name and isinstance(tree.ops[0], ast.In):
        return ast.literal_eval(tree.comparators[0])
    return None


def _more(told: list[Contract]) -> Iterator[str]:
    """The lines of contracts about more than one argument, those that several have once."""
    lines = [one.text + (f" -- {one.mend}" if one.mend else "") for contract in told for one in contract.rules if not one.offered]
    lines += [one.text for contract in told if len(contract.results) > 1 for one in contract.results]
    lines += [f"operations: {contract.flops}" for contract in told if contract.flops]
    if lines:
        yield from ("", "contract:")
    for line in dict.fromkeys(lines):
        yield from textwrap.wrap(line, _WIDTH - 4, initial_indent=" " * 4, subsequent_indent=" " * 8)


def _named(function: FunctionType, annotation: str) -> str:
    """An annotation by names that the stub knows: an alias of the function's module becomes what it stands for."""
    known = _KNOWN | set(sys.modules[function.__module__.rpartition(".")[0]].__all__)
    names = {node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)}
    if names <= known:
        return annotation
    return str(eval(annotation, function.__globals__)).replace("torch.Tensor", "Tensor")


def _default(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text)
        print(path.relative_to(ROOT))
