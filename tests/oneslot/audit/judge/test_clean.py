"""The quick look at a chunk: a subject that it takes for clean is one of which the laws say nothing."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from demo.declared import CONSUMER
from lab.mutants.groups import MOMENT, carried, differing, sound
from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.errors import AuditRefused, refusal_of
from oneslot.audit.judge import clean, stage
from oneslot.audit.judge.clean import find_clean
from oneslot.audit.judge.columns import Plain
from oneslot.audit.judge.stage import judge_chunk
from oneslot.audit.model import model_of
from oneslot.errors import LawFailed, VerdictsDiffer

MODEL = model_of(CONSUMER)
CHUNK = carried(sound(Random(5)))
LOOKED_AT = ("I1", "I2", "I3", "I4", "I5", "I5r", "I6", "I7", "I9", "I10", "I11", "I13")
NEW_LAW = (
    "The quick look does not know a law. Add its condition to oneslot/audit/judge/clean.py, or to demo/audit/plain.py if only "
    "the appointments have it. Add a fault that breaks it to lab/mutants/groups.py, and an edit that removes the condition "
    "to lab/mutants/edits.txt. Then name the law in LOOKED_AT."
)


@pytest.mark.parametrize("seed", range(60))
def test_quick_look_and_laws_agree_when_a_history_has_faults(seed: int) -> None:
    """On every verdict, figure and table. `python -m lab.mutants quick-look` removes each condition."""
    assert differing(seed) == []


def test_quick_look_has_conditions_when_the_audit_judges_a_law() -> None:
    assert tuple(law.name for law in MODEL.laws) == LOOKED_AT, NEW_LAW


def test_quick_look_finds_most_subjects_of_a_sound_history() -> None:
    found = find_clean([CHUNK], MODEL)
    assert found is not None
    keys = set(found.table["key"].to_pylist())
    assert {"m1", "m2", "m5", "#A/s1"} <= keys
    assert {"m0", "m3", "A/s5"}.isdisjoint(keys)  # cancelled, a cancellation, and an id that is shown as a slot


@pytest.mark.parametrize("text", ["{", '{"message_id": 5}'])
def test_laws_judge_the_chunk_when_a_row_is_not_as_expected(text: str) -> None:
    odd = pa.RecordBatch.from_pydict({"key": ["m"], "place": pa.array([1], pa.int32()), "row": [text]})
    assert find_clean([CHUNK, odd], MODEL) is None


@pytest.mark.parametrize("most", [5, 20])
def test_laws_judge_the_chunk_when_it_has_very_many_rows(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those taken for the quick look, and those that arrive later."""

    def judged() -> list[object]:
        parts = [CHUNK.slice(0, 10), CHUNK.slice(10, 20), CHUNK.slice(30)]
        made = judge_chunk(iter(parts), AuditConsumer(CONSUMER), MOMENT, tables=True, keeps=False)
        return [row for batch in made for row in batch.to_pylist()]

    looked_at = judged()
    monkeypatch.setattr(stage, "LOOKED_AT_ROWS", most)
    monkeypatch.setattr(stage, "find_clean", None)
    assert judged() == looked_at


def test_audit_is_refused_when_the_laws_say_otherwise_about_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """And `--continue`, which keeps groups, asks the laws alone."""
    consumer = AuditConsumer(CONSUMER)
    wrong = Plain(clean_results(), lambda columns: columns.count["ledger"] >= 0)
    monkeypatch.setattr("demo.audit.model.PLAIN", wrong)
    monkeypatch.setattr(clean, "SAMPLED", 1)
    rows = [pair for pair in sound(Random(1)) if pair[0] != "appointments"]
    with pytest.raises(VerdictsDiffer, match=r"takes \S+ for clean, and the laws say otherwise"):
        list(judge_chunk([carried(rows)], consumer, MOMENT, tables=False, keeps=False))
    assert list(judge_chunk([carried(rows)], consumer, MOMENT, tables=False, keeps=True))


def clean_results() -> tuple[str, ...]:
    assert MODEL.plain is not None
    return MODEL.plain.results


def test_refusal_keeps_its_code_when_a_python_worker_raised_it() -> None:
    """Spark passes on the text of a Python error alone."""
    found = refusal_of(RuntimeError("Traceback ...\noneslot.errors.LawFailed: The law X raised KeyError.\n"))
    assert isinstance(found, LawFailed)
    assert str(found) == "The law X raised KeyError."
    assert isinstance(refusal_of(RuntimeError("oneslot.errors.NoSuchError: x")), AuditRefused)
