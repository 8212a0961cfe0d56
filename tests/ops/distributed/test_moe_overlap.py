"""A mixture of experts in fp8 over several ranks, and in micro-batches: numbers, streams, plans of their own, what is refused."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="operators of several GPUs need torch")

from mimw.ops.distributed import moe, moe_experts  # noqa: E402
from mimw.ops.distributed.launching import name_of  # noqa: E402
from mimw.ops.distributed.moe_overlap import Overlap, chosen_for, overlapped  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402

from . import threads as stand_ins  # noqa: E402
from .threads import on_gpu, ranks_in_threads  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
EXPERTS, HIDDEN, INNER, K, FP8 = 4, 144, 128, 2, torch.float8_e4m3fn


def tokens(rank, count):
    random = torch.Generator().manual_seed(rank)
    ids = torch.rand(count, EXPERTS, generator=random).topk(K, 1).indices.int()
    return torch.randn(count, HIDDEN, generator=random).bfloat16(), ids, torch.rand(count, K, generator=random)


def matrices(experts=slice(EXPERTS)):
    """(w_gate_up, w_down) in fp8, and their scales."""
    random = torch.Generator().manual_seed(9)
    shapes = (EXPERTS, 2 * INNER, HIDDEN), (EXPERTS, HIDDEN, INNER)
    weights = [torch.randn(shape, generator=random).to(FP8) for shape in shapes]
    scales = [torch.rand(shape[0], -(-shape[1] // 128), -(-shape[2] // 128), generator=random) * 0.1 for shape in shapes]
    return [one[experts] for one in weights], [one[experts] for one in scales]


def in_fp8(rows):
    """Through e4m3 and back, 128 numbers a scale."""
    wide = torch.nn.functional.pad(rows.double(), (0, -rows.shape[1] % 128)).view(len(rows), -1, 128)
    scale = wide.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 448
    return ((wide / scale).to(FP8).double() * scale).flatten(1)[:, :rows.shape[1]]


def reference(x, ids, weights):
    """In fp64, of numbers that are quantised where the layer quantises them."""
    (gate_up, down), scales = matrices()
    wide = [w.double() * scale.double().repeat_interleave(128, 1)[:, :w.shape[1]].repeat_interleave(128, 2)[..., :w.shape[2]]
            for w, scale in zip((gate_up, down), scales)]
    rows, out = in_fp8(x), torch.zeros(x.shape, dtype=torch.float64)
    for token in range(len(x)):
        for expert, weight in zip(ids[token].tolist(), weights[token].tolist()):
            gate, up = (wide[0][expert] @ rows[token]).chunk(2)
            h = in_fp8((torch.nn.functional.silu(gate) * up).bfloat16()[None])[0]
            out[token] += weight * (wide[1][expert] @ h)
    return out


def near(found, wanted):
    return found.dtype is torch.bfloat16 and float((found.double() - wanted).norm()) <= 1.5e-2 * float(wanted.norm())


def test_in_fp8_and_in_micro_batches():
    """The last part of a rank has fewer tokens, or none; each rank's experts have scales of their own."""
    def work(rank):
        x, ids, weights = tokens(rank, 3 - 2 * rank)
        (gate_up, down), (of_gate_up, of_down) = matrices(slice(2 * rank, 2 * rank + 2))
        scales, wanted = dict(w_gate_up_scale=of_gate_up, w_down_scale=of_down), reference(x, ids, weights)
        whole = moe(x, gate_up, down, ids, weights, **scales, max_tokens=3)
        parts = moe(x, gate_up, down, ids, weights, **scales, max_tokens=3, micro_batches=2)
        return near(whole, wanted), near(parts, wanted), tuple(parts.shape)

    assert at_ranks(2, work) == [(True, True, (3, HIDDEN)), (True, True, (1, HIDDEN))]


@pytest.mark.long(shown_by="test_in_fp8_and_in_micro_batches")
def test_without_scales_in_micro_batches():
    def work(rank):
        random = torch.Generator().manual_seed(9)
        gate_up, down = torch.randn(2, 32, 16, generator=random) / 4, torch.randn(2, 16, 16, generator=random) / 4
        x, ids, weights = (one[:, :16] for one in tokens(rank, 3))
        given = x.float(), gate_up, down, ids, weights
        return torch.allclose(moe(*given, micro_batches=3), moe(*given), atol=1e-6)

    assert at_ranks(2, work) == [True] * 2


def test_opcheck_and_what_is_refused():
    def work(rank):
        tests = ("test_faketensor", "test_autograd_registration")      # that of schemas compares no fp8 on the CPU
        x, ids, weights = tokens(rank, 2)
        (gate_up, down), scales = matrices(slice(2))
        given = x, gate_up, down, ids, weights
        found = torch.library.opcheck(torch.ops.mimw.moe_overlapped, (*given, *scales, 2, 2, 16, name_of()), test_utils=tests)
        narrow, scale = torch.ops.mimw.moe_quantised(x[:0].expand(0, HIDDEN), "float8_e4m3fn")
        found |= torch.library.opcheck(torch.ops.mimw.moe_quantised, (x, "float8_e4m3fn"), test_utils=tests)
        rows, ends = torch.zeros(32, HIDDEN).to(FP8), torch.tensor([16, 16], dtype=torch.int32)
        of_rows = torch.ones(32, 4)
        args = rows, ends, gate_up, down, of_rows, *scales, 16, "bfloat16"
        found |= torch.library.opcheck(torch.ops.mimw.moe_experts_scaled, args, test_utils=tests)
        of = dict(w_gate_up_scale=scales[0], w_down_scale=scales[1])
        for error, match, wrong in (
                (RuntimeError, "belong together; one of them is missing", lambda: moe(*given, w_down_scale=scales[1])),
                (NotImplementedError, "w_gate_up is torch.float32; it may be torch.float8_e4m3fn,",
                 lambda: moe(x, gate_up.float(), down, *given[3:], **of)),
                (RuntimeError, "inner is 64; with scales inner must be a multiple of 128",
                 lambda: moe(x, gate_up[:, :128], down[..., :64], *given[3:], **of)),
                (RuntimeError, "w_down_scale is .* it must be",
                 lambda: moe(*given, w_gate_up_scale=scales[0], w_down_scale=scales[0])),
                (RuntimeError, "0 micro-batches", lambda: moe(*given, **of, micro_batches=0)),
                (NotImplementedError, "x is torch.float64", lambda: moe(x.double(), *given[1:], **of)),
                (RuntimeError, "belong together, without sources",
                 lambda: moe_experts(rows, ends, gate_up, down, 16, ends, scale=of_rows, **of)),
                (RuntimeError, "block is 24 and places is 32; rows must be whole blocks of 16,",
                 lambda: moe_experts(rows, ends, gate_up, down, 24, scale=of_rows, **of)),
                (NotImplementedError, "rows is torch.bfloat16",
                 lambda: moe_experts(rows.bfloat16(), ends, gate_up, down, 16, scale=of_rows, **of)),
                (RuntimeError, "a scale for each 128 numbers",
                 lambda: moe_experts(rows, ends, gate_up, down, 16, scale=of_rows[:, :1], **of))):
            with pytest.raises(error, match=match):
                wrong()
        return {*found.values()}, narrow.shape[0], scale.shape[1]

    assert at_ranks(2, work) == [({"SUCCESS"}, 0, 4)] * 2


def test_experts_of_what_tma_does_not_read_are_composed():
    (gate_up, down), scales = matrices(slice(1))
    random = torch.Generator().manual_seed(3)
    rows, of_rows = torch.randn(16, HIDDEN, generator=random).to(FP8), torch.rand(16, 4, generator=random)
    odd = torch.cat([gate_up.flatten()[:1], gate_up.flatten()])[1:].view(gate_up.shape)
    given = dict(scale=of_rows, w_gate_up_scale=scales[0], w_down_scale=scales[1])
    ends = torch.tensor([16], dtype=torch.int32)
    found, again = (moe_experts(rows, ends, one, down, 16, **given, programs=1).float() for one in (gate_up, odd))
    assert float((found - again).norm()) < 0.06 * float(again.norm())      # which does not quantise inner rows


# ---- as on GPUs -----------------------------------------------------------------------------------------------------


class Streams:
    """What the streams of a rank are told, in order; each does it at once, and an event is waited for where it has been."""

    def __init__(self):
        self.told, self.now = [], "caller"

    def named(self, name):
        streams = self

        class Named(stand_ins.Stream):
            def wait_stream(self, other):
                streams.told.append(f"{name} waits for {other.name}")

            def record_event(self):
                return name, len(streams.told)

            def wait_event(self, event):
                assert event[1] <= len(streams.told)
                streams.told.append(f"{name} waits for {event[0]} up to {event[1]}")

            def __eq__(self, other):
                return self.name == other.name

        found = Named()
        found.name = name
        return found


@pytest.fixture
def at_gpus(monkeypatch):
    """`ranks_in_threads(2)` whose first rank's streams are noted, with launches in them."""
    with ranks_in_threads(2) as threads:
        streams = Streams()

        class Inside:
            def __init__(self, stream):
                self.stream = stream

            def __enter__(self):
                if threads.mine.rank == 0:
                    streams.now = self.stream.name

            def __exit__(self, *error):
                if threads.mine.rank == 0:
                    streams.now = "caller"

        def noted(launch, *tensors, launched=threads.launch):
            if threads.mine.rank == 0:
                streams.told.append(f"{streams.now}: {launch._kernel.__name__} {launch._grid[0]}")
            launched(launch, *tensors)

        threads.launch = noted
        of = [streams, Streams()]       # the other rank's are noted as well, and nobody reads them
        monkeypatch.setattr(torch.cuda, "current_stream", lambda *args: of[threads.mine.rank].named("caller"))
        monkeypatch.setattr(torch.cuda, "Stream", lambda *args, **more: of[threads.mine.rank].named("carrier"))
        monkeypatch.setattr(torch.cuda, "stream", Inside)
        yield threads, streams


def called(rank, micro_batches, chosen=None, count=6, most=6):
    x, ids, weights = tokens(rank, count)
    (gate_up, down), scales = matrices(slice(2 * rank, 2 * rank + 2))
    given = map(on_gpu, (x, gate_up, down, ids, weights, *scales))
    return overlapped(*given, most, micro_batches, 16, "0", chosen).as_subclass(torch.Tensor)


@pytest.mark.long(but=["parts that are not there, drawn"], everywhere=True)
@pytest.mark.parametrize("calls", [((3, Overlap(2, -1, False, 4, True)), ), ((2, Overlap()), (4, Overlap(1, 3)), (2, Overlap()))],
                         ids=["parts that are not there, drawn", "several of one kind, shared out, twice"])
def test_as_on_gpus_the_same_bits_in_any_number_of_parts(at_gpus, calls):
    """Some twice, since words count launches."""
    threads, _ = at_gpus
    wanted = [reference(*tokens(rank, 6)) for rank in range(2)]
    whole = threads(lambda rank: called(rank, 1))
    assert all(near(one, other) for one, other in zip(whole, wanted))
    for parts, chosen in calls:
        found = threads(lambda rank, parts=parts, chosen=chosen: called(rank, parts, chosen))
        assert all(torch.equal(one, other) for one, other in zip(found, whole)), (parts, chosen)


@pytest.mark.long(shown_by="test_as_on_gpus_the_same_bits_in_any_number_of_parts")
def test_four_ranks_with_an_expert_each():
    """A token has two experts, each at another rank; the last micro-batch is as large as the others."""
    def call(rank, parts):
        x, ids, weights = tokens(rank, 6)
        (gate_up, down), scales = matrices(slice(rank, rank + 1))
        return overlapped(*map(on_gpu, (x, gate_up, down, ids, weights, *scales)), 6, parts, 16, "0", Overlap(1)).as_subclass(
            torch.Tensor)

    with ranks_in_threads(4) as threads:
        whole, parts = threads(lambda rank: call(rank, 1)), threads(lambda rank: call(rank, 3))
    assert all(map(torch.equal, whole, parts)) and all(near(one, reference(*tokens(rank, 6))) for rank, one in enumerate(whole))


def test_who_waits_for_whom(at_gpus):
    threads, streams = at_gpus
    threads(lambda rank: called(rank, 2, Overlap(1)))
    experts = ["prepare", "scaled_expert_gemm", "quantise_rows", "scaled_expert_gemm"]
    plain = [one if ":" not in one else one.rsplit(" ", 1)[0] for one in streams.told]
    assert plain == [
        "caller: quantise_rows", "carrier waits for caller", "carrier: dispatch", "carrier: dispatch",
        "caller waits for carrier up to 3", *(f"caller: {one}" for one in experts),
        "carrier waits for caller up to 9", "carrier: combine",
        "caller waits for carrier up to 4", *(f"caller: {one}" for one in experts),
        "carrier waits for caller up to 16", "carrier: combine", "caller waits for carrier"]
    assert [one.rsplit(" ", 1)[1] for one in streams.told if "dispatch" in one or "combine" in one] == ["4", "1", "1", "6"]


def test_launches_of_few_programs_have_words_of_their_own(at_gpus):
    threads, _ = at_gpus
    threads(lambda rank: called(rank, 3, Overlap(1)))
    kept = threads.worlds[0].kept["workspaces"]
    words = {name: one.data_ptr() for (name, *_), one in kept.items() if name.endswith(("told", "calls", "staging", "partials"))}
    assert len(words) == len({*words.values()}) == 12 and sum(" by 1" in name for name in words) == 6


def test_the_carrier_is_never_the_callers_stream(monkeypatch):
    module, given = sys.modules["mimw.ops.distributed.moe_overlap"], []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: 7)
    monkeypatch.setattr(torch.cuda, "Stream", lambda priority: given.append(7 + len(given)) or given[-1])

    class World:
        kept = {module.CARRIER: 7}

    assert module.carrier(World) == 8 and module.carrier(World) == 8 and given == [7, 8]


def test_configurations():
    assert chosen_for(2) == chosen_for(3) and chosen_for(8) == chosen_for(4)
    assert [Overlap(16).carrying(one) for one in (132, 8, 1)] == [16, 4, 1]
    assert [one.computing(132, scaled) for one, scaled in (
        (Overlap(16), True), (Overlap(16), False), (Overlap(16, -1), True), (Overlap(16, 100), True), (Overlap(16, 0, False), True))
    ] == [132, 116, 116, 100, 116]
