"""A person's own requests: sent as they are, refused by line if SQS could not carry them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oneslot.operator.sending.request_file import check_file, read_requests
from tests.kits.consumer import NHS_NUMBER, booking, cancellation


def written(folder: Path, *lines: str) -> Path:
    """A file of these lines."""
    path = folder / "requests.ndjson"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_request_file_is_read_as_it_is(tmp_path: Path) -> None:
    texts = [json.dumps(booking("m-1")), json.dumps(cancellation("m-1"))]
    path = written(tmp_path, texts[0], "", texts[1])
    assert check_file(path) == 2
    first, second = read_requests(path)
    assert [first.body, second.body] == texts
    assert (first.request.message_id, first.group) == ("m-1", "A81001")
    assert second.group is None


@pytest.mark.parametrize("practice", ["Zürich1", "A" * 129, "A 1", "", 81001, None])
def test_request_has_no_group_when_sqs_would_refuse_it(tmp_path: Path, practice: object) -> None:
    (message,) = read_requests(written(tmp_path, json.dumps(booking("m-1", practice=practice))))
    assert message.group is None


def test_request_has_no_archived_id_when_it_is_personal(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(booking(NHS_NUMBER)), json.dumps(booking(None)))
    assert [message.request.message_id for message in read_requests(path)] == [None, None]


def test_request_file_is_read_when_an_editor_marked_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(json.dumps(booking("m-1")) + "\n", encoding="utf-8-sig")
    (message,) = read_requests(path)
    assert message.body == json.dumps(booking("m-1"))
