"""``await`` for results: no thread polls.

The thread that ends an operation puts the loop's future into a list, and calls the loop if it has
not been called for that list yet. So a thousand results cost one wake-up of the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Generator
from typing import Any, TypeVar

from ._seriatim import Pending

T = TypeVar("T")

_local = threading.local()


class _Bridge:
    """From the threads that end operations to one loop."""

    __slots__ = ("loop", "_ready", "_is_called")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._ready: deque[asyncio.Future[None]] = deque()
        self._is_called = False

    def post(self, future: asyncio.Future[None]) -> None:
        """A result is there. On any thread."""
        self._ready.append(future)
        if self._is_called:
            return  # The loop has not begun with the list: it empties it after this.
        self._is_called = True
        try:
            self.loop.call_soon_threadsafe(self._empty)
        except RuntimeError:
            self._ready.clear()  # The loop is closed: nobody awaits.

    def _empty(self) -> None:
        self._is_called = False
        while self._ready:
            future = self._ready.popleft()
            if not future.done():
                future.set_result(None)


def _bridge() -> _Bridge:
    loop = asyncio.get_running_loop()
    bridge: _Bridge | None = getattr(_local, "bridge", None)
    if bridge is None or bridge.loop is not loop:
        bridge = _local.bridge = _Bridge(loop)
    return bridge


def wait(pending: Pending[T]) -> Generator[Any, Any, T]:
    """What ``await pending`` runs, in a coroutine of asyncio."""
    if not pending.done():
        bridge = _bridge()
        future: asyncio.Future[None] = bridge.loop.create_future()
        pending.add_done_callback(lambda _: bridge.post(future))
        yield from future
    return pending.result()
