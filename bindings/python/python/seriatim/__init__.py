"""A dependency engine: push functions, say what each reads and changes, and they run in parallel.

Two functions, of which at least one changes what both use, run in the order of their pushes::

    import numpy as np
    import seriatim

    with seriatim.Engine() as engine:
        x, y = engine.array(np.ones(1000)), engine.array(np.full(1000, 2.0))
        engine.run(lambda x, y: np.add(y, 3 * x, out=y), reads=[x], writes=[y])
        total = engine.run(np.sum, reads=[y])
        print(total.result())  # 5000.0
"""

import atexit as _atexit
import os as _os

try:
    from . import _seriatim
except ImportError as _error:
    if "subinterpreter" not in str(_error):
        raise
    raise ImportError(
        "seriatim works in the main interpreter only, and not in subinterpreters: "
        "make the engine in the main interpreter, or use processes"
    ) from _error

from ._access import Access, Array, Value, Variable
from ._engine import Engine, Graph, Operation
from ._errors import (
    AliasError,
    BadSetting,
    Cancelled,
    DeadlineExceeded,
    EngineFull,
    Error,
    ForeignVariable,
    OverlapError,
    Skipped,
    Stopped,
    TimedOut,
    WaitInsideOperation,
)
from ._seriatim import CancelToken, Pending

__all__ = [
    "Access",
    "AliasError",
    "Array",
    "BadSetting",
    "CancelToken",
    "Cancelled",
    "DeadlineExceeded",
    "Engine",
    "EngineFull",
    "Error",
    "ForeignVariable",
    "Graph",
    "Operation",
    "OverlapError",
    "Pending",
    "Skipped",
    "Stopped",
    "TimedOut",
    "Value",
    "Variable",
    "WaitInsideOperation",
]

_atexit.register(_seriatim._at_exit)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_seriatim._forked)
