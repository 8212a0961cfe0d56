"""Names that a kernel does not have: of Python, of the file, of another task, or of a branch that may not have been taken.

Input: a NameError. Output: what the name is, and what to write. For example:

    sum is not defined          `sum` is a function of Python, which kernels do not have. Mend: write `tl.sum(tile, axis)`
    vlaue is not defined        vlaue is not defined: neither the kernel nor its file has that name. Mend: did you mean `value`?
    total is not defined        total is not defined here: it is made in task 'load' (line 7), and what a task makes stays its own
"""

from __future__ import annotations

import ast
import builtins
import re
from difflib import get_close_matches
from types import FunctionType

from ...triton_port.codegen import parse

_UNDEFINED = re.compile(r"(\w+) is not defined")
_GLOBAL = re.compile(r"Cannot access global variable (\w+) from within")
_INSTEAD = {
    "sum": "write `tl.sum(tile, axis)`", "all": "write `tl.reduce`, or `tl.min(mask.to(tl.int32), 0)`",
    "any": "write `tl.max(mask.to(tl.int32), 0)`", "sorted": "write `tl.sort(tile)`",
    "enumerate": "loop over the numbers, `for i in tl.static_range(len(values))`, and take `values[i]`",
    "zip": "loop over the numbers, `for i in tl.static_range(len(a))`, and take `a[i]` and `b[i]`",
    "map": "apply the operation to the whole tile", "filter": "use a mask: `tl.where(mask, tile, 0)`",
    "round": "write `tl.extra.libdevice.rint(x)`, or `tl.floor(x + 0.5)`", "pow": "write `x * x`, or `tl.exp2(y * tl.log2(x))`",
    "open": "read the file before the launch, and pass what it holds", "reversed": "loop down: `range(n - 1, -1, -1)`",
    "input": "pass the value as an argument", "str": "print a value by `tl.device_print(\"text\", value)`",
    "bool": "write `x != 0`", "dict": "pass the values as parameters", "set": "pass the values as parameters",
}


def name(generator, node, root, message):
    """(message, mend) for a name that is not defined, or is not the kernel's to read."""
    if not isinstance(root, NameError):
        return None
    if found := _GLOBAL.match(message):
        return _of_the_file(found[1], generator.gscope.get(found[1]))
    if not (found := _UNDEFINED.fullmatch(message)):
        return None
    missing = found[1]
    if task := _made_in_a_task(generator, missing, node):
        return (f"{missing} is not defined here: it is made in task {task[0]!r} (line {task[1]}), and what a task makes "
                "stays its own",
                f"make `{missing}` before the region of tasks, or hand the value over in a buffer: tlx.local_store and "
                "tlx.barrier_arrive there, tlx.barrier_wait and tlx.local_load here")
    if (line := _assigned(generator, missing)) is not None:
        where = "here" if line == generator.begin_line + node.lineno else f"at line {line}, in a branch or a loop that need not run"
        return (f"{missing} is not defined on every way to this line: it is assigned {where}",
                f"assign `{missing}` before, too, with the type that it has there")
    if hasattr(builtins, missing):
        return (f"`{missing}` is a function of Python, which kernels do not have", _INSTEAD.get(missing, ""))
    known = [one for one in (*generator.lscope, *generator.gscope) if not one.startswith("_")]
    close = get_close_matches(missing, known, n=1, cutoff=0.72)
    return (f"{missing} is not defined: neither the kernel nor its file has that name",
            f"did you mean `{close[0]}`?" if close else "")


def _made_in_a_task(generator, name: str, node) -> tuple[str, int] | None:
    """(task, line) of the first other task that assigns the name: tasks have the names of their `with` lines' comments."""
    unnamed = 0
    for block in ast.walk(parse(generator.jit_fn)):
        if not isinstance(block, ast.With) or not isinstance(call := block.items[0].context_expr, ast.Call) \
                or not ast.unparse(call.func).endswith("async_task"):
            continue
        default = any(isinstance(one, ast.Constant) and one.value == "default" for one in call.args)
        task = generator.role_of(block)
        unnamed += task is None and not default
        task = task or ("default" if default else f"task {unnamed}")
        lines = [one.lineno for one in ast.walk(block)
                 if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one.id == name]
        if lines and not block.lineno <= node.lineno <= block.end_lineno:
            return task, generator.begin_line + lines[0]
    return None


def _of_the_file(name: str, value) -> tuple[str, str]:
    """A name of the kernel's file that holds no constant."""
    if isinstance(value, FunctionType):
        return (f"`{name}` is a Python function, which a kernel cannot call",
                f"is `@mimw.jit` missing above `def {name}`? Decorate it with `triton.constexpr_function` if it works on numbers "
                "that are known when compiling")
    if isinstance(value, type):
        return (f"`{name}` is a class of the file, which a kernel cannot read",
                "pass what is wanted of it as a parameter, `VALUE: tl.constexpr`; a class for values of kernels is a `tle.struct`")
    if isinstance(value, (bool, int, float, str)):
        return (f"`{name}` is a variable of the file, and may change after the kernel is compiled; a kernel reads only constants",
                f"write `{name} = tl.constexpr({value!r})` in the file, or make it a parameter, `{name}: tl.constexpr`")
    return (f"`{name}` is a variable of the file ({type(value).__name__}), which a kernel cannot read",
            f"pass it as an argument; numbers that are known when compiling as `{name}: tl.constexpr`")


def _assigned(generator, name: str) -> int | None:
    """The line at which the function assigns the name, if it does so anywhere before what is read."""
    lines = [node.lineno for node in ast.walk(parse(generator.jit_fn))
             if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name]
    return generator.begin_line + min(lines) if lines else None
