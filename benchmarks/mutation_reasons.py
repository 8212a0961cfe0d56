"""Why a mutant that nothing catches, and that computes the same, is no mistake: matched in order, by what was changed."""

from __future__ import annotations

from .mutants import Mutant

NOT_ARGUED = "not argued: look at it"
REASONS = (
    (lambda m: m.word == "alloc_barriers", "Nobody uses these barriers in this schedule."),
    (lambda m: m.change == "duplicate" and m.word == "barrier_wait",
     "The second wait finds the phase over that the first has waited for: nobody can complete the next one before this task goes on."),
    (lambda m: m.change == "swap buffers", "The ring is turned by one slot for who writes and who reads alike."),
    (lambda m: m.word == "barrier_expect" and "tma_load" in m.change,
     "The arrival that the expect itself is keeps the phase open, so bytes may land before they are announced."),
    (lambda m: m.word == "barrier_arrive" and m.change.startswith("swap"),
     "The release comes later than it could, and what it is put behind waits for nobody who needs it: slower, and right."),
)


def reason(mutant: Mutant) -> str:
    """The argument for a mutant that nothing is wrong with."""
    return next((reason for matches, reason in REASONS if matches(mutant)), NOT_ARGUED)
