"""What the tests share."""

import os
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator

import pytest
import seriatim

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED")) and not sys._is_gil_enabled()  # type: ignore[attr-defined,unused-ignore]


@pytest.fixture
def engine() -> Iterator[seriatim.Engine]:
    made = seriatim.Engine(2)
    yield made
    try:
        made.close(20)
    except seriatim.TimedOut:
        raise
    except Exception:
        pass  # Tests that leave failures behind look at them themselves.


@pytest.fixture
def program() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs a program in a process of its own, which must end in time."""

    def run(text: str, *, status: int = 0, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(text)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        return done

    return run
