"""`oneslot ledger enter`: each line of a file is entered, complete before, or named with its number; no row changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from oneslot.declaration.declaration import Declaration, Tools
from oneslot.operator.evidence.operator_log import read_lines as logged
from oneslot.operator.repair.entering import Fate, enter, read_lines
from oneslot.runtime.effects import Unprocessable
from tests.kits.consumer import NHS_NUMBER, booking, record
from tests.kits.moto_stack import NOW, MotoStack, document, invoke


def write(folder: Path, *lines: dict[str, Any] | str | bytes) -> str:
    """Write a file with these lines and return its path."""
    texts = [json.dumps(line) if isinstance(line, dict) else line for line in lines]
    path = folder / "handled.jsonl"
    path.write_bytes(b"\n".join(text if isinstance(text, bytes) else text.encode() for text in texts))
    return str(path)


def fates(entered: Mapping[str, Any]) -> list[int]:
    return [entered[fate] for fate in Fate]


def test_entered_messages_are_duplicates(moto_stack: MotoStack, tmp_path: Path) -> None:
    file = write(tmp_path, booking("body", **NOW), "", "id-alone")
    entered = document(invoke("ledger", "enter", file, "--yes", "--json"))
    other_content = booking("id-alone", **NOW, service_type="Clinical Triage")
    moto_stack.bench.deliver(record(booking("body", **NOW)), record(booking("id-alone", **NOW)), record(other_content))

    assert (entered["lines"], fates(entered)) == (2, [2, 0, 0, 0, 0])
    assert moto_stack.bench.outcomes == ["duplicate"] * 3
    assert moto_stack.bench.rows("appointments") == []
    row = moto_stack.bench.row("body")
    assert (row["status"], row["consumption_count"]) == ("COMPLETE", 1)
    assert row["expires_at"] == row["updated"] // 1000 + 2_592_000
    assert json.loads(row["result"])["reason"] == "handled_before_migration"
    assert document(invoke("check", "--json"))["breaches"] == []


def test_copy_of_an_entered_body_is_quarantined_when_its_content_differs(moto_stack: MotoStack, tmp_path: Path) -> None:
    invoke("ledger", "enter", write(tmp_path, booking("m-1", **NOW)), "--yes")
    moto_stack.bench.deliver(record(booking("m-1", **NOW, service_type="Clinical Triage")))
    assert moto_stack.bench.outcomes == ["quarantined"]


def test_dead_letter_of_an_entered_id_is_foreseen_as_a_duplicate(moto_stack: MotoStack, tmp_path: Path) -> None:
    invoke("ledger", "enter", write(tmp_path, "m-1"), "--yes")
    moto_stack.put_dead_letter(booking("m-1", **NOW))
    assert document(invoke("dlq", "list", "--json"))["outlooks"] == {"duplicate": 1}


def test_existing_rows_stay_when_their_ids_are_entered(moto_stack: MotoStack, tmp_path: Path) -> None:
    bench = moto_stack.bench
    bench.deliver(record(booking("done", **NOW)), record(booking("other", **NOW)))
    bench.consumer.ledger.claim("begun", "hash", 4_000_000_000_000)
    before = {row["message_id"]: row for row in bench.rows("ledger")}
    changed = booking("other", **NOW, service_type="Clinical Triage")
    file = write(tmp_path, booking("done", **NOW), "done", changed, "begun", "new")

    first = invoke("ledger", "enter", file, "--yes", "--json")
    second = document(invoke("ledger", "enter", file, "--yes", "--json"), exit_code=1)

    assert fates(document(first, exit_code=1)) == [1, 2, 1, 1, 0]
    assert fates(second) == [0, 3, 1, 1, 0]
    assert [each["line"] for each in second["problems"]] == [3, 4]
    after = {row["message_id"]: row for row in bench.rows("ledger")}
    assert {name: after[name] for name in before} == before
    assert set(after) == {*before, "new"}


def test_invalid_lines_are_named_and_the_others_entered(moto_stack: MotoStack, tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "good",
        "{",
        "two words",
        NHS_NUMBER,
        b"\xff",
        booking("bad", **NOW, nhs_number="9990000019"),
        "\ufeffgood-2",
        booking(None, **NOW),
    )
    result = invoke("ledger", "enter", file, "--yes", "--json")
    entered = document(result, exit_code=1)
    assert (entered["lines"], fates(entered)) == (8, [2, 0, 0, 0, 6])
    assert [each["line"] for each in entered["problems"]] == [2, 3, 4, 5, 6, 8]
    assert {row["message_id"] for row in moto_stack.bench.rows("ledger")} == {"good", "good-2"}
    assert NHS_NUMBER not in result.output


def test_nothing_is_entered_when_it_is_a_dry_run(moto_stack: MotoStack, tmp_path: Path) -> None:
    assert invoke("ledger", "enter", write(tmp_path, "two words", "good")).exit_code == 1
    assert moto_stack.bench.rows("ledger") == []
    assert list(logged(moto_stack.home / "operator-log.jsonl")) == []


def test_entering_continues_when_it_was_cut_off(
    moto_stack: MotoStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, file = moto_stack.bench.dynamodb.put_item, write(tmp_path, *(f"m-{number}" for number in range(24)))
    monkeypatch.setattr("oneslot.operator.repair.entering.AT_ONCE", 10)

    def unreachable_in_the_second_batch(**request: Any) -> Any:
        if request["Item"]["message_id"]["S"] == "m-12":
            raise EndpointConnectionError(endpoint_url="https://dynamodb")
        return put(**request)

    with monkeypatch.context() as patch:
        patch.setattr(moto_stack.bench.dynamodb, "put_item", unreachable_in_the_second_batch)
        cut_off = invoke("ledger", "enter", file, "--yes")
    entered = document(invoke("ledger", "enter", file, "--yes", "--json"))

    assert cut_off.exit_code == 1
    assert entered["entered"] + entered["already_complete"] == 24
    assert entered["already_complete"] >= 10
    lines = [(line["action"], line["outcome"]) for line in logged(moto_stack.home / "operator-log.jsonl")]
    assert lines == [("ledger enter", "begun"), ("ledger enter", "begun"), ("ledger enter", "done")]


def test_line_counts_as_entered_when_the_answer_of_its_write_was_lost(
    moto_stack: MotoStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written_before(**request: Any) -> Any:
        error = {"Error": {"Code": "ConditionalCheckFailedException", "Message": ""}, "Item": request["Item"]}
        raise ClientError(error, "PutItem")  # type: ignore[arg-type]

    monkeypatch.setattr(moto_stack.bench.dynamodb, "put_item", written_before)
    assert document(invoke("ledger", "enter", write(tmp_path, "m-1"), "--yes", "--json"))["entered"] == 1


def order_of(received: Mapping[str, Any]) -> str:
    """Return the id in a body of another consumer."""
    body = json.loads(received["body"])
    if "order" not in body:
        raise Unprocessable("missing_message_id", "order is missing")
    return str(body["order"])


def test_bodies_of_any_consumer_are_entered_by_its_own_rule(moto_stack: MotoStack, tmp_path: Path) -> None:
    orders = Declaration("orders", None, "app.handler", "Orders", tools=Tools(identity=f"{__name__}.order_of"))
    target = replace(moto_stack.target, declaration=orders)
    path = Path(write(tmp_path, {"order": "o-1", "pence": 5}, {"pence": 5}))

    ended = [fate for _, fate in enter(target, read_lines(target, path))]

    assert ended == [Fate.ENTERED, Fate.INVALID]
    assert json.loads(moto_stack.bench.row("o-1")["result"]) == {"outcome": "handled_before_migration"}
