"""What goes wrong. Every error of seriatim is an ``Error``; exceptions of operations are their own."""

__all__ = [
    "AliasError",
    "BadSetting",
    "Cancelled",
    "DeadlineExceeded",
    "EngineFull",
    "Error",
    "ForeignVariable",
    "OverlapError",
    "Skipped",
    "Stopped",
    "TimedOut",
    "WaitInsideOperation",
]


class Error(Exception):
    """The base of seriatim's errors."""


class Skipped(Error):
    """The operation was not called, since one that it depends on failed: see ``__cause__``."""


class Cancelled(Error):
    """The operation's token was cancelled before the operation started."""


class DeadlineExceeded(Error):
    """The operation had not started within its time."""


class TimedOut(Error, TimeoutError):
    """A wait ran out of time. The operation goes on."""


class Stopped(Error):
    """The engine is closed, or belongs to the process that was forked."""


class EngineFull(Error):
    """As many operations are in flight as the bound allows, and pushes do not wait."""


class WaitInsideOperation(Error):
    """An operation must not wait for its own engine."""


class BadSetting(Error, ValueError):
    """A setting has a value that is not valid."""


class ForeignVariable(Error, ValueError):
    """A variable, value or array belongs to another engine."""


class AliasError(Error, ValueError):
    """An operation names something twice, and changes it."""


class OverlapError(Error, ValueError):
    """Two arrays share memory, and are not the same array."""
