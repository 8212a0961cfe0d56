"""Where the ranks of a group run, and which of their processes have ended.

Input: what each rank says of itself, `myself()`. Output: the ranks that have ended, with how that is known:

    peers = Peers(rendezvous.heard("who is where", myself(device)), rank=0)
    peers.ended()       {2: "its process 4711 has ended"}

A process is looked at through /proc, which is asked of processes on this machine only: a rank elsewhere is missed by time limits.
"""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import Any


def myself(device: Any = None, shares: bool = False) -> dict[str, Any]:
    """Plain data: the machine, the process, the CUDA device, if it is one, and whether others may have it, too."""
    pid = os.getpid()
    return {"machine": _machine(pid), "pid": pid, "since": _since(pid), "device": _unique(device), "shares": shares}


class Peers:
    """`facts` is what each rank's `myself` gave."""

    def __init__(self, facts: list[dict[str, Any]], rank: int):
        self.facts, mine = facts, facts[rank]
        self.looked_at = [other for other, one in enumerate(facts) if other != rank and one["machine"] == mine["machine"]
                          and one["since"] is not None]

    def on_this_machine(self) -> bool:
        """Whether all ranks are, so that each is seen to end."""
        return len(self.looked_at) == len(self.facts) - 1

    def ended(self) -> dict[int, str]:
        """Ranks whose processes on this machine have ended, also such as nobody has waited for yet."""
        return {rank: f"its process {self.facts[rank]['pid']} has ended" for rank in self.looked_at
                if _since(self.facts[rank]["pid"]) != self.facts[rank]["since"]}

    def ended_soon(self, seconds: float = 1.0) -> dict[int, str]:
        """As `ended`, after a connection was lost: a process that ends closes its connections before it is seen to have."""
        until = time.monotonic() + seconds
        while not (found := self.ended()) and time.monotonic() < until:
            time.sleep(0.01)
        return found

    def sharing(self) -> list[list[int]]:
        """Ranks that have one CUDA device."""
        found: dict[str, list[int]] = {}
        for rank, one in enumerate(self.facts):
            if one["device"] is not None:
                found.setdefault(one["device"], []).append(rank)
        return [ranks for ranks in found.values() if len(ranks) > 1]

    def without_access(self, device: Any) -> list[int]:
        """Ranks whose memory `device` cannot reach, of those whose devices this process sees."""
        import torch
        own = {_unique(torch.device("cuda", index)): index for index in range(torch.cuda.device_count())}
        seen = [(rank, own[one["device"]]) for rank, one in enumerate(self.facts) if one["device"] in own]
        reaches, own_index = torch.cuda.can_device_access_peer, device.index
        return [rank for rank, index in seen if index != own_index and not reaches(own_index, index)]


@cache
def _machine(pid: int) -> str:
    """What processes have in common that see each other's numbers: the boot of the machine, and the space of process numbers.
    `pid` makes a forked process ask anew."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"unknown, process {pid}"        # like no other


def _since(pid: int) -> str | None:
    """When a process began, in the system's ticks; None if it has ended. Numbers of processes are used again."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _unique(device: Any) -> str | None:
    """What names a CUDA device among all machines' devices."""
    if device is None or device.type != "cuda":
        return None
    import torch
    return str(torch.cuda.get_device_properties(device).uuid)


__all__ = ["Peers", "myself"]
