"""Where the time of a kernel goes: predicted without a GPU, measured on one.

Input: a kernel, a grid and arguments. Output: a `Prediction` or a `Profile`, both a `Timeline`. For example:

    print(mimw.predict(gemm, (132, ), a, b, c, 4096))
"""

from .predict import predict
from .prediction import Prediction
from .profile import Profile, profile
from .result import Timeline

__all__ = ["Prediction", "Profile", "Timeline", "predict", "profile"]
