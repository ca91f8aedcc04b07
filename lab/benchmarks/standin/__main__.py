"""A stand-in for DynamoDB and SQS on loopback that takes a set time for each call and counts calls and capacity units.

    python -m lab.benchmarks.standin --port 0 --service-ms 5

- A call is answered `service_ms` after its last byte came, a transaction after twice that, because it prepares and
  commits. The work of this process is part of that time, so concurrent calls do not wait for each other unless their
  work takes longer.
- The items of a transaction are held until it is answered. Another write to one of them is refused meanwhile, as in
  DynamoDB: a transaction with the reason TransactionConflict at that item, a single write with
  TransactionConflictException.
- `metered_dynamodb.py` performs the calls and counts their units.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import selectors
import signal
import sys
import threading

from lab.benchmarks.harness.command import run_main
from lab.benchmarks.standin.service import Connection, Service


async def serve(port: int, service_ms: float) -> None:
    """Print the port, and serve on loopback until killed."""
    service = Service(service_ms)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(service), "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _loop() -> asyncio.AbstractEventLoop:
    # select rather than epoll, because epoll rounds each wait up to whole milliseconds.
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--service-ms", type=float, default=5.0)
    parser.add_argument("--child", action="store_true", help="end when standard input closes, with the parent")
    options = parser.parse_args()
    if options.child:
        # A terminal interrupts parent and child, and the parent may still make calls.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with_parent, daemon=True).start()
    with asyncio.Runner(loop_factory=_loop) as runner:
        runner.run(serve(options.port, options.service_ms))


if __name__ == "__main__":
    sys.exit(run_main(main))
