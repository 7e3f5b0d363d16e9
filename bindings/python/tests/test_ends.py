"""The ends of processes, forks, and interpreters that are not the main one."""

import os
import sys
from typing import Any

import pytest

ENDINGS = {
    "an engine that is left open": "engine.run(print, args=('ran',))",
    "operations in flight": "[engine.run(time.sleep, args=(0.001,)) for _ in range(100)]; engine.run(print, args=('ran',))",
    "a chain": "v = engine.variable(); [engine.run(time.sleep, writes=[v], args=(0.001,)) for _ in range(50)]; "
    "engine.run(print, writes=[v], args=('ran',))",
    "an access that nobody ends": "x = engine.array(np.ones(3)); h = x._hold(True).result(); "
    "engine.run(print, writes=[x]); engine.run(print, args=('ran',))",
    "a daemon that waits": "gate = threading.Event(); x = engine.array(np.ones(3)); h = x._hold(True).result(); "
    "threading.Thread(target=engine.run(print, [x]).result, daemon=True).start(); engine.run(print, args=('ran',))",
    "a loop that is gone": "p = engine.run(time.sleep, args=(0.05,)); loop = asyncio.new_event_loop(); "
    "t = loop.create_task(wait(p)); loop.call_later(0.01, loop.stop); loop.run_forever(); loop.close(); "
    "engine.run(print, args=('ran',))",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_processes_end(program: Any, name: str) -> None:
    pytest.importorskip("numpy")
    done = program(
        f"""
import asyncio, threading, time, numpy as np, seriatim
async def wait(pending):
    await pending
engine = seriatim.Engine(2)
{ENDINGS[name]}
"""
    )
    assert done.stdout.endswith("ran\n")
    assert "Fatal" not in done.stderr and "panicked" not in done.stderr


def test_an_exception_that_nobody_takes_is_told(program: Any) -> None:
    done = program("import seriatim\nengine = seriatim.Engine(1)\nengine.run(lambda: 1 // 0)\n")
    assert "ZeroDivisionError" in done.stderr


def test_threads_that_are_refused(program: Any) -> None:
    done = program(
        """
import threading, seriatim
plain, left = threading.Thread.start, [1]
def start(thread):
    if not left:
        raise RuntimeError("can't start new thread")
    left.pop()
    plain(thread)
threading.Thread.start = start
try:
    seriatim.Engine(3)
except RuntimeError as error:
    print(error, [thread.name for thread in threading.enumerate()])
threading.Thread.start = plain
assert seriatim.Engine(1).run(lambda: 1).result(10) == 1
"""
    )
    assert done.stdout == "can't start new thread ['MainThread']\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("work", ["pass", "engine.run(time.sleep, args=(0.3,))"])
def test_forks(program: Any, work: str) -> None:
    done = program(
        f"""
import os, time, seriatim, warnings
warnings.simplefilter("ignore", DeprecationWarning)
engine = seriatim.Engine(2)
x = engine.value(1)
engine.run(lambda: 1).result()
held = x._hold(True).result(10)
{work}
pending = engine.run(time.sleep, args=(0.1,))
child = os.fork()
if child == 0:
    try:
        said = 0
        for call in (lambda: engine.run(print), x.ready, engine.wait, lambda: pending.result(5)):
            try:
                call()
            except seriatim.Stopped as error:
                said += "forked" in str(error)
        held.release()
        engine.close()
        del x, pending, held
        del engine
        with seriatim.Engine(2) as new:
            assert new.run(lambda: 5).result(10) == 5
        os._exit(10 + said)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert status == 14, status
held.release()
assert x.get(10) == 1
assert engine.run(lambda: 2).result(10) == 2
engine.close()
print("well")
"""
    )
    assert done.stdout == "well\n"


def test_multiprocessing_by_fork(program: Any) -> None:
    done = program(
        """
import multiprocessing, warnings, seriatim
warnings.simplefilter("ignore", DeprecationWarning)
def work(n):
    with seriatim.Engine(2) as engine:
        return engine.run(lambda: n * n).result(10)
if __name__ == "__main__":
    engine = seriatim.Engine(2)
    engine.run(lambda: 1).result(10)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, range(5)))
"""
    )
    assert done.stdout == "[0, 1, 4, 9, 16]\n"


@pytest.mark.skipif(sys.version_info < (3, 13), reason="no _interpreters before 3.13")
def test_subinterpreters_are_refused(program: Any) -> None:
    done = program(
        """
import _interpreters, seriatim
one = _interpreters.create()
failed = _interpreters.exec(one, "import seriatim")
print(failed.formatted if failed else None)
_interpreters.destroy(one)
assert seriatim.Engine(1).run(lambda: 3).result(10) == 3
"""
    )
    assert "main interpreter" in done.stdout and "ImportError" in done.stdout
