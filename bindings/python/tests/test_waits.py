"""Waits: they let other threads run, end by a signal, and are refused inside operations."""

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import seriatim


def test_a_wait_lets_other_threads_run(engine: seriatim.Engine) -> None:
    # The operation needs a thread of the program's, which needs the GIL while the main one waits.
    asked, answered = threading.Event(), threading.Event()

    def answer() -> None:
        asked.wait(20)
        answered.set()

    thread = threading.Thread(target=answer)
    thread.start()
    assert engine.run(lambda: (asked.set(), answered.wait(20))[1]).result(20) is True
    thread.join()


@pytest.mark.parametrize("wait", ["pending", "variable", "all"])
def test_waits_run_out_of_time(engine: seriatim.Engine, wait: str) -> None:
    gate, v = threading.Event(), engine.variable()
    pending = engine.run(gate.wait, writes=[v], args=(20,))
    waits: dict[str, Callable[[float], Any]] = {"pending": pending.result, "variable": v.wait, "all": engine.wait}
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="in flight") as caught:
        waits[wait](0.05)
    assert isinstance(caught.value, seriatim.TimedOut)
    assert 0.04 < time.monotonic() - began < 10
    with pytest.raises(seriatim.TimedOut):
        waits[wait](0)
    gate.set()
    waits[wait](20)
    with pytest.raises(ValueError, match="not a number"):
        engine.run(time.sleep, args=(0.01,)).result(float("nan"))


def test_an_operation_must_not_wait_for_its_engine(engine: seriatim.Engine) -> None:
    v = engine.variable()
    for wait in (v.wait, engine.wait, engine.run(time.sleep, args=(0.05,)).result):
        with pytest.raises(seriatim.WaitInsideOperation, match="must not wait"):
            engine.run(lambda wait: wait(), writes=[v], args=(wait,)).result(20)
    with seriatim.Engine(1) as other:
        assert engine.run(lambda: other.run(lambda: 3).result(20)).result(20) == 3


def test_accesses_of_the_program_take_their_turn(engine: seriatim.Engine) -> None:
    np = pytest.importorskip("numpy")
    x = engine.array(np.zeros(4))
    seen: list[Any] = []
    engine.run(lambda a: a.fill(1), writes=[x])
    with x.writing() as a:
        assert a[0] == 1
        engine.run(lambda a: seen.append(a[0]), [x])
        time.sleep(0.02)
        assert seen == []
        a[0] = 2
    with x.reading() as a:
        assert a[0] == 2 and not a.flags.writeable
        assert engine.run(lambda a: a[0], [x]).result(20) == 2
    engine.wait(20)
    assert seen == [2]


CTRL_C = """
import os, signal, threading, time, seriatim
engine = seriatim.Engine(2)
gate = threading.Event()
v = engine.variable()
pending = engine.run(gate.wait, writes=[v], args=(20,))
def interrupt():
    time.sleep(0.2)
    global sent
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
thread = threading.Thread(target=interrupt)
thread.start()
try:
    {wait}
except KeyboardInterrupt:
    late = time.monotonic() - sent
    thread.join()
    gate.set()
    pending.result(20)
    print(late)
"""


@pytest.mark.parametrize("wait", ["pending.result()", "v.wait()", "engine.wait()", "engine.close()", "v.wait(15)"])
def test_ctrl_c_ends_a_wait(program: Any, wait: str) -> None:
    assert float(program(CTRL_C.format(wait=wait)).stdout) < 0.2


def test_ctrl_c_ends_a_push_that_waits_for_room(program: Any) -> None:
    text = CTRL_C.replace("Engine(2)", "Engine(1, bound=1)").format(wait="engine.run(print)")
    assert float(program(text).stdout) < 0.2


def test_many_threads_wait(engine: seriatim.Engine) -> None:
    gate, v = threading.Event(), engine.variable()
    pending = engine.run(gate.wait, writes=[v], args=(20,))
    done = []
    waits: list[Callable[[], Any]] = [lambda: pending.result(20), lambda: v.wait(20), lambda: engine.wait(20)] * 8
    threads = [threading.Thread(target=lambda wait=wait: (wait(), done.append(1))) for wait in waits]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(20)
    assert len(done) == len(waits)


def test_no_wake_up_of_a_runner_is_lost(engine: seriatim.Engine) -> None:
    # Runners look for 30 µs and then sleep. Pushes come about when they fall asleep.
    random_pauses = random.Random(3)

    def push() -> None:
        for _ in range(1500):
            until = time.perf_counter() + random_pauses.random() * 8e-5
            while time.perf_counter() < until:
                pass
            assert engine.run(int).result(20) == 0

    threads = [threading.Thread(target=push) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert engine.stats()["ended"] >= 3000
