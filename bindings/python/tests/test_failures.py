"""Exceptions of operations, what is skipped for them, tokens and deadlines."""

import gc
import threading
import time
import traceback
import weakref
from typing import Any

import pytest
import seriatim


class Mine(Exception):
    pass


def fail(*_: object) -> None:
    raise Mine("here")


def test_the_very_exception_comes_back_with_its_traceback(engine: seriatim.Engine) -> None:
    made = Mine("made before")

    def raises() -> None:
        raise made

    with pytest.raises(Mine) as caught:
        engine.run(raises).result(10)
    assert caught.value is made
    assert "raises" in [frame.name for frame in traceback.extract_tb(made.__traceback__)]


def test_a_wait_for_a_variable_raises_what_its_operation_raised(engine: seriatim.Engine) -> None:
    v = engine.variable("v")
    engine.run(fail, writes=[v])
    with pytest.raises(Mine):
        v.wait(10)
    v.wait(10)  # It was taken.
    engine.wait(10)


def test_what_depends_on_it_is_skipped_and_says_why(engine: seriatim.Engine) -> None:
    x, y, called = engine.value(0), engine.value(0), []
    failed = engine.run(fail, writes=[x], name="first")
    skipped = engine.run(lambda x: called.append(1), [x], into=y, name="second")
    behind = engine.run(lambda y: called.append(2), [y])
    beside = engine.run(lambda: called.append(3))
    with pytest.raises(seriatim.Skipped, match="'second' was skipped, since 'first' failed") as caught:
        skipped.result(10)
    assert isinstance(caught.value.__cause__, Mine)
    assert isinstance(behind.exception(10), seriatim.Skipped)
    assert failed.exception(10) is caught.value.__cause__
    assert beside.exception(10) is None and called == [3]
    engine.wait(10)


def test_after_a_wait_has_taken_it_operations_run_again(engine: seriatim.Engine) -> None:
    x = engine.value(1)
    engine.run(fail, writes=[x])
    assert isinstance(x.ready().exception(10), Mine)
    assert engine.run(lambda x: x, [x]).result(10) == 1


def test_what_was_pushed_before_the_wait_is_skipped_all_the_same(engine: seriatim.Engine) -> None:
    x, gate = engine.value(1), threading.Event()
    other = engine.variable()
    engine.run(gate.wait, writes=[other], args=(20,))
    failed = engine.run(fail, writes=[x])
    late = engine.run(lambda x: x, [x, other])
    with pytest.raises(Mine):
        failed.result(10)
    gate.set()
    assert isinstance(late.exception(10), seriatim.Skipped)


def test_leaving_raises_what_no_wait_has_raised() -> None:
    with pytest.raises(Mine):
        with seriatim.Engine(1) as engine:
            engine.run(fail)
    with seriatim.Engine(1) as engine:
        assert engine.run(fail).exception(10)
    with pytest.raises(ZeroDivisionError) as caught:
        with seriatim.Engine(1) as engine:
            engine.run(fail)
            1 / 0  # noqa: B018
    assert "an operation failed as well" in caught.value.__notes__[0]


def test_everything_raises_the_first_and_counts_the_others(engine: seriatim.Engine) -> None:
    first = ValueError("first")

    def raises() -> None:
        raise first

    engine.run(raises)
    for _ in range(3):
        engine.run(fail)
    with pytest.raises(ValueError) as caught:
        engine.wait(10)
    assert caught.value is first and "3 more operations failed" in first.__notes__[0]
    engine.wait(10)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_no_exception_ends_a_runner(engine: seriatim.Engine, kind: type[BaseException]) -> None:
    def raises() -> None:
        raise kind

    assert isinstance(engine.run(raises).exception(10), kind)
    assert engine.run(lambda: 1).result(10) == 1


def test_tokens_skip_what_has_not_started(engine: seriatim.Engine) -> None:
    token, gate, called = seriatim.CancelToken(), threading.Event(), []
    v = engine.variable()
    engine.run(gate.wait, writes=[v], args=(20,), token=token)
    inside = engine.run(lambda: called.append(1), writes=[v], token=token, name="inside")
    behind = engine.run(lambda: called.append(2), writes=[v])
    assert not token.cancelled
    token.cancel()
    gate.set()
    with pytest.raises(seriatim.Cancelled, match="'inside'"):
        inside.result(10)
    assert isinstance(behind.exception(10), seriatim.Skipped)
    assert called == [] and token.cancelled


def test_what_has_not_started_in_time_is_skipped() -> None:
    with seriatim.Engine(1) as engine:
        engine.run(time.sleep, args=(0.05,))
        late = engine.run(lambda: 1, start_within=0.001)
        in_time = engine.run(lambda: 1, start_within=60)
        assert isinstance(late.exception(10), seriatim.DeadlineExceeded)
        assert in_time.result(10) == 1


def test_callbacks_are_called_once_and_their_exceptions_told(
    engine: seriatim.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: told.append(args.exc_value))
    seen: list[object] = []
    gate = threading.Event()
    pending = engine.run(gate.wait, args=(20,))
    pending.add_done_callback(seen.append)
    pending.add_done_callback(fail)
    gate.set()
    pending.result(10)
    engine.wait(10)
    pending.add_done_callback(seen.append)
    assert seen == [pending, pending] and isinstance(told[0], Mine)


def test_functions_and_arguments_are_freed() -> None:
    class Thing:
        pass

    with seriatim.Engine(2) as engine:
        things = [Thing() for _ in range(100)]
        gone = [weakref.ref(thing) for thing in things]
        x = engine.value(Thing())
        for thing in things:
            engine.run(lambda x, thing: thing, [x], args=(thing,)).result(10)
            engine.run(lambda thing: fail(), args=(thing,)).exception(10)
        del things, thing
        engine.wait(10)
        gc.collect()
        assert [ref for ref in gone if ref() is not None] == []


def test_an_engine_that_is_let_go_of_ends_its_threads() -> None:
    seen: list[Any] = []
    engine = seriatim.Engine(2, name="let-go")
    for n in range(10):
        engine.run(seen.append, args=(n,))
    del engine
    gc.collect()
    until = time.monotonic() + 20
    while any("let-go" in thread.name for thread in threading.enumerate()) and time.monotonic() < until:
        time.sleep(0.01)
    assert sorted(seen) == list(range(10))
    assert not any("let-go" in thread.name for thread in threading.enumerate())
