"""Control flow as text: loops, branches and tasks, and the names of what they hand on.

Input: an op with regions. Output: lines. For example:

    %end = for 0, %n, 1 (%zero) { body(%i, %acc): ...; yield %sum }
        acc = tl.zeros(...)
        for i in range(0, n): acc = acc + ...           one name for %acc, %sum and %end, where nothing reads %acc behind %sum
        a, b = b, a                                     at the end of a trip where they cross

A name is written in front of a loop for what it carries; a trip's new value takes it at once if the old one is read no more, else
at the end of the trip. Names are assigned nowhere else, so an expression means the same wherever it is written.
"""

from __future__ import annotations

import re

from ....ir import Block, Op, Value
from ....ir.flow import LoopCarry, induction, loop_carries, region, terminator
from ....ir.ops import is_pure
from .rows import EXPRESSIONS, statement, unwritten
from .texts import Text, has_sign, literal, reads_as

_LOOP_ATTRS = {"tt.num_stages": "num_stages", "tt.loop_unroll_factor": "loop_unroll_factor",
               "tt.disallow_acc_multi_buffer": "disallow_acc_multi_buffer", "tt.flatten": "flatten",
               "tt.warp_specialize": "warp_specialize", "llvm.loop_annotation": "disable_licm"}
_MANY = ("while", "pipe_wait", "pipe_acquire", "pipe_held", "pipe_make", "warp_specialize")     # results have names of their own


# ---- names of what is handed on -------------------------------------------------------------------------------------------

def start(w, op: Op, carry: LoopCarry) -> tuple[str, bool | None]:
    """Write the value that a carry begins with under the carry's name; the name and its sign."""
    value, (wanted, sign) = carry.init, w.aimed(carry.result)
    text = w.text(value)
    signed = text.signed is not False if has_sign(value.type) else text.signed
    if wanted is not None:
        name, signed = wanted, sign
    elif _may_take_over(w, op, value) and (not has_sign(value.type) or text.signed is signed):
        return text.code, signed
    else:
        name = w.names.fresh(carry.argument.name or value.name or "t")
    given = w.carried(value, signed if has_sign(value.type) else None)
    if given.code != name:
        w.line(f"{name} = {given.code}")
    return name, signed if has_sign(value.type) else given.signed


def _may_take_over(w, op: Op, value: Value) -> bool:
    """True if the name of a value may be the loop's from here on: only the loop reads it, and it was assigned in this block."""
    if value in w.params or w.inlining.inlined(value) or not w.text(value).code.isidentifier() or len(w.inlining.used(value)) != 1:
        return False
    made, here = w.uses.definition.get(value), w.uses.place[op].block
    if made is not None:
        return w.uses.place[made].block is here
    place = w.uses.argument.get(value)
    is_number = place is not None and place.parent is not None and place.parent.name == "for" and value is place.block.args[0]
    return place is not None and place.block is here and not is_number


def aim(w, block: Block, olds: list[Value], new: Value, name: str, signed: bool | None) -> None:
    """Let a value that a block hands on under a name take it where it is made, if nothing reads what the name has meant so far,
    the values `olds`, behind that."""
    made = w.uses.definition.get(new)
    if made is None or new in w.targets or w.uses.place[made].block is not block or w.inlining.inside(made):
        return
    if made.name in _MANY or len(made.results) > 1 and made.name not in ("for", "if"):
        return
    first, last = w.uses.position[made], w.uses.position[block.ops[-1]]
    later = w.uses.last[made] if made.name == "if" else first
    if made.name == "for" and not any(carry.result is new and carry.init in olds for carry in loop_carries(made)):
        later -= 1      # its bounds, and what it begins with, are read behind the assignment in front of the loop
    if not any(later < read <= last for old in olds for read in w.inlining.reads(old)):
        w.targets[new] = name, signed
        for carry in loop_carries(made) if made.name == "for" else ():
            if carry.result is new and len(w.inlining.used(carry.init)) == 1:
                aim(w, block, olds, carry.init, name, signed)       # what the loop begins with has the name, too


def assign(w, pairs: list[tuple[str, Text]]) -> None:
    """Assign at once; one line each where no value reads a name that another line assigns."""
    pairs = [(name, text) for name, text in pairs if text.code != name]
    names = {name for name, _ in pairs}
    if any((names - {name}).intersection(re.findall(r"\w+", text.code)) for name, text in pairs):
        w.line(f"{', '.join(name for name, _ in pairs)} = {', '.join(text.code for _, text in pairs)}")
        return
    for name, text in pairs:
        w.assign(name, text.code)


# ---- loops ---------------------------------------------------------------------------------------------------------------

def _options(w, op: Op) -> str:
    known = {name: given for name, given in op.attrs.items() if given is not None and given is not False}
    unknown = [name for name in known if name not in _LOOP_ATTRS]
    if unknown:
        raise unwritten(op, f"the loop has {', '.join(unknown)}")
    return "".join(f", {_LOOP_ATTRS[name]}={given}" for name, given in known.items())


def _bounds(w, op: Op) -> tuple[str, bool | None]:
    """The bounds of a `for` as Triton brings them to one type, and the sign of its number."""
    values = [op.start, op.end, op.step]
    bare = [_before_cast(w, value) for value in values]
    if max(value.type.bits for value in bare) == op.start.type.bits:
        values = bare
    others = [w.text(value) for value in values if w.constant(value) is None and value.type == op.start.type]
    wide = bool(others) and all(text.signed for text in others)      # of which Triton makes the type of the loop
    texts = [_bound(w, value, value is values[2], wide) for value in values]
    signs = {text.signed for text, value in zip(texts, values) if value.type.bits == op.start.type.bits}
    signed = None if None in signs else False not in signs
    code = [text.code for text in texts]
    if code[2] == "1":
        code = code[1:2] if code[0] == "0" else code[:2]
    return ", ".join(code), signed


def _before_cast(w, value: Value) -> Value:
    """A bound before Triton has brought it to the loop's type."""
    op = w.inlining.inlined(value)
    if op is None or op.name != "int_cast" or op.value.type.bits > value.type.bits:
        return value
    same = op.value.type.bits == value.type.bits
    signed = w.text(op.value).signed if not w.text(op.value).number else True
    return op.value if same or op.value.type.bits > 1 and signed is not None and signed == bool(op.signed) else value


def _bound(w, value: Value, is_step: bool, wide: bool) -> Text:
    """A bound; a literal where it is a number that has its type by itself, or by those beside it, which are `wide`."""
    number = w.constant(value)
    fits = number is not None and (reads_as(number.value, number.type) or wide and 0 <= number.value < 1 << 31)
    if fits and not (is_step and number.value < 0):
        return Text(literal(number.value, number.type), signed=True)
    return w.typed(value)


@statement("for")
def _for(w, op: Op) -> None:
    carries = [carry for carry in loop_carries(op) if carry.argument in w.live or carry.result in w.live]
    options = _options(w, op)
    names = [start(w, op, carry) for carry in carries]
    bounds, signed = _bounds(w, op)
    number = w.names.fresh(induction(op).name or "i")
    w.texts[induction(op)] = Text(number, signed=signed)
    w.line(f"for {number} in {'tl.range' if options else 'range'}({bounds}{options}):", w.note(op))
    _trip(w, op, op.blocks[0], [(carry.argument, carry.after) for carry in carries], names)
    for carry, (name, sign) in zip(carries, names):
        w.hold(carry.result, name, sign)


def _trip(w, op: Op, block: Block, handed: list[tuple[Value, Value]], names: list) -> None:
    """The body of a loop, behind its head."""
    for (old, _), (name, signed) in zip(handed, names):
        w.hold(old, name, signed)
    for (old, new), (name, signed) in zip(handed, names):
        aim(w, block, [old], new, name, signed if has_sign(old.type) else None)
    with w.indented():
        w.block(block.ops)
        assign(w, [(name, w.carried(new, signed if has_sign(new.type) else None))
                   for (_, new), (name, signed) in zip(handed, names)])


@statement("while")
def _while(w, op: Op) -> None:
    before, after = region(op, "before"), region(op, "after")
    last = terminator(before)
    if tuple(last.values) != tuple(before.args):
        raise unwritten(op, "its condition passes on other values than it takes")
    keep = [place for place, arg in enumerate(before.args)
            if arg in w.live or after.args[place] in w.live or op.results[place] in w.live]
    carries = loop_carries(op)
    names = [start(w, op, carries[place]) for place in keep]
    for place, (name, signed) in zip(keep, names):
        w.texts[before.args[place]] = w.texts[after.args[place]] = Text(name, signed=signed)
    condition = _condition(w, op, before, last)
    licm = _options(w, op)
    w.line(f"while {f'tl.condition({condition}{licm})' if licm else condition}:", w.note(op))
    handed = [(after.args[place], after.yielded[place]) for place in keep]
    _trip(w, op, after, handed, names)
    for place, (name, signed) in zip(keep, names):
        w.hold(op.results[place], name, signed)


def _condition(w, op: Op, before: Block, last: Op) -> str:
    """The condition of a `while` as one expression."""
    effects = [one for one in before.ops if not is_pure(one.name) and one is not last]
    if len(effects) > 1 or any(one.name not in EXPRESSIONS or len(w.inlining.used(one.result)) != 1 for one in effects):
        raise unwritten(op, "its condition has effects")
    w.all_inside = True
    w.block(before.ops)
    w.all_inside = False
    return w.code(last.condition)


# ---- branches ------------------------------------------------------------------------------------------------------------

@statement("if")
def _if(w, op: Op) -> None:
    if op.attrs.get("in_tensor"):
        raise unwritten(op, "the compiler made it")
    kept = [place for place, result in enumerate(op.results) if result in w.live]
    names = []
    for place in kept:
        result = op.results[place]
        name, signed = w.aimed(result)
        hint = result.name or op.blocks[0].yielded[place].name or "t"
        names.append((name or w.names.fresh(hint), signed if name else True if has_sign(result.type) else None))
    w.line(f"if {w.code(op.condition)}:")
    _branch(w, op.blocks[0], [op.blocks[0].yielded[place] for place in kept], names)
    begin = len(w.lines)
    w.line("else:")
    w.depth += 1
    _within(w, op.blocks[1], [op.blocks[1].yielded[place] for place in kept], names)
    w.depth -= 1
    if len(w.lines) == begin + 1:
        w.lines.pop()
    for place, (name, signed) in zip(kept, names):
        w.hold(op.results[place], name, signed)


def _branch(w, block: Block, values: list[Value], names: list) -> None:
    with w.indented():
        _within(w, block, values, names)


def _within(w, block: Block, values: list[Value], names: list) -> None:
    for value, (name, signed) in zip(values, names):
        olds = [old for old, text in w.texts.items() if text.code == name]
        aim(w, block, olds, value, name, signed)
    w.block(block.ops)
    assign(w, [(name, w.carried(value, signed)) for value, (name, signed) in zip(values, names)])


# ---- tasks ---------------------------------------------------------------------------------------------------------------

@statement("warp_specialize")
def _tasks(w, op: Op) -> None:
    if op.results or op.attrs.get("internal") or op.attrs.get("registers") or op.attrs.get("shares_captures"):
        raise unwritten(op, "the compiler made it, or it gives values")
    more = [text for name, text in (("exclusive", "exclusive=True"), ("no_ending_sync", "no_ending_cluster_sync=True"))
            if op.attrs.get(name)]
    suspend = w.program.launch_facts.suspend_ns
    more += [f"mbarrier_try_wait_suspend_ns={suspend}"] if suspend is not None else []
    w.line(f"with tlx.async_tasks({', '.join(more)}):")
    w.depth += 1
    for task, block in zip(op.attrs["tasks"], op.blocks):
        registers = [f"num_regs={task.registers}"] if task.registers else []
        arguments = ['"default"'] if task.is_default else [f"num_warps={task.num_warps}"]
        role = re.sub(r"[^\w -]", "", task.name)[:20] or "task"
        name = role if task.replicas == 1 else f"{role} {task.replica}"
        w.line(f"with tlx.async_task({', '.join(arguments + registers)}):", "" if name == "default" else name)
        with w.indented(), w.names.scope(w.helpers):
            w.block(block.ops)
    w.names.taken |= w.names.given
    w.depth -= 1
