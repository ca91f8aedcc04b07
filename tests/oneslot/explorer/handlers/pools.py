"""Handlers with thread pools. Each is explored unmodified, from this file."""

import asyncio
import contextlib
import importlib
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait
from typing import Any

import boto3

table = boto3.resource("dynamodb").Table("orders")
lock = threading.Lock()
pool = ThreadPoolExecutor(2)


def _put(name: str) -> str:
    table.put_item(Item={"id": name})
    return name


def _count(_: int) -> None:
    found: Any = table.get_item(Key={"id": "n"}).get("Item", {"n": 0})
    table.put_item(Item={"id": "n", "n": found["n"] + 1, "by": "one"})


def _fail() -> None:
    raise KeyError("order")


def race_in_threads_of_asyncio(event: Any, context: Any) -> None:
    async def main() -> None:
        await asyncio.gather(asyncio.to_thread(_count, 1), asyncio.get_running_loop().run_in_executor(pool, _count, 2))

    asyncio.run(main())


def put_in_a_thread_of_asyncio(event: Any, context: Any) -> None:
    async def main() -> str:
        return await asyncio.wait_for(asyncio.to_thread(_put, "o-1"), 5)

    assert asyncio.run(main()) == "o-1"


def leave_a_slow_thread_of_asyncio(event: Any, context: Any) -> None:
    with contextlib.suppress(TimeoutError):
        asyncio.new_event_loop().run_until_complete(asyncio.wait_for(asyncio.to_thread(_put, "o-1"), 5))


def put_in_coroutines_of_asyncio(event: Any, context: Any) -> None:
    async def put(name: str) -> str:
        await asyncio.sleep(0.1)
        return _put(name)

    async def main() -> tuple[str, str]:
        return await asyncio.gather(put("o-1"), put("o-2"))

    assert tuple(asyncio.run(main())) == ("o-1", "o-2")


def await_aws(event: Any, context: Any) -> None:
    importlib.import_module("aioboto3")


def sleep_too_long(event: Any, context: Any) -> None:
    try:
        time.sleep(60)
    except BaseException:
        _put("o-1")


def map_puts(event: Any, context: Any) -> None:
    with ThreadPoolExecutor(max_workers=2) as workers:
        assert list(workers.map(_put, "abc")) == ["a", "b", "c"]


def gather(event: Any, context: Any) -> None:
    with ThreadPoolExecutor(max_workers=2) as workers:
        tasks = [workers.submit(_put, name) for name in "ab"]
        first = wait(tasks, return_when=FIRST_COMPLETED)
        assert first.done
        assert sorted(task.result() for task in as_completed(tasks)) == ["a", "b"]
        assert isinstance(workers.submit(_fail).exception(), KeyError)


def race(event: Any, context: Any) -> None:
    with ThreadPoolExecutor(max_workers=2) as workers:
        list(workers.map(_count, range(2)))


def one_worker(event: Any, context: Any) -> None:
    with ThreadPoolExecutor(max_workers=1) as workers:
        list(workers.map(_count, range(2)))


def locked(event: Any, context: Any) -> None:
    def count(number: int) -> None:
        with lock:
            _count(number)

    with ThreadPoolExecutor(max_workers=2) as workers:
        list(workers.map(count, range(2)))


def use_pool_of_module(event: Any, context: Any) -> None:
    list(pool.map(_put, "ab"))


def forget(event: Any, context: Any) -> None:
    pool.submit(_put, "a")


def wait_on_event(event: Any, context: Any) -> None:
    threading.Event().wait()
