"""The program of a host: one poller with its warm handlers, in a process of its own. `hosts` runs it as a module.

It writes `{"ready": true}`, answers each line of standard input with its handlers' process ids, and stops when standard
input ends. If it is killed, its handlers find their own input closed and exit too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.event_source_mapping import EventSourceMapping


def main(endpoint_url: str, account: str, mapping_id: str, folder: str, processes: str) -> None:
    """Poll until standard input ends."""
    poller = EventSourceMapping(
        Connection(endpoint_url, account), mapping_id, folder=Path(folder), processes=int(processes)
    )
    with poller:
        _say({"ready": True})
        for _ in sys.stdin:
            _say({"handlers": poller.handler_pids(), "statistics": poller.statistics.to_json()})


def _say(document: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
