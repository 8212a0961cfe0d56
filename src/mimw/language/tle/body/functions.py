"""The dialect `func`: the end of a body, and calls of helpers, as ops.

Input: values, or a helper and its arguments. Output: what the body gives back. For example:

    func.return_([x])               as `return x`
    func.call(helper, [a, b])       as `helper(a, b)`: its body, read right here
"""

from __future__ import annotations

from types import FunctionType

from .dialect import op


@op("func", classes=("ReturnOp", ))
def return_(body, operands=()):
    """End the body, with the values that it returns."""
    values = list(operands)
    body.end(None if not values else values[0] if len(values) == 1 else values)


@op("func", classes=("CallOp", ))
def call(body, callee, arguments=()):
    """Record a helper's body in place; return its results."""
    if not isinstance(callee, FunctionType):
        body.fail(f"func.call takes a Python function that is a body itself, got {callee!r}")
    return body.inlined(callee, list(arguments), {})
