"""Loop-carried values, found even when two names share one value.

Input: a loop and the values of the names before the loop. Output: the names that the loop carries, with their values.
For example:

    prev = it
    for _ in range(n):
        prev = it; it += 1          carries both `prev` and `it`

Triton's generator finds the names that a loop carries by visiting the body once and comparing each name's handle before
and after. After `prev = it`, both names have one handle; if the body says `prev = it; it += 1`, `prev` still has that
handle at the end of the dry run, so Triton 3.6 to 3.9 take `prev` for unchanged and compile a loop in which `prev`
never moves. Giving each such name a handle of its own for the dry run makes the comparison right; the real
handles go into the loop.
"""

from __future__ import annotations

from ..triton_port.codegen import base_value, flatten_values_to_ir, unflatten_ir_values


class SteadyTypes:
    """Mixin over Triton's `CodeGenerator`: a loop-carried value keeps its type, also if it is no tensor."""

    def _verify_loop_carried_variable(self, name, loop_value, live_value):
        super()._verify_loop_carried_variable(name, loop_value, live_value)
        if loop_value.type != live_value.type:  # of the kind and in the words of Triton's own complaint
            raise AssertionError(f"Loop-carried variable {name} has initial type {live_value.type} but is re-assigned to "
                                 f"{loop_value.type} in loop! Please make sure that the type stays consistent.")


class DistinctCarries(SteadyTypes):
    """Mixin over Triton's `CodeGenerator` with Triton's own builder; our recorder finds carries otherwise (`frontend.loops`)."""

    def _find_carries(self, node, liveins, ignore=frozenset()):
        distinct, originals = self._give_aliases_their_own_handles(liveins)
        if not originals:
            return super()._find_carries(node, liveins, ignore)
        self.lscope.update({name: value for name, value in distinct.items() if value is not liveins[name]})
        names, handles, types = super()._find_carries(node, distinct, ignore)
        self.lscope = liveins.copy()
        return names, [originals.get(handle.id(), handle) for handle in handles], types

    def _give_aliases_their_own_handles(self, liveins):
        """The live-ins with a fresh handle in place of each repeated one, and the original of each fresh handle."""
        distinct, originals, seen = dict(liveins), {}, set()
        for name, value in liveins.items():
            if not isinstance(value, base_value):
                continue
            handles = flatten_values_to_ir([value])
            if any(handle.id() in seen for handle in handles):
                fresh = [self.builder.create_poison(handle.get_type()) for handle in handles]
                originals.update({new.id(): (new, old)[1] for new, old in zip(fresh, handles)})
                self._keep_alive = getattr(self, "_keep_alive", []) + fresh  # ids stay unique while handles live
                distinct[name] = next(unflatten_ir_values(fresh, [value.type]))
            seen.update(handle.id() for handle in handles)
        return distinct, originals
