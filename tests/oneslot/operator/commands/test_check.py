"""`check` and its like: evidence that changes or cannot be read, and a report that cannot be written."""

from dataclasses import replace
from itertools import count

import pytest

from oneslot.errors import AwsRefused, LocalStackFailed, SystemRefused
from oneslot.operator.commands import check as check_module
from oneslot.operator.evidence.gathering import Gathered, gather
from oneslot.operator.target import Target
from tests.kits.consumer import BEFORE, Intercepted, booking, raising, record, service_error
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


NAMES = [f"m-{number}" for number in range(3)]


@pytest.fixture
def looks(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The requests that each look misses in the ledger; none after the last entry."""
    moto_stack.bench.deliver(*[record(booking(name)) for name in NAMES])
    moto_stack.write_log()
    between: list[list[str]] = []
    at = count()

    def torn(target: Target) -> Gathered:
        # As of the bench's clock, which stands still: by the real one rows may have been due to expire.
        gathered = gather(target, lambda: BEFORE)
        number = next(at)
        missed = between[number] if number < len(between) else []
        ledger = {name: row for name, row in gathered.evidence.ledger.items() if name not in missed}
        return replace(gathered, evidence=replace(gathered.evidence, ledger=ledger))

    monkeypatch.setattr(check_module, "gather", torn)
    return between


@pytest.mark.parametrize("missed", [[], [["m-0"]], [["m-0"], ["m-1", "m-2"]]])
def test_check_holds_when_a_request_is_broken_in_one_look(looks: list[list[str]], missed: list[list[str]]) -> None:
    looks += missed
    assert document(invoke("check", "--json"))["kind"] == "holds"


def test_check_is_broken_when_two_looks_agree(looks: list[list[str]]) -> None:
    looks += [["m-0", "m-1"], ["m-1", "m-2"]]
    judged = document(invoke("check", "--json"), exit_code=1)
    assert judged["kind"] == "broken"
    assert {breach["subject"] for breach in judged["breaches"]} == {"m-1"}


def test_check_is_unfinished_when_every_look_differs(looks: list[list[str]]) -> None:
    looks += [[name] for name in NAMES]
    judged = document(invoke("check", "--json"), exit_code=1)
    assert (judged["kind"], judged["breaches"]) == ("unfinished", [])
    assert (judged["counts"]["lost"], judged["counts"]["double_booked"]) == (None, None)
