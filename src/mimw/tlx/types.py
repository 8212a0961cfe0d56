"""`mimw.tlx.types`: the values, types and layouts that can be made in plain Python.

Input: a name. Output: the class of `mimw.tlx`, for code outside kernels that imports the classes by module. For
example:

    from mimw.tlx.types import storage_kind, swizzled_shared_layout_encoding
"""

from ..language.tlx.alias import *  # noqa: F403
from ..language.tlx.alias import __all__ as _alias
from ..language.tlx.layouts import *  # noqa: F403
from ..language.tlx.layouts import __all__ as _layouts
from ..language.tlx.register_layouts import *  # noqa: F403
from ..language.tlx.register_layouts import __all__ as _register_layouts
from ..language.tlx.types import *  # noqa: F403
from ..language.tlx.types import __all__ as _types

__all__ = [*_alias, *_layouts, *_register_layouts, *_types]
