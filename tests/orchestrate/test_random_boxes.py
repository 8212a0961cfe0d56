"""Boxes of random loads read what the pointers read, wherever `fits` takes the launch; wrong boxes are found."""

from collections import Counter
from dataclasses import replace

import pytest

from mimw.compiler.analysis.pointer_boxes import Refused, box_of
from mimw.compiler.orchestrate.box_host import host_source
from mimw.compiler.orchestrate.box_rewrite import HostDescriptor
from mimw.compiler.orchestrate.boxes import Lifted, lifted
from mimw.ir import verify
from mimw.target import wanted
from tests.orchestrate.random_boxes import Case, random_case, same

CASES = 1000
KINDS = "in front of the tensor", "32 bits hold", "end within 16 bytes", "that are written overlap"


def numbers_fault(case: Case, box) -> str:
    """What `fits` says of the numbers of a case: the text that a generated module has, run."""
    host = HostDescriptor("a_desc", "a", box.shape, box.strides, box.block, box.element, box.assumed)
    module: dict = {}
    exec(compile(host_source(Lifted(case.program, case.program, (host, ), (), ())), "host", "exec"), module)
    asked = module["numbers_fit"].__wrapped__.__code__
    return module["numbers_fit"]((case.programs, ), *(case.arguments[name] for name in asked.co_varnames[1:asked.co_argcount]))


@pytest.fixture(scope="module")
def looked_at(request):
    """(case, box or refusal, fault, visits) of each seed."""
    found = []
    for seed in range(CASES * (10 if request.config.getoption("--long") else 1)):
        case = random_case(seed)
        box = box_of(case.program, case.access)
        refused = isinstance(box, Refused)
        found.append((case, box, box.reason if refused else numbers_fault(case, box), case.visits(case.program)))
    return found


def boxes(looked_at, fits: bool = True):
    return [(case, box, visits) for case, box, fault, visits in looked_at if not isinstance(box, Refused) and (not fault) == fits]


def test_a_box_reads_what_the_pointers_read(looked_at):
    right = boxes(looked_at)
    wrong = [case for case, box, visits in right if not same(box, visits, case.access.row.stores)]
    assert not wrong
    assert len(right) > len(looked_at) // 2, Counter(fault for _, _, fault, _ in looked_at)
    assert sum(bool(visits) for _, _, visits in right) > len(right) // 2


def test_a_box_under_assumptions_reads_what_the_pointers_read_where_they_hold(request):
    """Masks that cut nothing off and rows that do not wrap around; launches at which they do are refused, some rightly."""
    right, harm = 0, 0
    for seed in range(CASES * (10 if request.config.getoption("--long") else 1) // 4):
        case = random_case(seed, wraps=True)
        box = box_of(case.program, case.access, assume=True)
        if isinstance(box, Refused) or not isinstance(box_of(case.program, case.access), Refused):
            continue
        fault, visits = numbers_fault(case, box), case.visits(case.program)
        is_same = same(box, visits, case.access.row.stores)
        assert fault or is_same, (seed, box)
        right += not fault and bool(visits)
        harm += not is_same
    assert right > 5 and harm > 20, (right, harm)


def test_each_question_to_the_launch_is_needed(looked_at):
    """Of the launches that `fits` refuses, some would read something else: for each kind of fault that numbers can have."""
    harm = Counter()
    for case, box, fault, visits in looked_at:
        if not isinstance(box, Refused) and fault:
            for kind in KINDS:
                harm[kind] += kind in fault and not same(box, visits, case.access.row.stores)
    assert all(harm[kind] for kind in KINDS), harm


def _ragged(box, visits, axis: int) -> bool:
    """True if the extent along the axis of the descriptor cuts a block, which has elements inside."""
    def cuts(visit) -> bool:
        offset, extent = int(box.offsets[axis].at(visit.numbers)), int(box.shape[axis].at(visit.numbers))
        return visit.inside.any() and offset < extent < offset + box.block[axis]
    return any(map(cuts, visits))


@pytest.mark.parametrize("mutant", ["offset", "bound more", "bound less", "strides", "order"])
def test_a_wrong_box_is_found(looked_at, mutant):
    tried = 0
    for case, box, visits in boxes(looked_at):
        if not any(visit.inside.any() for visit in visits):
            continue
        for axis in range(len(box.block)):
            wrong = _wrong(mutant, box, visits, axis)
            if wrong is not None:
                tried += 1
                assert not same(wrong, visits), (mutant, axis, box)
    assert tried > 50


def _wrong(mutant: str, box, visits, axis: int):
    """The box with one mistake that can be seen in these visits; None if it cannot."""
    def changed(polys, change):
        return tuple(change(poly) if at == axis else poly for at, poly in enumerate(polys))
    if mutant == "offset":
        return replace(box, offsets=changed(box.offsets, lambda poly: poly + 1))
    if mutant.startswith("bound"):
        by = 1 if mutant.endswith("more") else -1
        return replace(box, shape=changed(box.shape, lambda poly: poly + by)) if _ragged(box, visits, axis) else None
    if len(box.block) < 2 or axis:
        return None
    if mutant == "strides":
        return replace(box, strides=box.strides[::-1])
    whole = box.block[0] != box.block[1] and all(visit.inside.all() for visit in visits)
    return replace(box, order=box.order[::-1], block=box.block[::-1]) if whole else None


def test_the_lifted_program_begins_where_the_box_does(looked_at):
    """The offsets that the rewrite emits are the numbers of the box' polynomials, in each round."""
    compared = 0
    for case, box, visits in boxes(looked_at)[:300]:
        if len(box.block) != 2:
            continue
        made = lifted(case.program, wanted("sm_90a"), loads="all")
        if not made.descriptors:
            assert case.access.row.stores and "in two of its rounds" in made.remarks[0].message
            continue
        verify(made.program)
        for plain, new in zip(visits, case.visits(made.program), strict=True):
            assert new.offsets == tuple(int(poly.at(plain.numbers)) for poly in box.offsets)
            compared += 1
    assert compared > 100


