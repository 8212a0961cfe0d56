"""The costs of ops: on each chip (`chips`: data files with sources, and formulas over them), and roughly (`abstract`).

Input: a chip, and an op whose row names the kind of work; both files go by that kind. Output: cycles by unit. For
example:

    from mimw.simulator.costs import model
    model("sm_90a").tile(op)            {"issue": 39.0} for a `fadd` of 4096 numbers
"""

from .chips import model
from .compute_units import ComputeUnitModel
from .engines import EngineModel
from .model import Figure, Model, Product

__all__ = ["ComputeUnitModel", "EngineModel", "Figure", "Model", "Product", "model"]
