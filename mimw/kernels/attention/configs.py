"""Tile sizes and schedules of the attention kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Configuration:
    """BM queries by two warpgroups, BN keys at a time; the rest as in kernel.py."""

    bm: int = 128
    bn: int = 128
    stages: int = 2
    band: int = 0
    ping_pong: int = 1
    ahead: bool = True
    consumers: int = 2
    cluster: int = 1
    v_stages: int = 2

    def meta(self, head_dim: int, group: int, causal: bool, seq_q: int, seq_k: int) -> dict:
        """The kernel's compile-time arguments."""
        masked = int(seq_k % self.bn != 0)
        if causal:
            masked = 1 if self.bn % (self.bm * self.cluster) == 0 and (seq_k - seq_q) % self.bn == 0 else 2
        return dict(BM=self.bm, BN=self.bn, D=head_dim, GROUP=group, STAGES=self.stages, CAUSAL=causal,
                    MASKED=masked, PING_PONG=self.ping_pong, AHEAD=self.ahead, CONSUMERS=self.consumers, CLUSTER=self.cluster, DYNAMIC=self.cluster == 1, V_STAGES=self.v_stages)


def configuration(head_dim: int, causal: bool) -> Configuration:
    if head_dim == 256:
        return Configuration(bn=64, ahead=False)
    return Configuration()
