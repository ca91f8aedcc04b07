"""The quick look at a chunk: a subject that it takes for clean is one of which the laws say nothing."""

import json
from random import Random

import pytest

from demo.declared import CONSUMER
from lab.mutants.groups import MOMENT, carried, differing, differing_in, sound
from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.errors import DIED, AuditRefused, refusal_of
from oneslot.audit.judge import clean
from oneslot.audit.judge.columns import Plain
from oneslot.audit.judge.stage import Judging, judged
from oneslot.audit.model import model_of
from oneslot.errors import AuditDied, LawFailed, VerdictsDiffer
from tests.oneslot.audit.audit_answers import looked_at

MODEL = model_of(CONSUMER)
CHUNK = carried(sound(Random(5)))
LOOKED_AT = ("I1", "I2", "I3", "I4", "I5", "I5r", "I6", "I7", "I9", "I10", "I11", "I13")
NEW_LAW = (
    "The quick look does not know a law. Add its condition to oneslot/audit/judge/clean.py, or to demo/audit/plain.py if only "
    "the appointments have it. Add a fault that breaks it to lab/mutants/groups.py, and an edit that removes the condition "
    "to lab/mutants/edits.txt. Add its query to lab/benchmarks/audit/duckdb_audit.py, and name the law in LOOKED_AT."
)


@pytest.mark.parametrize("seed", range(60))
def test_quick_look_and_laws_agree_when_a_history_has_faults(seed: int) -> None:
    """On every verdict, figure and table. `python -m lab.mutants quick-look` removes each condition."""
    assert differing(seed) == []


@pytest.mark.parametrize("outcome", CONSUMER.schema.outcomes)
def test_quick_look_and_laws_agree_when_all_rows_keep_one_outcome(outcome: str) -> None:
    """Whatever the tables show, and no line says what was answered."""
    rows = [(source, row) for source, row in sound(Random(5)) if source != "deliveries"]
    for row in (row for source, row in rows if source == "ledger"):
        row["result"] = json.dumps({**json.loads(row["result"]), "outcome": outcome})
    assert differing_in(rows, CONSUMER) == []


def test_quick_look_has_conditions_when_the_audit_judges_a_law() -> None:
    assert tuple(law.name for law in MODEL.laws) == LOOKED_AT, NEW_LAW


def test_quick_look_finds_most_subjects_of_a_sound_history() -> None:
    found, _ = looked_at(CHUNK)
    assert found is not None
    keys = set(found.table["key"].to_pylist())
    assert {"m1", "m2", "m3", "m5", "m7"} <= keys  # m3 cancelled m0, whose slot is free; m7 is cancelled
    assert {"#A/s0", "#A/s1"} <= keys
    assert "A/s5" not in keys  # an id that is shown as a slot


def test_laws_judge_the_chunk_when_a_row_is_exported_twice() -> None:
    """And the reason is counted."""
    ledger = CHUNK[1]
    assert looked_at({**CHUNK, 1: [*ledger, *ledger]}) == (None, "ValueError")


@pytest.mark.parametrize("digits", [4_300, 4_301])
def test_laws_judge_a_result_when_python_does_not_read_its_number(digits: int) -> None:
    rows = sound(Random(5))
    row = next(row for source, row in rows if source == "ledger" and '"refused"' in row["result"])
    row["result"] = f'{{"n": {"9" * digits}, {row["result"][1:]}'
    found, _ = looked_at(carried(rows))
    assert found is not None
    assert row["message_id"] not in found.table["key"].to_pylist()


def test_audit_is_refused_when_the_laws_say_otherwise_about_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """And `--continue`, which keeps groups, asks the laws alone."""
    consumer = AuditConsumer(CONSUMER)
    assert MODEL.plain is not None
    wrong = Plain(MODEL.plain.results, lambda columns, _: (columns.count["ledger"] >= 0, columns.count["ledger"] < 0))
    monkeypatch.setattr("demo.audit.model.PLAIN", wrong)
    monkeypatch.setattr(clean, "SAMPLED", 1)
    rows = [pair for pair in sound(Random(1)) if pair[0] != "appointments"]
    with pytest.raises(VerdictsDiffer, match=r"takes \S+ for clean, and the laws say otherwise"):
        judged(carried(rows), Judging(consumer, MOMENT, "", "", tables=False))
    assert judged(carried(rows), Judging(consumer, MOMENT, "", "", tables=False, keeps=True))


def test_refusal_keeps_its_code_when_a_python_worker_raised_it() -> None:
    """Spark passes on the text of a Python error alone."""
    found = refusal_of(RuntimeError("Traceback ...\noneslot.errors.LawFailed: The law X raised KeyError.\n"))
    assert isinstance(found, LawFailed)
    assert str(found) == "The law X raised KeyError."
    assert isinstance(refusal_of(RuntimeError("oneslot.errors.NoSuchError: x")), AuditRefused)
    found = refusal_of(RuntimeError("Traceback ...\noneslot.audit.errors.AuditRefused: a.gz was cut short.\n"))
    assert (type(found), str(found)) == (AuditRefused, "a.gz was cut short.")


@pytest.mark.parametrize("sign", DIED)
def test_audit_says_that_a_process_died_when_the_history_is_not_at_fault(sign: str) -> None:
    """With a status of its own, which is no verdict's."""
    found = refusal_of(RuntimeError(f"java.lang.Exception: {sign} ..."))
    assert isinstance(found, AuditDied)
    assert found.exit_code == 70
    assert "memory" in str(found)
