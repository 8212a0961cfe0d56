"""Predicates: the operand `predicate` of a word, which an author may leave out.

Input: an optional IR value. Output: an i1 of MLIR:

    barrier_wait %full, 0        predicate(emitter, op.predicate) is `arith.constant true`
"""

from __future__ import annotations

from ...ir import Value
from .emitter import Emitter


def predicate(emitter: Emitter, value: Value | None):
    """The MLIR predicate of an optional IR predicate; one that was left out is always true."""
    return emitter.builder.get_int1(True) if value is None else emitter.of(value)
