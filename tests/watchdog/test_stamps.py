"""Stamps in the kernel: there when asked for, and not a byte of them otherwise."""

import re
import subprocess

import pytest
import triton.language as tl

from mimw.compiler.passes.stamp_waits import ENDS, LOOPS, RUNS, WAITS, stamp_waits, stamps
from mimw.compiler.triton_port.runtime import knobs
from mimw.errors import TargetError
from mimw.ir import OPS, WaitTable, verify
from mimw.ir.wait_table import CTAS, DONE
from mimw.runtime.jit import MockTensor
from mimw.runtime.simulate import prepare
from mimw.simulator import run
from mimw.target import target
from tests.kernels.hangs import case, handed_on

from .fabricated import compiled, stamped
from .test_on_the_gpu import LINES

RIGHT = case("right")


def test_off_the_ptx_is_the_same_byte_for_byte():
    """Whether the option is left out, None or false, before or after one with stamps."""
    off = compiled(RIGHT)
    before, on = off.stages["ptx"], compiled(RIGHT, wait_stamps=True)
    for again in ({}, {"wait_stamps": None}, {"wait_stamps": False}):
        assert compiled(RIGHT, **again).stages["ptx"] == before
    assert "st.volatile" not in before and "%globaltimer" not in before and off.metadata.profile_scratch_size == 0
    assert on.metadata.profile_scratch_size == WaitTable(2, 8).cta_bytes == 2 * 16 + 8 * 32


def test_on_there_is_a_stamp_around_every_wait():
    ptx, program = compiled(RIGHT, wait_stamps=True).stages["ptx"], stamped(RIGHT)
    numbers = [int(number) for number in re.findall(r"mov\.u32 number, (\d+);", ptx)]
    (last, ) = [number for number, stamp in stamps(program).items() if stamp.state == ENDS and stamp.lane == 0]
    assert last | DONE in numbers                                    # which frees the CTA's place
    assert set(stamps(program)) - {last} <= set(numbers)
    assert ptx.count("ld.volatile.shared.b64 word") == 2 * (1 + 2)      # each wait: its own word, and both arrays


def waiting_loops(kernel, tmp_path) -> list[str]:
    """The machine code of the loops that look at the time while they try an mbarrier."""
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(kernel.stages["cubin"])
    command = [knobs.nvidia.nvdisasm.path, "-c", cubin]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    labels = {line[:-1]: at for at, line in enumerate(listing) if re.fullmatch(r"\.L_x_\d+:", line)}
    jumps = [(at, re.search(r"BRA `\((\.L_x_\d+)\)", line)) for at, line in enumerate(listing)]
    loops = ["\n".join(listing[labels[jump[1]]:end]) for end, jump in jumps if jump and labels[jump[1]] < end]
    return [loop for loop in loops if loop.count("NANOSLEEP.SYNCS") == 1 and "SR_GLOBALTIMER" in loop.split("SYNCS.PHASECHK")[0]]


@pytest.mark.parametrize("name, waits, barriers", [("wrong_parity", 2, 2), ("missing_bytes", 1, 1), ("cluster", 1, 1)])
def test_the_machine_code_looks_at_the_words_while_it_waits(tmp_path, name, waits, barriers):
    """In the loop itself, without reading the table, and with the stores on their way to the host before it tries again."""
    loops = waiting_loops(compiled(case(name), wait_stamps=True), tmp_path)
    assert len(loops) == waits
    for loop in loops:
        assert loop.count("LDS.64") == 1 + barriers
        assert loop.count("STG.E.128.STRONG.SYS") == 2 + barriers and "LDG" not in loop
        assert loop.index("MEMBAR.SC.SYS") > loop.rindex("STG.E.128.STRONG.SYS")
    assert "%globaltimer" not in compiled(case(name)).stages["ptx"]        # so no loop looks at the time where nobody watches


def test_a_wait_looks_at_the_barriers_that_have_been_made():
    (wait, ) = [op for op in stamped(case("spin")).walk() if op.name == "watched_wait"]
    assert [array.name for array in wait.args[3]] == ["met"] and wait.attrs["rows"] == (0, )
    waits = [op for op in stamped(RIGHT).walk() if op.name == "watched_wait"]
    assert [([array.name for array in wait.args[3]], wait.attrs["rows"]) for wait in waits] == [(["full", "free"], (0, 1))] * 2


def test_what_remains_without_the_stamps_is_the_kernel():
    """The stamps change no other instruction of the tensor cores, the copies or the barriers."""
    def work(ptx):
        own = re.sub(r"// begin inline asm.*?// end inline asm", lambda found: "" if "%globaltimer" in found[0] else found[0], ptx,
                     flags=re.DOTALL)
        return [re.sub(r"[%$]\w+", "", line).split()[0] for line in own.splitlines()
                if re.search(r"wgmma\.mma|cp\.async\.bulk|mbarrier\.(try|arrive)|st\.global\.v4", line)]
    for name in ("right", "missing_bytes"):
        off, on = (work(compiled(case(name), **options).stages["ptx"]) for options in ({}, {"wait_stamps": True}))
        assert off == on and len(off) >= 2


def test_each_wait_has_a_stamp_that_names_it():
    found = stamps(stamped(case("right")))
    waits = {(stamp.lane, stamp.op.name, stamp.site.line) for stamp in found.values() if stamp.state == WAITS}
    assert waits == {(1, "barrier_wait", LINES["tlx.barrier_wait(full[0], i & 1)"]),
                     (2, "barrier_wait", LINES["tlx.barrier_wait(free[0], (i & 1) ^ FLIP)"])}
    assert [stamp.lane for stamp in found.values() if stamp.state == ENDS] == [1, 2, 0]
    assert sorted(found) == list(range(1, len(found) + 1))


def test_behind_a_wait_in_a_loop_without_a_bound_the_loop_goes_on():
    program = stamped(case("spin"))
    found = stamps(program)
    (loop, ) = [stamp for stamp in found.values() if stamp.state == LOOPS]
    assert loop.op.name == "while" and loop.lane == 0
    order = [found[op.attrs["stamp"]].state for op in program.body.ops if op.name in ("wait_stamp", "watched_wait")]
    assert order == [RUNS, WAITS, LOOPS, RUNS, ENDS]


@pytest.mark.parametrize("name, op", [("named_barrier", "named_barrier_wait"), ("cluster", "cluster_barrier")])
def test_waits_of_one_instruction_stand_between_two_stamps(name, op):
    program = stamped(case(name))
    for block in [program.body, *(block for one in program.walk() for block in one.blocks)]:
        names = [one.name for one in block.ops]
        for index, one in enumerate(names):
            if one == op:
                assert (names[index - 1], names[index + 1]) == ("wait_stamp", "wait_stamp")
                assert block.ops[index - 1].attrs["state"] == WAITS and block.ops[index + 1].attrs["state"] == RUNS


def test_the_table_says_which_ops_wait():
    assert {name: row.blocks for name, row in OPS.items() if row.blocks} == {
        "barrier_wait": "barrier", "named_barrier_wait": "named barrier", "cluster_barrier": "cluster",
        "cluster_tile": "cluster", "group_barrier": "rendezvous", "grid_barrier": "rendezvous", "atomic_poll": "poll",
        "grid_dependency_wait": "before", "signal_wait": "poll", "world_barrier": "rendezvous"}


def test_a_stamped_program_computes_the_same():
    kernel, grid, args, meta = case("right")
    program = stamped((kernel, grid, args, meta))
    verify(program)
    launch = prepare(kernel, grid, args, meta)
    run(program, grid, launch.values)
    assert (args[1] == args[0]).all() and args[0].any()


def test_places_are_used_in_turn():
    table = WaitTable(barriers=3, warps=5)
    assert table.slots == 64 and table.cta_bytes == 64 + 5 * 32
    assert table.bytes(7) == 7 * table.cta_bytes and table.bytes(10**6) == CTAS * table.cta_bytes
    assert table.slot(CTAS + 2, 1) == table.slot(2, 1) == 2 * table.cta_bytes + 64 + 32 and table.row(1, 2) == table.cta_bytes + 32


def test_stamps_are_for_nvidia():
    kernel, grid, args, meta = case("right")
    with pytest.raises(TargetError, match="stamps of waits are PTX; gfx942"):
        stamp_waits(prepare(kernel, grid, args, meta).program, target("gfx942"))


def test_a_launch_without_a_watchdog_has_no_stamps():
    """What the watchdog adds to a launch's keywords reaches the compiler, and the key of the kernel in memory."""
    asked = dict(SIZE=128, FLIP=1, grid=(1, ))
    arrays = MockTensor(tl.float32), MockTensor(tl.float32)
    off = handed_on.warmup(*arrays, 4, 4, **asked)
    on = handed_on.warmup(*arrays, 4, 4, wait_stamps=True, **asked)
    assert on is not off and "%globaltimer" in on.asm["ptx"] and "%globaltimer" not in off.asm["ptx"]
    assert handed_on.warmup(*arrays, 4, 4, **asked) is off
