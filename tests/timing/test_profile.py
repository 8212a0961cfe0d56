"""Time stamps: only where they are asked for, records that become events, and a kernel that stays right with them."""

import re

import numpy as np
import pytest

import mimw
from mimw.compiler.passes.stamp_time import BEGIN, END, stamp_time
from mimw.errors import NotYet, SimulatorMisuse, TargetError
from mimw.ir import verify
from mimw.runtime.compile_kernel import compile_kernel
from mimw.runtime.simulate import prepare
from mimw.target import target
from mimw.tools.timing.profile import _decoded
from tests.kernels.drawn_tiles import drawn
from tests.kernels.lines import line_of
from tests.kernels.product import WAITS, product, product_case
from tests.kernels.rounds_by_data import started_in_a_loop

SIGNATURE = {"a_desc": "tensordesc<fp16[64,64]>", "b_desc": "tensordesc<fp16[64,64]>", "out": "*fp32", "K": "i32"}
META = dict(M=64, N=64, BK=64, STAGES=2)


def compiled(**options):
    return compile_kernel(product, SIGNATURE, META, options=options)


def stamped(capacity=64, every=1):
    kernel, grid, args, meta = product_case()
    return stamp_time(prepare(kernel, grid, args, meta).program, target("sm_90a"), capacity, every)


def test_off_there_is_nothing_and_on_there_are_stamps():
    off, on = compiled(), compiled(time_stamps=(64, 1))
    assert "%clock64" not in off.stages["ptx"] and "%globaltimer" not in off.stages["ptx"]
    assert off.metadata.profile_scratch_size == 0
    assert on.stages["ptx"].count("%clock64") >= 8 and on.stages["ptx"].count("%globaltimer") == 2 * 3
    assert on.metadata.profile_scratch_size == 3 * 64 * 16


def test_off_the_ptx_is_the_same_byte_for_byte():
    """Whether an option is left out or None, before or after one with stamps."""
    before = compiled().stages["ptx"]
    compiled(time_stamps=(64, 1))
    assert compiled(time_stamps=None).stages["ptx"] == before == compiled().stages["ptx"]


def test_what_remains_without_the_stamps_is_the_kernel():
    """The stamps change no other instruction of the tensor cores, the copies or the barriers."""
    def work(ptx):
        return [re.sub(r"[%$]\w+", "", line).split()[0] for line in ptx.splitlines()
                if re.search(r"wgmma\.mma|cp\.async\.bulk|mbarrier\.(try|arrive)|st\.global\.v4", line)]
    assert work(compiled().stages["ptx"]) == work(compiled(time_stamps=(64, 1)).stages["ptx"])


def test_events_close_what_they_follow():
    program = stamped()
    verify(program)
    events = [(op.attrs["lane"], op.attrs["kind"], op.attrs["label"]) for op in program.walk() if op.name == "time_stamp"]
    consumer, producer = ([(kind, label) for lane, kind, label in events if lane == number] for number in (1, 2))
    assert {("wait", "barrier_wait full"), ("dot", "64 x 64 x 64"), ("wait", "async_dot_wait")} <= set(consumer)
    assert consumer[-1] == ("run", "") and ("store", "store") in consumer
    assert [event for event in producer if event[0] != "run"] == [
        ("wait", "barrier_wait free"), ("copy", "tma_load a_tiles"), ("copy", "tma_load b_tiles")]
    numbers = [op.attrs["event"] for op in program.walk() if op.name == "time_stamp" and op.attrs["event"] not in (BEGIN, END)]
    assert len(numbers) == len(set(numbers))


def test_a_stamped_program_computes_the_same():
    kernel, grid, args, meta = product_case(k=128, fill=lambda shape, dtype: np.ones(shape, dtype))
    launch = prepare(kernel, grid, args, meta)
    from mimw.simulator import run
    run(stamp_time(launch.program, target("sm_90a"), 64), grid, launch.values)
    assert (args[2] == 128).all()


def test_branches_and_whiles_carry_the_count():
    launch = prepare(drawn, (1, ), (np.zeros(1, np.int32), np.zeros(8, np.int32), 8), dict(LIMIT=8))
    verify(stamp_time(launch.program, target("sm_90a"), 64))
    text = compile_kernel(drawn, {"counter": "*i32", "order_of": "*i32", "tiles": "i32"}, {"LIMIT": 8},
                          options={"time_stamps": (64, 2)}).stages["ptx"]
    assert "%clock64" in text and "cubin" not in text


def test_records_become_events():
    """Two CTAs on two SMs whose clocks have nothing to do with each other; the second starts 1000 ns later."""
    program = stamped(capacity=8)
    stamps = {(op.attrs["lane"], op.attrs["event"]): op for op in program.walk() if op.name == "time_stamp"}
    waits = [event for (lane, event), op in stamps.items() if lane == 1 and op.attrs["kind"] == "wait"]
    records = np.zeros((2, 3, 8, 2), np.uint64)
    for cta, (clock, timer, sm) in enumerate(((5_000, 10_000, 7), (900_000, 11_000, 9))):
        for lane in range(3):
            rows = [(clock, 1 | sm << 32), (timer, 1 | sm << 32)]
            if lane == 1:
                rows += [(clock + 400, waits[0] + 1), (clock + 1000, waits[1] + 1)]
            rows += [(clock + 4000, 2 | len(rows) << 32), (timer + 2000, 2 | len(rows) << 32)]
            records[cta, lane, :len(rows)] = rows
    found = _decoded("product", (2, ), program, records, 1)
    assert found.megahertz == 2000 and found.microseconds == 3.0 and found.sms == {0: 7, 1: 9} and found.spread == 1.0
    second = [event for event in found.trace.events if (event.cta, event.lane) == (1, "consumer")]
    assert [(event.kind, round(event.start, 6), round(event.end, 6)) for event in second] == [
        ("run", 1.0, 1.05), ("wait", 1.05, 1.2), ("run", 1.2, 1.25), ("wait", 1.25, 1.5), ("run", 1.5, 3.0)]
    assert second[0].label == "barrier_wait full" and second[0].site.line == line_of(product, WAITS)
    assert found.busy()["consumer"] == pytest.approx(0.8)


def test_what_has_no_room_is_counted():
    program = stamped(capacity=4)
    records = np.zeros((1, 3, 4, 2), np.uint64)
    records[0, :, 0], records[0, :, 1] = (100, 1), (0, 1)
    records[0, :, 2], records[0, :, 3] = (300, 2 | 12 << 32), (100, 2 | 12 << 32)
    assert _decoded("product", (1, ), program, records, 1).dropped == 3 * 10


def test_misuse():
    kernel, grid, args, meta = product_case()
    with pytest.raises(SimulatorMisuse, match="measures on a GPU"):
        mimw.profile(kernel, grid, *args, **meta)
    with pytest.raises(TargetError, match="NVIDIA's clock registers"):
        stamp_time(prepare(kernel, grid, args, meta).program, target("gfx942"), 64)


def test_tasks_that_a_loop_starts():
    program = prepare(started_in_a_loop, (1, ), (np.zeros(8, np.int32), 4), {}).program
    with pytest.raises(NotYet, match="tasks that a loop or a branch starts") as error:
        stamp_time(program, target("sm_90a"), 64)
    assert error.value.sites[0].file.endswith("rounds_by_data.py")


@pytest.mark.gpu
def test_on_the_gpu_the_result_is_right_and_events_follow_each_other():
    import torch
    a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((64, 1024), (1024, 64)))
    out = torch.zeros(64, 64, device="cuda")
    describe = mimw.TensorDescriptor.from_tensor
    found = mimw.profile(product, (1, ), describe(a, [64, 64]), describe(b, [64, 64]), out, 1024, **META)
    expected = a.float() @ b.float()
    assert ((out - expected).norm() / expected.norm()).item() < 1e-3
    assert found.dropped == 0 and 500 < found.megahertz < 3000 and found.microseconds > 1
    for lane in ("consumer", "producer"):
        events = [event for event in found.trace.events if event.lane == lane]
        assert len(events) > 3 * 16
        assert all(event.end >= event.start for event in events)
        assert all(after.start == before.end for before, after in zip(events, events[1:]))
    waits = [event for event in found.trace.events if event.lane == "consumer" and event.label == "barrier_wait full"]
    assert 16 <= len(waits) <= 32                                    # each passes or waits, most do both
