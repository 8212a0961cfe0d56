"""Why a planted edit of TTGIR that no check finds is harmless: by a further check of a module where one can tell, else by the text.

    reason(edit, made, found)       "The copies to this barrier have the predicate, too: ..", or "" where nobody can say why

Input: the edit, the kernel, and `found(text)`, which says what a check finds in a module. Output: the reason. A further check makes
the fault worse: a wait at a barrier to which nobody arrives, NaN where nobody should look. Where that is not found either, nobody
depends on what the edit changed, in any of the launches.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from .ttgir_edit_kernels import Made
from .ttgir_planted import VALUE, Edit, inserted

Found = Callable[[str], str]
_WAIT = re.compile(rf"ttng\.wait_barrier ({VALUE}), ({VALUE})(, {VALUE})?(?: deps [^:]*)? : (!ttg\.memdesc<1xi64, (#\w+), [^>]*>)")
_OPS = re.compile(r"(?:ttng|ttg|scf)\.\w+")
_NAN = {"f16": "0x7E00", "f32": "0x7FC00000", "bf16": "0x7FC0"}

EXPECT = ("The copies to this barrier have the predicate, too: where it is false no bytes come and the phase that the edit "
          "opens never ends. No launch hangs, so nobody waits for it.")
FIRST = ("The wait is for the phase before a barrier's first, which counts as over. Check: at a barrier of its own, to which "
         "nobody arrives, the same wait passes in all launches.")
LAST = "The arrival stands behind all loops of its region. No launch hangs without it, so no wait is for it."
ENDLESS = ("No wait needs a phase of this barrier to end. Check: with a count of 1000, which no phase reaches, nothing is "
           "found either.")
UNREAD = ("Nobody reads what is stored where the predicate is false. Check: NaN stored there is not found either, results "
          "compared.")
UNWAITED = ("The arrivals of this product have the predicate, too: where it is false nobody can wait for the sums, and "
            "whoever read them unwaited would be found.")
TWICE = "Another wait for as many groups stands next to it, with no group and no access between."
COMMITTED = ("A commit stands for all products that its task started before. The wait above this one is for a later product, "
             "so that the one meant here is over, too.")
TURNS = ("The arrival and its wait take the barrier as one value that goes round the loop: the two barriers take turns as "
         "before, and one product is under way at a time.")

ORDERED = ("Other waits order the same: accesses are compared by what orders them, not by when they happened, and all are "
           "ordered without this wait. Check: the launches do come to where it waits, for at a barrier of its own they hang.")
LONGER = ("To wait where one need not is a fault only if it hangs, and no launch does. Check: the predicate is false in "
          "some, for at a barrier of its own such a wait hangs.")


def reason(edit: Edit, made: Made, found: Found) -> str:
    """Why the edit is harmless; "" for no reason."""
    lines, at = made.text.splitlines(), edit.line - 1
    line = lines[at]
    if edit.kind == "predicate dropped" and edit.op == "ttng.barrier_expect":
        return EXPECT if _copies_alike(lines, at) else ""
    if edit.kind == "predicate dropped" and edit.op == "ttng.tc_gen5_mma":
        pred = re.search(rf"tc_gen5_mma (?:{VALUE}, ){{4}}({VALUE})((?:, {VALUE}\[{VALUE}\])*)", line)
        return UNWAITED if pred and all(own == pred[1] for own in re.findall(r"\[(%[^\]]+)\]", pred[2])) else ""
    if edit.kind == "predicate dropped" and edit.op == "ttng.tmem_store":
        return UNREAD if not found(_with_nan(lines, at)) else ""
    if edit.op == "ttg.async_wait":
        return TWICE if _beside_another(lines, at) else ""
    if edit.kind == "other index":
        used = _uses(lines, at)
        if [_OPS.search(lines[here])[0] for here in used if _OPS.search(lines[here])] == ["ttng.tc_gen5_mma", "scf.yield"]:
            return TURNS
        kind = "wait gone" if "ttng.wait_barrier" in lines[used[0]] else "arrival gone"
        return _of_barrier(replace(edit, kind=kind), lines, used[0], found) if len(used) == 1 else ""
    return _of_barrier(edit, lines, at, found)


def _of_barrier(edit: Edit, lines: list[str], at: int, found: Found) -> str:
    line = lines[at]
    if "ttng.wait_barrier" in line and edit.kind in ("wait gone", "predicate dropped"):
        if edit.kind == "predicate dropped":
            if not found(_at_own_barrier(lines, at, "")):
                return FIRST
            return LONGER if found(_at_own_barrier(lines, at, "not")) else ""
        if not found(_at_own_barrier(lines, at, "same")):
            return FIRST
        if " deps " in line and _behind_a_wait(lines, at):
            return COMMITTED
        return ORDERED if not found(inserted(lines, at, [])) else ""
    if edit.kind == "arrival gone" and "ttng.arrive_barrier" in line:
        return LAST if _behind_loops(lines, at) else ""
    if edit.kind == "other count" and "ttng.init_barrier" in line:
        return ENDLESS if not found(inserted(lines, at, [re.sub(r"(init_barrier \S+), \d+", r"\1, 1000", line)])) else ""
    return ""


def _copies_alike(lines: list[str], at: int) -> bool:
    """Whether the copies that a `barrier_expect` announces have its predicate: those before the next one at the barrier."""
    barrier, predicate = re.search(rf"barrier_expect ({VALUE}), \d+, ({VALUE})", lines[at]).groups()
    copies = []
    for line in lines[at + 1:]:
        if "barrier_expect" in line and f" {barrier}," in line:
            break
        if "async_tma_copy_global_to_local" in line and f" {barrier}," in line:
            copies.append(line)
    return bool(copies) and all(f", {predicate} :" in line for line in copies)


def _at_own_barrier(lines: list[str], at: int, predicate: str) -> str:
    """The module with a wait at a barrier of its own, to which nobody arrives, in the place of one: always, with the "same"
    predicate, or besides the other wait where that does "not" hold."""
    line = lines[at]
    wait, indent = _WAIT.search(line), line[:_depth(line)]
    one = wait[4]
    memory = one.replace("<1xi64", "<1x1xi64")
    own = {"same": wait[3] or "", "not": ", %edit_not"}.get(predicate, "")
    return inserted(lines, at, [
        indent + text for text in (
            "%edit_0 = arith.constant 0 : i32", f"%edit_memory = ttg.local_alloc : () -> {memory}",
            f"%edit_own = ttg.memdesc_index %edit_memory[%edit_0] : {memory} -> {one}", f"ttng.init_barrier %edit_own, 1 : {one}",
            "%edit_true = arith.constant true", f"%edit_not = arith.xori {(wait[3] or ', %edit_true')[2:]}, %edit_true : i1",
            f"ttng.wait_barrier %edit_own, {wait[2]}{own} : {one}", f"ttng.inval_barrier %edit_own : {one}",
            f"ttg.local_dealloc %edit_memory : {memory}", *([line.strip()] if predicate == "not" else []))])


def _with_nan(lines: list[str], at: int) -> str:
    """The module that stores NaN where the predicate of a `tmem_store` is false."""
    line = lines[at]
    indent = line[:_depth(line)]
    store = re.search(rf"tmem_store ({VALUE}), ({VALUE}), ({VALUE}) : (tensor<[\dx]+x(\w+), #\w+>) -> ", line)
    return inserted(lines, at, [
        f"{indent}%edit_true = arith.constant true", f"{indent}%edit_not = arith.xori {store[3]}, %edit_true : i1",
        f"{indent}%edit_nan = arith.constant dense<{_NAN[store[5]]}> : {store[4]}", line,
        line.replace(f"tmem_store {store[1]}", "tmem_store %edit_nan").replace(f", {store[3]} :", ", %edit_not :")])


def _beside_another(lines: list[str], at: int) -> bool:
    """Whether a wait for groups that lets no more be under way stands next to one, on all ways there or on the way from there."""
    number = int(re.search(r"num = (\d+)", lines[at])[1])

    def waits(here: int) -> bool | None:
        line = lines[here]
        if found := re.search(r"ttg\.async_wait .*num = (\d+)", line):
            return int(found[1]) <= number
        return False if re.search(r"ttg\.(async_commit|local_load|local_store|async_copy|memdesc_sub)", line) else None

    def look(places) -> bool:
        return next((told for here in places if (told := waits(here)) is not None), False)

    if look(range(at + 1, len(lines))):
        return True
    start = next((here for here in range(at - 1, -1, -1) if waits(here) is not None or "scf.for" in lines[here]), 0)
    if "scf.for" not in lines[start]:
        return bool(waits(start))
    depth = _depth(lines[start])
    end = next(here for here in range(start + 1, len(lines)) if _depth(lines[here]) <= depth)
    before = (here for here in range(start - 1, -1, -1) if "local_load" not in lines[here] and "subslice" not in lines[here])
    behind = (here for here in range(end - 1, start, -1) if "local_load" not in lines[here] and "subslice" not in lines[here])
    return look(before) and look(behind)


def _behind_a_wait(lines: list[str], at: int) -> bool:
    """Whether the wait for a product above this one stands in the same block, with no product started between."""
    for here in range(at - 1, -1, -1):
        if "ttng.wait_barrier" in lines[here] and " deps " in lines[here]:
            return True
        if re.search(r"ttng\.tc_gen5|scf\.|\}$", lines[here]):
            return False
    return False


def _uses(lines: list[str], at: int) -> list[int]:
    """The lines that use the value that a line makes."""
    name, depth = re.match(r"\s*(%\S+) =", lines[at])[1], _depth(lines[at])
    end = next((here for here in range(at + 1, len(lines)) if _depth(lines[here]) < depth), len(lines))
    return [here for here in range(at + 1, end) if re.search(rf"{re.escape(name)}(?![\w$.#-])", lines[here])]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _behind_loops(lines: list[str], at: int) -> bool:
    """Whether a line is in no loop, and no loop stands behind it in its region."""
    depth = _depth(lines[at])
    for here in range(at, -1, -1):
        indent = _depth(lines[here])
        if indent < depth:
            depth = indent
            if "scf.for" in lines[here] or "scf.while" in lines[here]:
                return False
            break
    for line in lines[at:]:
        if line.strip() and _depth(line) <= depth:
            return True
        if "scf.for" in line or "scf.while" in line:
            return False
    return True
