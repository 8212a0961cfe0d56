"""Where the time of a kernel goes: predicted without a GPU, measured on one."""

from .predict import Prediction, predict
from .profile import Profile, profile
from .result import Timeline

__all__ = ["Prediction", "Profile", "Timeline", "predict", "profile"]
