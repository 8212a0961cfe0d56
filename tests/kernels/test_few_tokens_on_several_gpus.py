"""Few tokens to the ranks of their experts, simulated: slots of their own, two generations, launches that run ahead, weights, and
choices that are told of or are words that say themselves that they have come."""

import importlib
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import mimw
from mimw.kernels import moe_dispatch
from tests.kernels import spread_experts
from tests.kernels.spread_experts import FEW, FEW_ROWS, ROWS, SMALL, assert_dispatched, assert_listed, dispatching, listing
from tests.kernels.test_moe_on_several_gpus import ROUTINGS

ONE = replace(FEW, generations=1)
WORDS, ROWS_BY_WORDS = replace(FEW, told=False), replace(FEW_ROWS, told=False)


def checked(launch, seeds: int = 3):
    return mimw.check(launch[0], launch[1], *launch[2], seeds=seeds, **launch[3])


@pytest.mark.long(everywhere=True, but=[
    "few-*", "two warps-any", "words-any", "announced first-nobody chooses", "one generation-one expert has all",
    "many in two generations-no experts by other numbers", "words-others' experts alone", "words first-nobody chooses",
    "many words-one expert has all"])
@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("chosen", [FEW, replace(FEW, whole=2, home=10), replace(FEW, few=2, tile=4), ONE,
                                    replace(SMALL, generations=2), WORDS, replace(WORDS, few=2, tile=4, generations=1),
                                    replace(SMALL, told=False)],
                         ids=["few", "two warps", "announced first", "one generation", "many in two generations", "words",
                              "words first", "many words"])
def test_few_rows_go_to_their_experts(routing, chosen):
    launch, made = dispatching(2, 5, 2, 2, 8, programs=2, ids=ROUTINGS[routing], chosen=chosen, scales=4, block=2)
    for _ in range(5 if routing == "any" else 1):       # the third one writes where the first one did, with other marks
        mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
        assert_dispatched(made)


@pytest.mark.long(but=["float32-True-4-*", "bfloat16-False-1-*"], everywhere=True)
@pytest.mark.parametrize("ranks, tokens", [(2, [0, 3]), (4, [3, 0, 1, 3]), (1, [3])])
@pytest.mark.parametrize("dtype, told", [("float16", True), ("float32", True), ("bfloat16", False)])
def test_weights_travel_with_the_choices(ranks, tokens, dtype, told):
    chosen = replace(FEW, home=12, told=told)
    launch, made = dispatching(ranks, 3, 3, 2, 8, programs=1, tokens=tokens, chosen=chosen, weighted=dtype)
    for _ in range(2):
        mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
        assert_dispatched(made)
    launch, made = listing(ranks, 3, 3, 2, 8, programs=2, tokens=tokens, chosen=replace(FEW_ROWS, told=told), weighted=dtype)
    mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
    assert_listed(made)


@pytest.mark.long(but=["True"], everywhere=True)
@pytest.mark.parametrize("told", [True, False])
def test_weights_of_many_choices(told, monkeypatch):
    monkeypatch.setattr(moe_dispatch, "MEET", 8)
    chosen = replace(SMALL, tile=4, told=told)
    launch, made = dispatching(2, 9, 3, 3, 8, programs=2, tokens=[5, 9], chosen=chosen, weighted="float16")
    for _ in range(5):      # each half of the board with both marks
        mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
        assert_dispatched(made)


@pytest.mark.long(but=["any-words", "*-two generations", "nobody chooses-words"], everywhere=True)
@pytest.mark.parametrize("chosen", [FEW_ROWS, replace(FEW_ROWS, generations=1), ROWS_BY_WORDS],
                         ids=["two generations", "one generation", "words"])
@pytest.mark.parametrize("routing", ROUTINGS)
def test_few_rows_stay_where_they_come(routing, chosen):
    launch, made = listing(2, 5, 2, 2, 8, programs=2, block=4, scales=4, ids=ROUTINGS[routing], chosen=chosen)
    for _ in range(3):
        mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
        assert_listed(made)


def placed(spread, wanted):
    """Launches that follow each other, each with a generation for each rank; an AssertionError where rows are not there."""
    (kernel, grid, args, meta), made = spread.listing(2, 5, 2, 2, 8, programs=2, chosen=spread.FEW_ROWS, generation=[0, 0])
    for generations in wanted:
        mimw.simulate(kernel, grid, *args[:-1], made.world.each(generations), **meta)
        spread.assert_listed(made, list(generations))


@pytest.mark.parametrize("wanted", [
    ([1, 0, 1, 1, 0, 1], ) * 2, ([0, 0, 1, 0, 1, 1], ) * 2, ([0, 0, 0, 0, 1, 0], [1, 0, 1, 1, 1, 1])],
    ids=["a graph of three calls, twice", "any", "one at each rank"])
def test_a_result_may_lie_in_either_generation(wanted):
    """All in one world, whose words count on: of each launch the rows are where its caller wants them."""
    placed(spread_experts, list(zip(*wanted)))


@pytest.mark.long(everywhere=True, but=[
    "two programs", "one of them announces", "words of two programs", "many words of two programs"])
@pytest.mark.parametrize("launch", [
    dispatching(2, 3, 2, 2, 8, programs=1, times=4, chosen=FEW, weighted="float32")[0],
    dispatching(4, 2, 2, 1, 8, programs=1, times=3, chosen=replace(FEW, whole=2, home=10), tokens=[2, 0, 1, 2])[0],
    dispatching(2, 2, 2, 2, 8, programs=1, times=3, chosen=ONE)[0],
    dispatching(2, 5, 2, 2, 8, programs=1, times=3, chosen=replace(SMALL, generations=2))[0],
    dispatching(2, 2, 2, 1, 8, programs=2, chosen=replace(FEW, few=2, tile=2))[0],
    listing(2, 2, 2, 1, 8, programs=2, chosen=replace(FEW_ROWS, few=2, tile=4))[0],
    listing(2, 2, 2, 2, 8, programs=1, times=6, chosen=FEW_ROWS, generation=0b101101)[0],
    listing(2, 2, 2, 2, 8, programs=1, times=6, chosen=FEW_ROWS, generation=0b101010)[0],
    listing(2, 2, 2, 2, 8, programs=1, times=4, chosen=FEW_ROWS, generation=[0b0101, 0b1100])[0],
    listing(4, 1, 2, 1, 8, programs=1, times=3, chosen=FEW_ROWS, generation=0b001, tokens=[1, 0, 1, 1])[0],
    listing(2, 2, 2, 2, 8, programs=2, chosen=FEW_ROWS, generation=1)[0],
    dispatching(2, 1, 2, 1, 8, programs=1, times=3, chosen=WORDS, weighted="float32")[0],
    dispatching(4, 1, 1, 1, 8, programs=1, times=2, chosen=WORDS, tokens=[1, 0, 1, 1])[0],
    dispatching(2, 2, 2, 1, 8, programs=2, chosen=replace(WORDS, few=2, tile=2))[0],
    listing(2, 2, 2, 2, 8, programs=1, times=4, chosen=ROWS_BY_WORDS, generation=0b0011)[0],
    dispatching(2, 4, 2, 1, 8, programs=1, times=2, chosen=replace(SMALL, told=False), weighted="float32")[0],
    dispatching(2, 4, 2, 1, 8, programs=2, chosen=replace(SMALL, told=False, whole=2, tile=2))[0]],
    ids=["four times", "four ranks", "one generation", "many", "two programs", "one of them announces", "0 and 1 in turn, odd",
         "in turn", "as each wants",
         "rows at four ranks", "rows of two programs", "words", "words at four ranks", "words of two programs", "rows by words",
         "many words", "many words of two programs"])
def test_nothing_is_found(launch):
    assert checked(launch, seeds=2).ok


AGAIN = dict(dispatching=dict(times=4, chosen=FEW), listing=dict(times=4, chosen=FEW_ROWS, generation=0b0011),
             words=dict(times=2, chosen=WORDS))
WRONG = {
    "the last launch's half": ("announce.py", "self.call % self.GENERATIONS", "self.call * 0", "dispatching"),
    "no announcements": ("places.py", "launch.call * workers)", "(launch.call - 1) * workers)", "dispatching"),
    "the generation that is read": ("few_rows.py", "said & 1, 1 - (said & 1)", "said & 1, said & 1", "listing"),
    "begun before": ("few_rows.py", "tl.where(has_begun(said, launch)", "tl.where(said >= 0", "listing"),
    "not put again": ("few_rows.py", "wanted != generation_by", "wanted < generation_by", "placing"),
    "arrived too early": ("few_rows.py", "    tell(signals, launch.call, RANKS - 1)\n", "", "listing"),
    "words for one GPU": ("words.py", 'tl.atomic_store(there, words, mask=inside, sem="relaxed", scope="sys")',
                          'tl.atomic_store(there, words, mask=inside, sem="relaxed", scope="gpu")', "words"),
    "words in parts": ("words.py", 'tl.atomic_store(there, words, mask=inside, sem="relaxed", scope="sys")',
                       "tl.store(there, words, mask=inside)", "words"),
    "one mark for all": ("words.py", "1 + ((launch.call >> 1) & 1)", "1 + (launch.call * 0)", "rerouting"),
    "nobody waits for words": ("words.py", "!= mark_of(launch))", "> mark_of(launch))", "rerouting"),
}


@pytest.mark.long(everywhere=True, but=[
    "the last launch's half", "no announcements", "words in parts", "one mark for all", "nobody waits for words",
    "not put again"])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name, tmp_path, monkeypatch):
    """In a copy of the kernels one line is another. The launches in the copies of this package's are those that are right above."""
    file, old, new, launch = WRONG[name]
    package = f"wrong_{list(WRONG).index(name)}"
    shutil.copytree(Path(moe_dispatch.__file__).parent, tmp_path / package)
    shutil.copy(spread_experts.__file__, tmp_path / package / "spread.py")
    for path in (tmp_path / package).glob("*.py"):
        text = path.read_text().replace("from ..", "from mimw.kernels.").replace("mimw.kernels.moe_dispatch.", f"{package}.")
        text = text.replace("from mimw.kernels import moe_combine, moe_dispatch", f"from mimw.kernels import moe_combine\n"
                            f"import {package} as moe_dispatch")
        assert path.name != file or text.count(old) >= 1
        path.write_text(text.replace(old, new) if path.name == file else text)
    monkeypatch.syspath_prepend(tmp_path)
    spread = importlib.import_module(f"{package}.spread")
    if launch == "placing":
        with pytest.raises(AssertionError):
            placed(spread, [(1, 1), (1, 1), (0, 0), (1, 1), (1, 1)])
        return
    if launch == "rerouting":
        with pytest.raises(AssertionError):
            rerouted(spread)
        return
    chosen = dict(dispatching=spread.FEW, listing=spread.FEW_ROWS, words=replace(spread.FEW, told=False))[launch]
    call = spread.listing if launch == "listing" else spread.dispatching
    assert not checked(call(2, 2, 2, 2, 8, programs=1, **(AGAIN[launch] | dict(chosen=chosen)))[0]).ok


def rerouted(spread):
    """Launches of words that follow each other, with other experts each time; an AssertionError where rows are not there."""
    (kernel, grid, args, meta), made = spread.dispatching(2, 5, 2, 2, 8, programs=2, chosen=replace(spread.FEW, told=False))
    random = np.random.default_rng(3)
    for _ in range(7):
        for ids in made.route.ids:
            ids[...] = random.integers(-1, 4, ids.shape)
        mimw.simulate(kernel, grid, args[0], args[1], made.world.each(made.route.ids, "ids"), *args[3:], **meta)
        spread.assert_dispatched(made)


def test_words_of_other_launches_are_not_taken():
    rerouted(spread_experts)


def test_what_is_not_few_is_refused():
    with pytest.raises(ValueError, match="7 tokens are not few for 2 programs"):
        dispatching(2, 7, 2, 2, 8, programs=2, chosen=FEW)
    with pytest.raises(ValueError, match="9 tokens are not few for 2 programs"):
        listing(2, 9, 2, 2, 8, programs=2, chosen=FEW_ROWS)
    with pytest.raises(ValueError, match="pieces have no room for 2097152 x 2 choices of 512 experts; take told=True"):
        moe_dispatch.arguments(*(np.broadcast_to(np.int32(0), shape) for shape in (
            (2 << 20, 8), (2 << 20, 2), (16, 8), (256, ), (2, 2 << 20, 2))), dict(staging=np.zeros((1, 1))),
            SimpleNamespace(size=2), 2, chosen=replace(SMALL, told=False))
    with pytest.raises(ValueError, match="generations are 1 or 2"):
        replace(SMALL, generations=3)
    with pytest.raises(ValueError, match="generations are 1, or 2 of few rows"):
        replace(ROWS, generations=2)
    room = moe_dispatch.room_for(4, 2, 4, 32, 2, 2, chosen=SMALL)
    with pytest.raises(ValueError, match="staging has 1 x tokens rows and needs 2"):
        moe_dispatch.arguments(*(np.zeros(shape, np.int32) for shape in ((4, 8), (4, 2), (16, 8), (2, ), (2, 4, 2))),
                               {name: np.zeros(*one) for name, one in room.items()}, SimpleNamespace(size=2), 2, chosen=FEW)


def test_what_is_few():
    """The tokens of a step of decoding have slots of their own; where rows take much memory there is one generation."""
    decode, fp8, many = (moe_dispatch.chosen_for(most, 8, row, 132, 2) for most, row in ((128, 14336), (128, 7392), (4096, 14336)))
    assert (decode.few, decode.generations, decode.tile, decode.count) == (2, 2, 32, 1024) == (fp8.few, fp8.generations, 32, 1024)
    assert (many.few, many.generations, many.tile, many.count) == (0, 1, 32, 4096)
    assert not decode.told and not many.told and moe_dispatch.rows_chosen_for(4, 14336, 132, 2, 65536).told     # in too many bits
    few_rows, many_rows = (moe_dispatch.rows_chosen_for(most, 14336, 132) for most in (128, 4096))
    assert (few_rows.few, few_rows.generations, many_rows.few, many_rows.generations) == (1, 2, 0, 1)
    assert not few_rows.told and many_rows.told
    assert "told_weights" not in moe_dispatch.room_for(128, 8, 256, 14336, 132, 2, weighted=True)      # words hold them
    assert moe_dispatch.room_for(128, 8, 256, 14336, 132, 2)["staging"] == ((2, 128, 3584), "int32")
    assert moe_dispatch.rows_room_for(128, 8, 256, 14336, 132, 2)["received"] == ((4, 128, 3584), "int32")
    assert moe_dispatch.room_for(4096, 8, 256, 14336, 132, 2)["staging"] == ((1, 4096, 3584), "int32")
