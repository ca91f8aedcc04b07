"""The inside of the embedded AWS's process: ministack, tied to the life of the process that started it.

Run as a module by `embedded_aws`. Standard input is a pipe whose other end only the parent holds. When the parent is
gone, however it went, the pipe ends, and so does this process. (Linux's PR_SET_PDEATHSIG would not do: it follows the
*thread* that started the child, and other systems have none.)
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

GRACE_SECONDS = 5.0


def end_with_parent() -> None:
    """Start a thread that waits for standard input to end, then ends this process: first gently, then for sure."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=wait, name="end-with-parent", daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    sys.argv = ["ministack"]
    runpy.run_module("ministack", run_name="__main__")
