"""Verbs whose evidence cannot be read, or whose report cannot be written: a sentence, and never a sound result."""

from __future__ import annotations

import pytest

from oneslot.errors import AwsRefused, LocalStackFailed, SystemRefused
from tests.kits.consumer import Intercepted, booking, raising, record, service_error
from tests.kits.moto_stack import NOW, MotoStack, document, invoke


def test_check_leaves_no_report_when_it_fails(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke("check").exit_code == 1
    assert moto_stack.target.report.exists()

    def refuse(*_: object) -> None:
        raise service_error("AccessDeniedException", "Scan")

    monkeypatch.setattr("oneslot.operator.evidence.gathering.scan", refuse)
    assert document(invoke("check", "--json"), 1)["code"] == AwsRefused.code
    assert not moto_stack.target.report.exists()


def test_list_fails_when_aws_refuses_otherwise(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    moto_stack.put_dead_letter(booking("m-2", **NOW))
    refused = Intercepted(
        moto_stack.bench.dynamodb, before={"batch_get_item": raising(service_error("AccessDeniedException"))}
    )
    monkeypatch.setattr("oneslot.local.aws.connection.Connection.dynamodb", lambda _: refused)
    assert document(invoke("dlq", "list", "--json"), 1)["code"] == AwsRefused.code


def test_check_shows_its_verdict_when_the_report_is_unwritable(moto_stack: MotoStack) -> None:
    moto_stack.bench.deliver(record(booking("m-1", **NOW)))
    moto_stack.write_log()
    moto_stack.target.report.mkdir()
    said = f"{moto_stack.target.report} cannot be written (Is a directory), so this check has no report."
    checked = document(invoke("check", "--json"), 1)
    assert (checked["kind"], checked["unwritten"]) == ("holds", [said])


@pytest.mark.parametrize("drain", [[], ["--until-drained"]])
def test_watch_ends_with_130_when_interrupted_at_once(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch, drain: list[str]
) -> None:
    """Status 1 would say that the queue is not drained, or that a table is missing."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("oneslot.operator.commands.watch.Observer.look", interrupt)
    ended = invoke("watch", *drain)
    assert (ended.exit_code, "Interrupted" in ended.stderr) == (130, True)


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        ("status", "statistics.json"),
        ("check", "accepted.jsonl"),
        ("check", "consumer.jsonl"),
        ("check", "operator-log.jsonl"),
        ("inspect x", "accepted.jsonl"),
    ],
)
def test_verb_names_a_file_that_is_a_folder(moto_stack: MotoStack, verb: str, name: str) -> None:
    (moto_stack.home / name).mkdir()
    refused = document(invoke(*verb.split(), "--json"), 1)
    assert (refused["code"], str(moto_stack.home / name) in refused["error"]) == (SystemRefused.code, True)


@pytest.mark.parametrize("text", ["", "no JSON", "[1]"])
def test_status_names_an_invalid_statistics_file(moto_stack: MotoStack, text: str) -> None:
    (moto_stack.home / "statistics.json").write_text(text)
    assert document(invoke("status", "--json"), 1)["code"] == LocalStackFailed.code
