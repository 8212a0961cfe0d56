"""A server's step on a cache of pages against plain torch: ragged batches of sequences that decode and of prompts."""

import pytest

torch = pytest.importorskip("torch", reason="the operators are torch's")

from mimw.integrations import paged  # noqa: E402

from .attention_reference import attention, cached  # noqa: E402

CHANGED = dict(left=9, softcap=3.0, sinks=torch.tensor([0.5, -1.0, 2.0, 0.0]))


def step_of(lengths, queries, dim=16, page=16, type_=torch.float32):
    """A step whose keys are in its cache, with NaN wherever none is to be read."""
    given = cached(lengths, queries, 4, 2, dim, page, type_)
    used = torch.zeros(given.cache.shape[0], page, dtype=torch.bool)
    for row, length in zip(given.table, lengths):
        for at in range(length):
            used[row[at // page], at % page] = True
    given.cache.transpose(1, 2)[~used] = float("nan")
    return given


def rows_of(given, decodes, queries, more=0, **options):
    starts, lengths = (torch.tensor(one, dtype=torch.int32) for one in (given.starts, given.lengths))
    most = [one + more for one in given.lengths]
    return paged.rows_of(starts, given.starts, lengths, most, given.table, decodes, queries, **options)


def attend(given, rows, cache=None, **options):
    out = torch.full_like(given.q, 7)
    keys, values = (given.cache if cache is None else cache).transpose(1, 2).split(given.q.shape[2], -1)
    paged.attend(given.q, keys, values, rows, out, scale=0.3, **options)
    assert (out[given.starts[-1]:] == 7).all(), "rows of no sequence are not touched"
    return out[:given.starts[-1]]


@pytest.mark.parametrize("most_keys, gathered, options", [
    (1 << 16, [True], {}), (60, [True, True], CHANGED), (20, [False, False, True], CHANGED), (20, [False, False, True], {})])
def test_a_step_of_two_that_decode_and_three_prompts(most_keys, gathered, options):
    given = step_of([40, 7, 30, 50, 3], [1, 1, 5, 50, 2])
    rows = rows_of(given, 2, 1, more=3, most_keys=most_keys)
    assert [one.gathered for one in rows.extends] == gathered
    wanted = attention(given, given.cache, scale=0.3, **options)
    torch.testing.assert_close(attend(given, rows, **options), wanted, atol=1e-5, rtol=1e-5)


def test_two_queries_of_each_and_one_without_queries():
    given = step_of([33, 2, 17, 9], [2, 2, 0, 4])
    rows = rows_of(given, 2, 2)
    assert len(rows.extends) == 1
    torch.testing.assert_close(attend(given, rows), attention(given, given.cache, scale=0.3), atol=1e-5, rtol=1e-5)
    alone = rows_of(step_of([20], [0]), 0, 0)
    assert not alone.extends and not alone.decodes


@pytest.mark.parametrize("most_keys, scales", [(1 << 16, (0.02, 0.03)), (8, ([0.02, 0.05], [0.03, 0.04]))])
def test_a_cache_of_e4m3_with_scales(most_keys, scales):
    given, scales = step_of([20, 5, 18], [1, 1, 3]), tuple(torch.tensor(one) for one in scales)
    sides = [side.nan_to_num() / scale.view(-1, 1, 1) for side, scale in zip(given.cache.split(16, -1), scales)]
    cache = torch.cat(sides, -1).to(paged.E4M3)
    wide = torch.cat([side.float() * scale.view(-1, 1, 1) for side, scale in zip(cache.split(16, -1), scales)], -1)
    found = attend(given, rows_of(given, 2, 1, most_keys=most_keys), cache, k_scale=scales[0], v_scale=scales[1])
    torch.testing.assert_close(found, attention(given, wide, scale=0.3), atol=2e-3, rtol=2e-3)


def test_places_are_made_once_for_all_layers():
    rows = rows_of(step_of([20, 5], [3, 5]), 0, 0)
    assert rows.extends[0].places(16) is rows.extends[0].places(16)
