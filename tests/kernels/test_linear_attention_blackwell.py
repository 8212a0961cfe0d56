"""Linear attention, forward, on Blackwell: the same kernel with sums in tensor memory, simulated by the chip's rules, and its PTX.

Nothing here has run on such a chip. 200 seeds and mutants: docs/MUTATIONS.md.
"""

import pytest

torch = pytest.importorskip("torch", reason="the reference is torch's")

import mimw  # noqa: E402
from mimw.target import target  # noqa: E402
from tests.compiling import stopping  # noqa: E402

from .linear_attention_calls import DELTA, GDN, GLA, KDA, NONE, SIMPLE, Case, close, right  # noqa: E402
from .linear_attention_reference import chunked  # noqa: E402

CHIP = "sm_100a"


class Blackwell:
    """A simulator of the chip."""

    @staticmethod
    def launch(kernel, grid, *args, **meta):
        mimw.simulate(kernel, grid, *args, target=CHIP, races=True, **meta)


@pytest.mark.long(but=["kind2-more2", "kind3-more3", "kind4-more4", "kind5-more5", "kind7-more7", "kind10-more10"],
                  everywhere=True)
@pytest.mark.parametrize("kind, more", [
    (GDN, dict(T=300, parts=3, V=128)), (KDA, dict(T=200, cu_seqlens=[0, 5, 5, 200], parts=2)), (GLA, dict(T=65, HV=2)),
    (DELTA, dict(T=64)), (SIMPLE, dict(T=130, K=128, V=64, decay=(-60.0, -20.0))), (NONE, dict(T=1, V=256)),
    (KDA, dict(T=70, K=256)), (GDN, dict(T=70, K=256, V=128)), (GDN, dict(T=130, V=128, l2norm=True)),
    (GDN, dict(T=70, raw=dict(betas=1.0))), (KDA, dict(T=70, l2norm=True, raw=dict(bound=-5.0, betas=2.0)))])
def test_each_member_of_the_family(kind, more):
    """Gates and rules; parts, of which transitions come from a state of ones; packed sequences; one and two consumers; raw."""
    right(Blackwell, Case(**kind, **more, tensor_memory=True))


@pytest.mark.long(but=["kind0", "kind2"], everywhere=True)
@pytest.mark.parametrize("kind", [GDN, KDA, SIMPLE])
def test_new_values_and_states_before_chunks(kind):
    case = Case(**kind, T=170, tensor_memory=True)
    new, states = case.filled(case.v.shape), case.filled((len(case.tables.chunks), 1, 64, 64))
    for step in case.steps(q=False, new=new, states=states):
        Blackwell.launch(*step[:2], *step[2], **step[3])
    exact = chunked(**case.drawn)
    close(new, exact.N)
    close(states[None].swapaxes(-1, -2), exact.states)
    close(case.final, exact.final)


@pytest.mark.long(but=["kind0"], everywhere=True)
@pytest.mark.parametrize("kind", [GDN, KDA])
def test_every_interleaving_is_right(kind):
    case = Case(**kind, T=260, tensor_memory=True)
    *before, (kernel, grid, args, meta) = case.steps(o=case.v.copy())
    for step in before:
        Blackwell.launch(*step[:2], *step[2], **step[3])
    report = mimw.check(kernel, grid, *args, seeds=4, shrink=False, target=CHIP, **meta)
    assert report.ok, report


def compiled(kind, last, step=-1, **shape):
    case = Case(**kind, **shape, tensor_memory=True)
    kernel, grid, args, meta = case.steps(o=case.v.copy())[step]
    with stopping((last, )):
        return mimw.compile(kernel, grid, *args, target=CHIP, **meta)


def test_products_are_those_of_tensor_memory():
    """Six, of 64 rows and columns and four steps along K each; a barrier each tells their end."""
    ptx = compiled(GDN, "ptx", T=64).ptx
    assert ptx.count("tcgen05.mma.cta_group::1.kind::f16") == 6 * 4 and ptx.count("tcgen05.commit.cta_group::1") == 6
    assert "wgmma" not in ptx and "mma.sync" not in ptx


@pytest.mark.long(shown_by="test_products_are_those_of_tensor_memory")
def test_chunks_with_raw_gates_are_compiled():
    """k k^T and the inverse's products, of which the sums are in tensor memory, too."""
    ptx = compiled(GDN, "ptx", step=0, T=64, raw=dict(betas=1.0)).ptx
    assert "tcgen05.mma.cta_group::1" in ptx and "wgmma" not in ptx and "mma.sync" not in ptx


@pytest.mark.long(shown_by="test_products_are_those_of_tensor_memory")
@pytest.mark.parametrize("kind, V", [(GDN, 128), (KDA, 256)])
def test_forms_fit(kind, V):
    """Two consumers of heads of 128: 448 of 512 columns, else the compiler refuses it."""
    assert compiled(kind, "ttgir", T=64, K=128, V=V).metadata.shared <= target(CHIP).shared_bytes
