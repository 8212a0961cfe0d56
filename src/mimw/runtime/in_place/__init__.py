"""What operators of torch may write into: torch's rule for operations in place, for every operator of ours that has one.

Input: tensors that are about to be written. Output: a refusal that names them, or nothing; then their versions are counted up:

    rule = InPlace("mimw::rope_", "rope_(Tensor(a!) x, Tensor cos) -> ()")
    rule.refuse((x, cos))       RuntimeError, if x is a parameter or a view of one, or if its elements share memory
    rule.note((x, cos))         autograd notices whoever needs the old values

`rule.py` has the rule, `overlap.py` the arithmetic of strides.
"""

from .rule import InPlace, refuse_leaves, refuse_overlaps, refuse_views_of_several

__all__ = ["InPlace", "refuse_leaves", "refuse_overlaps", "refuse_views_of_several"]
