"""Boxes whose numbers the kernel knows where a loop begins: where what it asks is true, they read what the pointers read."""

from collections import Counter
from dataclasses import replace

import pytest

from mimw.compiler.analysis.address_forms import NoForm
from mimw.compiler.analysis.made_boxes import made_box
from mimw.compiler.analysis.tensor_boxes import Refused
from mimw.compiler.orchestrate.asked_in_kernel import Asked
from mimw.ir import Builder
from tests.orchestrate.random_boxes import random_case, read_by

CASES = 600


def aligned(program):
    """The program of a launch whose array begins at a multiple of 16 bytes."""
    return replace(program, params=tuple(replace(param, attrs=(("tt.divisibility", 16), )) for param in program.params))


def with_condition(program, made, drop=None):
    """(the program with what the box takes for granted asked in front of its loop, the value that is true where it holds)."""
    b, forms = Builder(made.loop.site), made.ranges.forms
    kept = [one for one in made.box.assumed if drop is None or not drop(one)]
    group = [one for one in kept if forms.invariant(one.poly, made.around)]
    first = Asked(b, made.ranges, None, made.loop.site)
    early = first.all(group)
    late = Asked(b, made.ranges, made.loop, made.loop.site, first.spans).all(one for one in kept if one not in group)
    value = b.emit("and", (early, late))

    def walk(block):
        return block.with_ops(new for op in block.ops for new in (*(b.ops if op is made.loop else ()), op if op is made.loop else
                                                                  op.with_blocks(walk)))
    return replace(program, body=walk(program.body)), value


def reads_the_same(made, visit) -> bool:
    """True if the box has the elements that the pointers have, in places that TMA takes."""
    box, size = made.box, made.box.element.bytes
    base = int(made.base.at(visit.numbers)) * size
    strides = [int(one.at(visit.numbers)) * size for one in box.strides[:-1]]
    extents, offsets = ([int(one.at(visit.numbers)) for one in many] for many in (box.shape, box.offsets))
    if base % 16 or any(one % 16 or not 0 < one < 1 << 40 for one in strides) or offsets[-1] * size % 16:
        return False
    if not all(0 < one < 1 << 31 for one in extents) or not all(-(1 << 31) <= one < 1 << 31 for one in offsets):
        return False
    addresses, inside = read_by(box, visit)
    return not (inside != visit.inside).any() and not (addresses + base != visit.addresses)[visit.inside].any()


def answered(case, program, asked, value):
    """The visits of the access, each with the condition's answer in front of its loop."""
    return [(bool(other.numbers[value]), one) for one, other in zip(case.visits(program), case.visits(asked), strict=True)]


@pytest.fixture(scope="module")
def looked_at(request):
    """(case, its box, the visits with the condition's answers, and the case's program) of each seed that has a box."""
    found, refused = [], Counter()
    for seed in range(CASES * (10 if request.config.getoption("--long") else 1)):
        case = random_case(seed, wraps=seed % 3 == 0)
        program = aligned(case.program)
        made = made_box(program, case.access) if case.access.row.loads else Refused("a store", case.access.site)
        try:
            if isinstance(made, Refused):
                raise NoForm(made.reason, made.site)
            asked, value = with_condition(program, made)
        except NoForm as why:
            refused[why.reason] += 1
            continue
        found.append((case, made, program, answered(case, program, asked, value)))
    return found, refused


def test_where_the_answer_is_true_the_box_reads_what_the_pointers_read(looked_at):
    found, refused = looked_at
    answers = Counter()
    for _, made, _, visits in found:
        for answer, visit in visits:
            same = reads_the_same(made, visit)
            assert same or not answer, (made.box, made.base, visit.numbers)
            answers[answer, same] += 1
    assert answers[True, True] > 200 and answers[False, False] > 30, (answers, refused)
    assert answers[True, True] > 3 * answers[False, True], answers      # few are refused that would be right


def test_bases_that_the_kernel_computes_are_moved(looked_at):
    assert sum(bool(made.base) for _, made, _, _ in looked_at[0]) > 10


@pytest.mark.parametrize("kind", ["divide", "in front of the tensor", "bits hold", "wrap around", "is not positive"])
def test_each_question_is_needed(looked_at, kind):
    """Without one kind of question, some answers are true of boxes that read something else."""
    harm = 0
    for case, made, program, visits in looked_at[0]:
        if not any(kind in one.what for one in made.box.assumed) or all(answer for answer, _ in visits):
            continue
        asked, value = with_condition(program, made, lambda one: kind in one.what)
        harm += any(answer and not reads_the_same(made, one) for answer, one in answered(case, program, asked, value))
    assert harm, kind
