"""The counts of an exploration: equal from run to run, whatever a library does once in a process."""

import gc
import logging
import sys
import time
from pathlib import Path

import boto3
import pytest

from oneslot.explorer.handlers.exploration import explore

LIBRARY = "import time\n\nSTARTED = time.time()\n"
HANDLER = """
import boto3
import loaded_once

def put(event, context):
    boto3.client("dynamodb").put_item(TableName="orders", Item={"id": {"S": "o-1"}})
"""
LOGGING = HANDLER.replace("import loaded_once", "import logging").replace("    boto3", "    logging.warning(1); boto3")


def counts(path: Path) -> list[tuple[int, int, int]]:
    result = explore("app.put", messages=["o-1"], tables=["orders:id"], path=path)
    return [(level.states, level.schedules, level.executions) for level in result.levels]


def test_first_exploration_counts_as_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "loaded_once.py").write_text(LIBRARY)
    (tmp_path / "app.py").write_text(HANDLER)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    try:
        first = counts(tmp_path)
    finally:
        sys.modules.pop("loaded_once", None)
    monkeypatch.setitem(sys.modules, "loaded_once", logging)

    assert first == counts(tmp_path)


def test_log_line_is_no_reading_of_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.py").write_text(HANDLER.replace("import loaded_once", ""))
    silent = counts(tmp_path)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    (tmp_path / "app.py").write_text(LOGGING)

    assert counts(tmp_path) == silent


@pytest.mark.slow
def test_collection_of_garbage_is_no_reading_of_the_clock(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        HANDLER.replace("loaded_once", "gc").replace("    boto3", "    gc.collect(); boto3")
    )
    untimed = counts(tmp_path)

    def timed(*_: object) -> None:
        time.perf_counter()

    gc.callbacks.append(timed)
    try:
        assert counts(tmp_path) == untimed
        assert timed in gc.callbacks
    finally:
        gc.callbacks.remove(timed)


def test_handler_keeps_only_what_it_remembers(tmp_path: Path) -> None:
    call = '    int(boto3.resource("dynamodb").Table("orders").update_item({})["Attributes"]["n"])\n'.format(
        'Key={"id": "n"}, UpdateExpression="ADD n :one", ExpressionAttributeValues={":one": 1}, ReturnValues="ALL_NEW"'
    )
    (tmp_path / "app.py").write_text("import boto3\n\ndef put(event, context):\n" + call * 5)

    at_the_same_time = explore(
        "app.put", messages=["o-1"], tables=["orders:id"], path=tmp_path, law=lambda world: True
    ).levels[2]

    assert (at_the_same_time.states, at_the_same_time.schedules) == (36, 1716)
