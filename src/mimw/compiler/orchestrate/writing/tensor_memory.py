"""Words on tensor memory as text: products, their commits, loads and stores.

Input: an op. Output: its text, or a line. For example:

    tcgen05_mma %a, %b, %acc, %some; tcgen05_commit %free     tlx.async_dot(a, b, acc, use_acc=some, mBarriers=[free])
    tcgen05_commit %done                                      tlx.tcgen05_commit(done)
    tmem_load %acc                                            tlx.local_load(acc)
"""

from __future__ import annotations

from ....ir import Op
from .rows import expression, statement, unwritten
from .texts import ATOM, Text
from .words import argument, plain


@statement("tcgen05_mma")
def _product(w, op: Op) -> None:
    plain(op, "waits")
    commits = _commits(w, op)
    more = "" if op.use_acc is True else f", use_acc={argument(w, op, op.use_acc)}"
    more += "" if op.predicate is None else f", pred={argument(w, op, op.predicate)}"
    if commits:
        more += f", mBarriers=[{', '.join(w.code(one.barrier) for one in commits)}]"
    elif not op.attrs.get("waits"):
        more += ", force_async=True"
    w.line(f"tlx.async_dot({w.code(op.a)}, {w.code(op.b)}, {w.code(op.acc)}{more})", w.note(op))


def _commits(w, op: Op) -> list[Op]:
    """The commits that belong to a product: those right behind it."""
    found, ops = [], w.uses.place[op].block.ops
    for other in ops[ops.index(op) + 1:]:
        if other.name != "tcgen05_commit" or not other.attrs.get("of_dot"):
            break
        if other.barrier not in w.texts or other.predicate is not op.predicate:
            raise unwritten(other, "its barrier is named behind the product, or it has a predicate of its own")
        found.append(other)
    return found


@statement("tcgen05_commit")
def _commit(w, op: Op) -> None:
    if op.attrs.get("of_dot"):
        return
    plain(op)
    if op.predicate is not None:
        raise unwritten(op, "it has a predicate")
    w.line(f"tlx.tcgen05_commit({w.code(op.barrier)})", w.note(op))


@expression("tmem_load")
def _read(w, op: Op) -> Text:
    plain(op)
    return Text(f"tlx.local_load({w.code(op.buffer)})", ATOM, True)


@statement("tmem_store")
def _write(w, op: Op) -> None:
    plain(op)
    w.line(f"tlx.local_store({w.code(op.buffer)}, {w.typed(op.value).code})", w.note(op))
