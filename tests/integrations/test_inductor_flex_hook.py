"""Flex attention's mods that are no options become a score_mod of ours: torch's numbers, windows kept, and what stays torch's."""

import logging

import pytest

torch = pytest.importorskip("torch", reason="the passes are torch's")

from torch.nn.attention.flex_attention import AuxRequest, BlockMask, and_masks, flex_attention  # noqa: E402

import mimw.integrations.inductor as inductor  # noqa: E402
import mimw.integrations.inductor.flex.theirs as timed_against  # noqa: E402
from mimw.integrations.inductor import measured  # noqa: E402

from .test_inductor_flex import BLOCK, _afresh, _asked, block_mask, by_torch, causal, leaves, passed, stays  # noqa: E402, F401

pytestmark = [pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]
DOCUMENTS = torch.tensor([0] * 5 + [1] * 12 + [2] * 7)
BIAS = torch.linspace(-1, 1, 2 * 47).view(2, 47)
OFFSETS = torch.tensor([0, 5, 17], dtype=torch.int32)


def same_document(b, h, q, k):
    return DOCUMENTS[q] == DOCUMENTS[k]


def relative(s, b, h, q, k):
    return s + BIAS[h, q - k + 23]


def within_documents(s, b, h, q, k):
    return s - 0.1 * ((q - OFFSETS[DOCUMENTS[q]]) - (k - OFFSETS[DOCUMENTS[k]])).abs()


def prefix_or_causal(b, h, q, k):
    return (k < 6) | (q >= k)


# For each name: score_mod, mask_mod, the operator's causal, window, and its text.
FORMS = {
    "bias and causal": (relative, causal, (True, (None, None), "s + f0[h, (q - k) + 23]")),
    "documents": (None, same_document, (False, (None, None), "where(i0[q] == i0[k], s, -inf)")),
    "causal documents": (None, and_masks(causal, same_document), (True, (None, None), "where(i0[q] == i0[k], s, -inf)")),
    "near, in documents": (within_documents, and_masks(same_document, lambda b, h, q, k: (q - k).abs() <= 5),
                           (False, (5, 5), None)),
    "an or": (lambda s, b, h, q, k: torch.sigmoid(s) * 4, prefix_or_causal,
              (False, (None, None), "where((k < 6) | (k <= q), sigmoid(s) * 4.0, -inf)")),
    "rows that see nothing": (None, lambda b, h, q, k: (q % 3 != 1) & (k // 2 % 2 == 0), (False, (None, None), None))}


def test_forms_and_their_gradients(monkeypatch, caplog, request):
    """Every other form, by `--long` each."""
    forms = dict(list(FORMS.items())[::1 if request.config.getoption("long") else 2])
    given, asked = leaves(kv_heads=1), []
    monkeypatch.setattr(inductor.flex.call.ops, "attention", _asked(asked, inductor.flex.call.ops.attention))
    masks = [block_mask(mask_mod) for _, mask_mod, _ in forms.values()]

    def f(q, k, v):
        return [flex_attention(q, k, v, score_mod=score_mod, block_mask=mask, enable_gqa=True, return_aux=AuxRequest(lse=True))
                for (score_mod, _, _), mask in zip(forms.values(), masks)]

    with caplog.at_level(logging.INFO, "mimw"):
        results, found = passed(f, *given)
    assert found.count("attend_by_mod") == len(forms) and found.count("check_mask") == len(forms)
    assert sum("by ops.attention with the score_mod" in one.getMessage() for one in caplog.records) == len(forms)
    for options, (o, aux), (name, (score_mod, mask_mod, (is_causal, window, text))) in zip(asked, results, forms.items()):
        assert (options["causal"], options["window"]) == (is_causal, window), name
        assert text is None or options["score_mod"].text == text
        q, k, v = given
        expected, lse = by_torch(q, k.expand(1, 2, 24, 8), v.expand(1, 2, 24, 8), score_mod, mask_mod)
        torch.testing.assert_close(o, expected, rtol=1e-4, atol=1e-5, msg=name)
        torch.testing.assert_close(aux.lse, lse, rtol=1e-4, atol=1e-5, msg=name)
        seen = lse.isfinite()
        ours, theirs = (torch.autograd.grad(one.square().sum() + to[seen].sum(), given, retain_graph=True)
                        for one, to in ((o, aux.lse), (expected, lse)))
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, msg=name)


def test_what_stays_says_both_reasons(caplog):
    q, k, v = (one.detach()[..., :4] for one in leaves())       # a shape of their own: the log has each line once

    def lies(mask_mod):
        return BlockMask.from_kv_blocks(torch.ones(1, 1, 2, dtype=torch.int32), torch.zeros(1, 1, 2, 2, dtype=torch.int32),
                                        BLOCK_SIZE=BLOCK, mask_mod=mask_mod, seq_lengths=(24, 24))

    half, learnt = BIAS.half(), BIAS.clone().requires_grad_()
    why = {
        "nor is it a score_mod of ops.attention: a score_mod computes with erf": (lambda s, b, h, q, k: torch.erf(s), None),
        "computes in torch.float16": (lambda s, b, h, q, k: s + half[h, q - k + 23] * 2, None),
        "that it reads requires a gradient": (lambda s, b, h, q, k: s + learnt[h, q - k + 23], None),
        "its block mask lists other blocks": (None, lies(same_document)),
    }
    for words, (score_mod, mask) in why.items():
        text = stays(caplog, lambda q, k, v, score_mod=score_mod, mask=mask: flex_attention(q, k, v, score_mod, mask), q, k, v)
        assert words in text, text
        torch._dynamo.reset()


def test_other_documents_at_a_later_call_and_other_blocks():
    """The text is of tables, not of what they hold; lists of blocks of other documents are an error."""
    q, k, v = leaves()
    other = torch.arange(24) // BLOCK

    def of(documents):
        return lambda b, h, q, k: documents[q] == documents[k]

    def f(q, k, v, documents, mask):
        mask.mask_mod = of(documents)
        return flex_attention(q, k, v, block_mask=mask)

    def backend(module, given):
        inductor.calls.Calls(inductor.settings.Settings(frozenset({"flex"}), True, frozenset({"cpu"})))(module.graph)
        module.recompile()
        graphs.append([getattr(one.target, "__name__", "") for one in module.graph.nodes])
        return module.forward

    graphs = []
    ours = torch.compile(f, backend=backend, fullgraph=True)
    for documents in (DOCUMENTS, other):
        found = ours(q, k, v, documents, block_mask(of(documents)))
        torch.testing.assert_close(found, by_torch(q, k, v, None, of(documents))[0], rtol=1e-4, atol=1e-5)
    assert len(graphs) == 1 and {"attend_by_mod", "check_mask"} <= set(graphs[0])
    with pytest.raises(RuntimeError, match="lists other blocks than its mask_mod gives"):
        ours(q, k, v, DOCUMENTS, block_mask(of(other)))


@pytest.mark.long(but=["False"], everywhere=True)
@pytest.mark.parametrize("quicker", [True, False])
def test_without_force_both_are_timed(quicker, monkeypatch):
    timed = []

    def seconds(function, given, of_gradients):
        result = function(*given)
        result.backward(torch.ones_like(result), inputs=given)
        timed.append((result, *(one.grad for one in given)))
        for one in given:
            one.grad = None
        return (1.0, 2.0)[(len(timed) == 1) != quicker]

    monkeypatch.setattr(measured, "seconds", seconds)
    monkeypatch.setattr(timed_against, "BACKEND", "eager")
    inductor.forget()
    mask = block_mask(and_masks(causal, same_document))
    _, found = passed(lambda q, k, v: flex_attention(q, k, v, relative, mask), *leaves(), force=False)
    assert found == ["check_mask", "attend_by_mod"] * quicker
    torch.testing.assert_close(*timed, rtol=1e-4, atol=1e-4)
