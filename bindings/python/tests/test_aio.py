"""``await`` in asyncio."""

import asyncio
import threading
import time

import pytest
import seriatim


def test_results_variables_and_everything_are_awaited(engine: seriatim.Engine) -> None:
    async def main() -> None:
        v, x = engine.variable(), engine.value(1)
        assert await engine.run(lambda: 42) == 42
        engine.run(time.sleep, writes=[v], args=(0.01,))
        await v.ready()
        engine.run(lambda x: x + 1, [x], into=x)
        assert await x.ready() == 2
        engine.run(time.sleep, args=(0.01,))
        await engine.all()
        assert engine.stats()["in_flight"] == 0
        assert sum(await asyncio.gather(*(_await(engine.run(lambda n=n: n)) for n in range(200)))) == 19900

    asyncio.run(main())


async def _await(pending: "seriatim.Pending[int]") -> int:
    return await pending


def test_exceptions_are_awaited(engine: seriatim.Engine) -> None:
    async def main() -> None:
        x = engine.value(1)
        failed = engine.run(lambda: 1 // 0, into=x)
        with pytest.raises(seriatim.Skipped) as caught:
            await engine.run(lambda x: x, [x])
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):
            await failed

    asyncio.run(main())


def test_the_loop_goes_on_while_an_operation_runs(engine: seriatim.Engine) -> None:
    async def main() -> int:
        gate, ticks = threading.Event(), 0
        pending = engine.run(gate.wait, args=(20,))
        waiting = asyncio.ensure_future(_result(pending))
        for ticks in range(1, 6):
            await asyncio.sleep(0.001)
        assert not waiting.done()
        gate.set()
        await waiting
        return ticks

    assert asyncio.run(main()) == 5


async def _result(pending: "seriatim.Pending[bool]") -> bool:
    return await pending


def test_a_wait_that_is_cancelled_leaves_the_operation(engine: seriatim.Engine) -> None:
    async def main() -> None:
        gate = threading.Event()
        pending = engine.run(gate.wait, args=(20,))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_result(pending), 0.01)
        gate.set()
        assert await pending is True

    asyncio.run(main())


def test_each_loop_gets_its_own_results(engine: seriatim.Engine) -> None:
    threads_of: set[bool] = set()

    def loop() -> None:
        async def main() -> None:
            for n in range(100):
                assert await engine.run(lambda n=n: n) == n
                threads_of.add(threading.current_thread() is mine)

        mine = threading.current_thread()
        asyncio.run(main())

    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert threads_of == {True}
    loop()


def test_engines_and_accesses_are_asynchronous_contexts() -> None:
    np = pytest.importorskip("numpy")

    async def main() -> None:
        async with seriatim.Engine(2) as engine:
            x = engine.array(np.zeros(3))
            engine.run(lambda a: a.fill(1), writes=[x])
            async with x.writing() as a:
                a += 1
            assert (await x.ready()).tolist() == [2, 2, 2]
            engine.run(time.sleep, args=(0.01,))
        assert engine.closed
        with pytest.raises(ZeroDivisionError):
            async with seriatim.Engine(1) as engine:
                engine.run(lambda: 1 // 0)

    asyncio.run(main())


def test_many_results_call_the_loop_a_few_times(engine: seriatim.Engine) -> None:
    calls = 0

    async def main() -> None:
        loop = asyncio.get_running_loop()
        plain = loop.call_soon_threadsafe

        def counted(*args: object, **kwargs: object) -> object:
            nonlocal calls
            calls += 1
            return plain(*args, **kwargs)  # type: ignore[arg-type]

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign,assignment]
        gate = threading.Event()
        v = engine.variable()
        engine.run(gate.wait, writes=[v], args=(20,))
        waits = [asyncio.ensure_future(_await(engine.run(lambda: 1, writes=[v]))) for _ in range(1000)]
        await asyncio.sleep(0)
        gate.set()
        assert sum(await asyncio.gather(*waits)) == 1000

    asyncio.run(main())
    assert 1 <= calls <= 900
