"""The program of a host: one poller with its warm handlers, in a process of its own. `hosts` runs it as a module.

It writes a line when it is ready, and stops when its standard input ends. If it is killed, its handlers find their own
input closed and exit too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.event_source_mapping import EventSourceMapping


def main(endpoint_url: str, account: str, mapping_id: str, folder: str, processes: str) -> None:
    """Poll until standard input ends."""
    connection = Connection(endpoint_url, account, session_token=os.environ["AWS_SESSION_TOKEN"])
    with EventSourceMapping(connection, mapping_id, folder=Path(folder), processes=int(processes)):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
