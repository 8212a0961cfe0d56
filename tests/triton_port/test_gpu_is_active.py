"""Whether there is a GPU is known without torch where AMD's driver has no device file and NVIDIA's no GPU."""

import pytest

from mimw.compiler.triton_port import runtime


class Driver:
    """Triton's: asked for its default it looks at all backends, and imports torch for AMD's."""

    _default, asked = None, False

    @property
    def default(self):
        self.asked = True
        return object()


@pytest.mark.parametrize("device, of_nvidia, selected", [(False, False, False), (True, False, False), (False, True, False),
                                                         (False, False, True)])
def test_triton_is_asked_where_there_may_be_one(monkeypatch, tmp_path, device, of_nvidia, selected):
    file = tmp_path / "kfd"
    if device:
        file.touch()
    if selected:
        monkeypatch.setenv("TRITON_DEFAULT_BACKEND", "nvidia")
    else:
        monkeypatch.delenv("TRITON_DEFAULT_BACKEND", raising=False)
    driver = Driver()
    monkeypatch.setattr(runtime, "driver", driver)
    monkeypatch.setattr(runtime, "AMD_DEVICES", (str(file), ))
    monkeypatch.setattr(runtime.backends["nvidia"].driver, "is_active", staticmethod(lambda: of_nvidia))
    assert runtime.gpu_is_active.__wrapped__() is driver.asked is (device or of_nvidia or selected)
