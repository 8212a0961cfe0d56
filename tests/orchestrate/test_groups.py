"""Sizes, strides and places that a kernel loads for each group: descriptors that the producer makes, in turn, and fallbacks."""

from dataclasses import replace

import numpy as np
import pytest

import mimw
from mimw.compiler.orchestrate import boxes_of_groups, producer, tasks
from mimw.compiler.orchestrate.boxes_of_groups import grouped
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.triton_port.enumerations import enumeration_member
from mimw.ir import I1
from mimw.target import wanted
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import reasons, written
from tests.orchestrate.cases import grouped_addresses
from tests.orchestrate.random_groups import judged, random_groups
from tests.orchestrate.running import run
from tests.orchestrate.test_made_boxes import aligned
from tests.orchestrate.test_orchestrate import case

# Groups without rows, without columns, without a sum, of one tile and of several, ragged; more of them than programs.
GROUPS = ((72, 96, 64), (64, 64, 0), (0, 64, 64), (8, 8, 8), (200, 40, 200), (64, 64, 64), (16, 24, 128), (24, 0, 8))
ODD = ((64, 65, 64), (128, 128, 64), (1, 63, 128), (70, 72, 64), (64, 64, 64))      # of multiples of 64 along K


def plain(name, **sizes):
    kernel, grid, args, meta, _ = case(name, **sizes)
    return plain_of(kernel, grid, args, meta | {"num_warps": 4}, "sm_90a")


@pytest.mark.long(but=["grouped_pointers-*", "grouped_descriptors-sizes0-*", "grouped_descriptors-sizes2-*"], everywhere=True)
@pytest.mark.parametrize("name, sizes, plan", [
    ("grouped_descriptors", GROUPS, Plan(stages=1)), ("grouped_descriptors", GROUPS, Plan(stages=2, stores=True)),
    ("grouped_descriptors", GROUPS, Plan(stages=3)), ("grouped_pointers", GROUPS, Plan(stages=2)),
    ("grouped_gemm", ODD, Plan(stages=2))])
def test_a_plan_is_proved(name, sizes, plan):
    one = written(plain(name, sizes=sizes, programs=2), plan)
    assert one.kernel is not None, (one.wrong, one.refused, one.remarks)
    assert len(one.made.program.named("fill_descriptor_slot")) == 2
    proof = prove(one, seeds=3, limit=10)
    assert proof.ok and proof.compared, proof


@pytest.mark.parametrize("name, sizes", [("grouped_descriptors", GROUPS), ("grouped_pointers", GROUPS), ("grouped_gemm", ODD)])
def test_products_are_right(name, sizes):
    kernel, grid, args, meta, (out, expected) = case(name, sizes=sizes)
    one = written(plain_of(kernel, grid, args, meta | {"num_warps": 4}, "sm_90a"), Plan(stages=2))
    out[...] = np.nan
    mimw.simulate(one.kernel, grid, *one.arguments(), num_warps=one.num_warps)
    np.testing.assert_allclose(out.astype(np.float32), expected(), rtol=1e-2, atol=5e-2)


def test_the_producer_makes_each_descriptor_once_a_group_and_consumers_their_own():
    one = written(plain("grouped_descriptors", sizes=GROUPS), Plan(stages=2))
    compute, load = one.text.split('# compute\n')[1].split("with tlx.async_task(num_warps=1")
    assert "allocate_tensor_descriptor(3)" in one.text        # a slot more than the pipe has
    assert load.count("tlx.make_tensor_descriptor(") == 2 and "while" not in load[:load.rindex("tlx.make_tensor_descriptor(")]
    assert compute.count("tl.make_tensor_descriptor(") == 1 and "c + at_c" in compute and "a + at_a" not in compute


def test_hopper_gets_fences_of_tensor_maps_and_no_stack():
    kernel, grid, args, meta, _ = case("grouped_descriptors", bm=128, bn=128)
    one = written(plain_of(kernel, grid, args, meta | {"num_warps": 8}, "sm_90a"), Plan(stages=3))
    made = mimw.compile(one.kernel, grid, *one.arguments(), num_warps=8, target="sm_90a")
    words = ("tensormap.replace", "tensormap.cp_fenceproxy", "fence.proxy.tensormap", "wgmma.mma_async", "setmaxnreg.dec")
    assert [word for word in words if word not in made.ptx] == [] and made.stack_bytes == 0


# ---- by pointers ---------------------------------------------------------------------------------------------------------------


def descriptors_of(launch):
    """The program with descriptors of its own, of a launch whose arrays begin at multiples of 16 bytes."""
    return grouped(aligned(launch), wanted("sm_90a"), enumeration_member("PADDING_OPTION", "PAD_ZERO"))


@pytest.mark.parametrize("name, sizes", [("grouped_pointers", GROUPS), ("grouped_gemm", ODD)])
def test_the_step_changes_no_bit(name, sizes):
    results = []
    for change in (None, lambda program: descriptors_of(program).program):
        kernel, grid, args, meta, (out, _) = case(name, sizes=sizes)
        program, _ = run(change, kernel, grid, args, meta)
        results.append((out.copy(), len(program.named("make_tensor_descriptor"))))
    assert results[0][0].tobytes() == results[1][0].tobytes() and [made for _, made in results] == [0, 2]


def test_which_numbers_are_asked_is_said_with_the_lines():
    one = written(plain("grouped_gemm", sizes=ODD), Plan(stages=2))
    said = [line for line in reasons(one.remarks) if "is a block of" in line]
    assert len(said) == 2 and "a + at_a: 64 x 64 at" in said[0] and "in front of line 16" in said[0], said
    assert all(text in one.text for text in ("(K & 7 == 0)", "(at_a & 7 == 0)", "(N & 7 == 0)", "tl.load(x_at2, mask="))


@pytest.mark.parametrize("name", ["gemm_pointers", "gemm_persistent", "gathered_gemm", "layer_norm"])
def test_what_loads_no_sizes_stays_as_it_is(name):
    kernel, grid, args, meta, _ = case(name)
    program = plain_of(kernel, grid, args, meta, "sm_90a").program
    assert descriptors_of(program).program.named("make_tensor_descriptor") == program.named("make_tensor_descriptor")


def test_an_array_that_begins_elsewhere_keeps_its_pointers():
    kernel, grid, args, meta, _ = case("grouped_pointers")
    program = plain_of(kernel, grid, args, meta, "sm_90a").program
    assert grouped(program, wanted("sm_90a"), enumeration_member("PADDING_OPTION", "PAD_ZERO")).program is program


def at_addresses(name, **sizes):
    """(the launch of a kernel that loads addresses, what they lead to, what it writes, what that is then)."""
    kernel, grid, args, meta, (memory, outs, expected) = getattr(grouped_addresses, name)(**sizes)
    return (kernel, grid, args, meta), memory, outs, expected


@pytest.mark.long(but=["descriptors"], everywhere=True)
@pytest.mark.parametrize("name", ["descriptors", "pointers"])
def test_groups_at_addresses_are_proved_where_memory_names_them(name):
    (kernel, grid, args, meta), memory, outs, expected = at_addresses(name)
    found = mimw.orchestrate(kernel, grid, *args, memory=memory, plan=Plan(stages=2), seeds=2, limit=10, **meta)
    found = replace(found, is_used=True)
    assert found.certificate is not None and found.certificate.ok, (found.because, found.certificate)
    for out in outs:
        out[...] = np.nan
    found[grid](*args, memory=memory, **meta)
    for out, right in zip(outs, expected()):
        np.testing.assert_allclose(out.astype(np.float32), right, rtol=1e-2, atol=5e-2)


def test_addresses_out_of_an_array_are_refused_with_the_line_that_writes():
    """C of one group may be A of the next one, and nobody could ask that of a launch."""
    (kernel, grid, args, meta), _, _, _ = at_addresses("descriptors")
    launch = plain_of(kernel, grid, args, meta, "sm_90a")
    one = written(launch, Plan(stages=2))
    store = launch.program.named("descriptor_store")[0].site.line
    assert one.kernel is None and sum(f"line {store} writes through an address that comes out of an array" in line
                                      for line in reasons(one.remarks)) == 2, reasons(one.remarks)


def test_one_array_that_is_read_and_written_is_no_promise():
    (kernel, grid, (a, b, c, *sizes), meta), memory, _, _ = at_addresses("descriptors")
    c = c.copy()
    c[0] = a[1]     # C of the first group is A of the second one
    one = written(plain_of(kernel, grid, (a, b, c, *sizes), meta, "sm_90a", memory), Plan(stages=2))
    assert one.kernel is None and any("out of an array" in line for line in reasons(one.remarks))


# ---- mistakes that a proof has to find ---------------------------------------------------------------------------------------


def a_place_less(monkeypatch):
    right = tasks.rooms

    def wrong(program, rings, b):
        for ring in rings.roots:
            ring.stages -= 1
        found = right(program, rings, b)
        for ring in rings.roots:
            ring.stages += 1
        return found
    monkeypatch.setattr(tasks, "rooms", wrong)


def always_the_same_place(monkeypatch):
    right = producer.filled

    def wrong(b, make, room, made, since, chunk):
        zero = b.constant(0, made.type)
        descriptor, _ = right(b, make, room, zero, chunk, chunk)
        return descriptor, b.emit("add", (made, zero))
    monkeypatch.setattr(producer, "filled", wrong)


def the_descriptor_of_the_group_before(monkeypatch):
    """Numbers of the first group that has a tile, for all."""
    right = producer.Producer._descriptor
    first = {}
    monkeypatch.setattr(producer.Producer, "_descriptor", lambda self, load, ring: first.setdefault(ring, right(self, load, ring)))


def nothing_is_asked(monkeypatch):
    right = boxes_of_groups.Asked.all

    def wrong(self, conditions):
        right(self, conditions)
        return self.b.constant(1, I1)
    monkeypatch.setattr(boxes_of_groups.Asked, "all", wrong)


def the_base_is_not_moved(monkeypatch):
    right = boxes_of_groups.made_box

    def wrong(program, op):
        found = right(program, op)
        return replace(found, base=found.base - found.base) if hasattr(found, "box") else found
    monkeypatch.setattr(boxes_of_groups, "made_box", wrong)


@pytest.mark.parametrize("name, sizes, mistake", [
    ("grouped_descriptors", GROUPS, a_place_less), ("grouped_descriptors", GROUPS, always_the_same_place),
    ("grouped_descriptors", GROUPS, the_descriptor_of_the_group_before),
    ("grouped_gemm", ODD, nothing_is_asked), ("grouped_gemm", ODD, the_base_is_not_moved)])
def test_a_mistake_is_found(name, sizes, mistake, monkeypatch):
    mistake(monkeypatch)
    one = written(plain(name, sizes=sizes, programs=2), Plan(stages=2))
    assert not one.wrong and one.kernel is not None, one.wrong
    proof = prove(one, seeds=6, limit=10)
    assert not proof.ok and proof.wrong


def test_a_mistake_is_found_in_memory_that_addresses_lead_to(monkeypatch):
    the_descriptor_of_the_group_before(monkeypatch)
    (kernel, grid, args, meta), memory, _, _ = at_addresses("descriptors")
    proof = prove(written(plain_of(kernel, grid, args, meta, "sm_90a", memory), Plan(stages=2)), seeds=2, limit=4)
    assert "memory[" in proof.wrong, proof


# ---- random ones --------------------------------------------------------------------------------------------------------------


@pytest.mark.long(but=["3", "5"], everywhere=True)
@pytest.mark.parametrize("seed", [0, 3, 5, 13])
def test_random_groups(seed):
    """Each way to find the matrices once; `python -m tests.orchestrate.random_groups 0 200` looks at more."""
    said, how = judged(seed)
    assert not said, how


def test_the_seeds_have_each_way_to_write_a_group():
    drawn = [random_groups(seed)[3] for seed in (0, 3, 5, 13)]
    for name, count in (("A", 3), ("TURNED", 2), ("C", 2), ("TILES", 2), ("MASKED", 2)):
        assert len({how[name] for how in drawn}) == count, name
