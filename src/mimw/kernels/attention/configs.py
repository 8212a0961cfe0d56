"""Which configuration for which problem. The measured choices are data, in `configs.json`, with the command that made
them.

Input: a head dim, and whether the mask is causal. Output: a `Configuration`, whose `form` gives the kernel's constants. For
example:

    configuration(128, True)        Configuration(bm=128, bn=128, k_stages=2, v_stages=3, consumers=2, ahead=True, ...)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..measured import by_chip
from .changes import READ_AT_ONCE
from .nouns import LaunchForm

PARTS = {64: (64, 0), 96: (64, 32), 128: (128, 0), 192: (128, 64), 256: (256, 0)}    # of a head: `rows` and `rest` of heads.py
VALUES = {192: 128}                 # head dim of values where it is another than that of queries and keys
HEAD_DIMS = tuple(PARTS)
WIDTHS = (f"dim in {HEAD_DIMS} -- the head dim may be {', '.join(map(str, HEAD_DIMS))}",    # lines of contracts
          f"value_dim == {VALUES}.get(dim, dim) -- values must be as wide as keys, or {VALUES[192]} where these have 192")
L2_BYTES = 32 << 20  # of keys and values that the programs work on at a time; an H200 has 50 MB
FEW_KEYS = 256  # of a window, up to which its launches have a configuration of their own
WASTED = 1.08   # times the rows of smaller tiles that larger ones may compute


@dataclass(frozen=True)
class Configuration:
    """Tiles of BM queries by `consumers` warpgroups, BN keys at a time, any multiple of 16, loaded by `load_warps`. A head whose
    width is no power of two is one tile, if it is `whole`, else two (heads.py); the rest as in kernel.py."""

    bm: int = 128
    bn: int = 128
    k_stages: int = 2
    v_stages: int = 2
    consumers: int = 2
    ping_pong: bool = False
    ahead: bool = True
    late: bool = False
    load_warps: int = 1
    whole: bool = False

    def form(self, head_dim: int, group: int, causal: bool, masked: int) -> LaunchForm:
        """The constants of a launch; `masked` blocks of keys of a tile may need a mask, 2 for any number."""
        return LaunchForm(self.bm, self.bn, group, causal, self.consumers, masked, self.ping_pong, self.ahead, self.late,
                          *self.parts(head_dim), *self.parts(value_dim(head_dim)), self.slots(), self.k_stages, self.v_stages,
                          self.load_warps)

    def parts(self, width: int) -> tuple[int, int]:
        """The columns of a head of that width in its first tile, and in its rest, 0 for none. Heads of 192 stay two: their results,
        which have 128 columns, lie where the first one was."""
        return (width, 0) if self.whole and width not in VALUES else PARTS[width]

    def reading(self, mod) -> Configuration:
        """The configuration for a score_mod, which may read tables: keys in blocks of READ_AT_ONCE (changes.py) then."""
        return self if mod is None or not mod.tables else replace(self, bn=min(self.bn, READ_AT_ONCE))

    def slots(self) -> int:
        """Slots of queries of a consumer."""
        return 2 if self.ahead else 1

    def masked(self, causal: bool, seq_q: int, seq_k: int, window: bool) -> int:
        """The number of blocks of keys of a tile that may need a mask, 2 for any; `window`: another bound than `causal` cuts."""
        if causal and not window:
            return 1 if self.bn % self.bm == 0 and (seq_k - seq_q) % self.bn == 0 else 2
        return 2 if window else int(seq_k % self.bn != 0)


# For windows of few keys, by head dim (benchmarks/attention_sinks.py).
OF_WINDOWS = {64: Configuration(bm=192, bn=64, k_stages=4, v_stages=4, consumers=3),
              128: Configuration(bm=192, bn=64, k_stages=3, v_stages=3, consumers=3)}
# For AMD's chips, by head dim: what fits 64 KiB of shared memory, with two waves that load, so that nothing spills. Both were
# compiled, and heads of 64 are simulated as well (tests/kernels/test_on_amd.py); nothing was measured.
ON_AMD = {64: Configuration(bm=64, bn=64, k_stages=2, v_stages=2, consumers=1, ahead=False, load_warps=2),
          128: Configuration(bm=64, bn=32, k_stages=2, v_stages=2, consumers=1, ahead=False, load_warps=2)}


def has_rest(form: LaunchForm) -> tuple[bool, bool, bool, bool]:
    """True for each of q, k, v and o whose heads are two tiles wide."""
    rest, of_values = bool(form.REST > 0), bool(form.V_REST > 0)
    return rest, rest, of_values, of_values


def value_dim(head_dim: int) -> int:
    """The head dim of values for that of queries and keys."""
    return VALUES.get(head_dim, head_dim)


def heads_in_band(all_heads: int, group: int, seq_k: int, head_dim: int, causal: bool) -> int:
    """The number of heads whose tiles are drawn together. Causal tiles differ in length, and the more heads the better they even
    out, for as long as the keys and values of these heads stay in the L2 cache; without a mask one head after the other is best."""
    if not causal:
        return 1
    return max(1, min(all_heads, L2_BYTES // (4 * seq_k * head_dim) * group))


@by_chip(Path(__file__).parent / "configs.json")
def _measured(rows: list[dict]) -> dict[tuple[int, bool], Configuration]:
    """(head dim, causal) -> the fastest configuration found on the chip that the file names."""
    return {(row["head_dim"], row["causal"]): Configuration(**row["configuration"]) for row in rows if "short" not in row}


@by_chip(Path(__file__).parent / "configs.json")
def _of_short_ones(rows: list[dict]) -> dict[tuple[int, bool], Configuration]:
    """The same of launches with so few queries that larger tiles would stick out far."""
    return {(row["head_dim"], row["causal"]): Configuration(**row["configuration"]) for row in rows if "short" in row}


def configuration(head_dim: int, causal: bool, changed: bool = False, seq_q: int | None = None) -> Configuration:
    """The measured configuration for a head dim. Where the scores are `changed` or a window cuts off keys it is that of causal
    launches: three consumers of 160 registers, the best form of full ones of heads of 64 and 96, would spill more. Of so few
    queries that their tiles compute WASTED more rows than tiles of 128, it is one of 128, if there is one."""
    key = head_dim, causal or changed
    chosen, short = _measured()[key], _of_short_ones().get(key)
    if seq_q is None or short is None or _padded(seq_q, chosen.bm) <= WASTED * _padded(seq_q, short.bm):
        return chosen
    return short


def configuration_of_window(head_dim: int, left: int | None, reach: int | None) -> Configuration | None:
    """The configuration for queries that see `left` keys before their own place and `reach` behind it, where these are few: taller
    tiles of more consumers, since a tile then has no other blocks to overlap with; fewer keys at a time, of which less lies outside
    of the window. None for more keys."""
    few = left is not None and reach is not None and left + reach < FEW_KEYS
    return OF_WINDOWS.get(head_dim) if few else None


def _padded(rows: int, tile: int) -> int:
    return -(-rows // tile) * tile


def as_row(head_dim: int, causal: bool, chosen: Configuration) -> dict:
    """One row of `configs.json`."""
    return {"head_dim": head_dim, "causal": causal, "configuration": asdict(chosen)}
