"""The specification holds, and without any of its conditions the checker names the broken law."""

import re

import pytest

from lab.specification.checker import CONFIGURATION, CheckerFailed, Model, check, specification

SMALL = Model(consumers=2, messages=1, faults=2)

COMMIT_ROW = 'row\' = IF Owned(i) THEN [row EXCEPT !.status = "COMPLETE", !.live = FALSE] ELSE row'
RELEASE_ROW = "row' = IF Owned(i) THEN [row EXCEPT !.live = FALSE] ELSE row"
DELETED = 'row\' = [row EXCEPT !.status = "none", !.live = FALSE]'
BUSY = re.compile(r"ELSE Leave\(c\)( +\\\* busy)")
FENCED = re.compile(r"ELSE Leave\(c\)( +\\\* fenced)")

WEAKENED: dict[str, tuple[str | re.Pattern[str], str, str]] = {
    "a live lease is taken over": (
        r'row.status = "IN_PROGRESS" /\ ~row.live',
        'row.status = "IN_PROGRESS"',
        "OnlyTheOwnerWrites",
    ),
    "a COMPLETE row is claimed again": (r'row.status = "IN_PROGRESS" /\ ~row.live', "~row.live", "EffectIffComplete"),
    "no fence": (r"/\ row.by = i", r"/\ TRUE", "OnlyTheOwnerWrites"),
    "a commit does not ask for IN_PROGRESS": (
        'Owned(i)  == /\\ row.status = "IN_PROGRESS"',
        r"Owned(i)  == /\ TRUE",
        "AtMostOneEffect",
    ),
    "the effect comes before the completion": (COMMIT_ROW, "row' = row", "EffectIffComplete"),
    "the completion comes before the effect": (
        "THEN effects + 1 ELSE effects",
        "THEN effects ELSE effects",
        "EffectIffComplete",
    ),
    "any release deletes the row": (RELEASE_ROW, DELETED, "EffectIffComplete"),
    "a busy message is acknowledged": (BUSY, r'ELSE Enter(c, "acknowledging")\1', "AcknowledgedMeansComplete"),
    "a fenced message is acknowledged": (FENCED, r'ELSE Enter(c, "acknowledging")\1', "AcknowledgedMeansComplete"),
    "a lease never ends": (re.compile(r" \\/ LeaseEnds$| /\\ WF_vars\(LeaseEnds\)", re.MULTILINE), "", "Finished"),
}
"""What each change of the specification replaces, by what, and the law that then falls."""


def weakened(what: str) -> str:
    old, new, _ = WEAKENED[what]
    text = specification()
    changed = old.sub(new, text) if isinstance(old, re.Pattern) else text.replace(old, new)
    assert changed != text, f"the specification no longer has what this removes: {old}"
    return changed


@pytest.mark.slow
def test_specification_holds() -> None:
    found = check(specification(), Model())
    assert found.holds, found.trace
    assert found.states > 15_000


@pytest.mark.slow
@pytest.mark.parametrize("what", WEAKENED)
def test_checker_finds_a_weaker_protocol(what: str) -> None:
    found = check(weakened(what), SMALL)
    assert found.violated == WEAKENED[what][2], found.trace
    assert "row = " in found.trace


@pytest.mark.slow
def test_specification_holds_when_a_claim_forgets_itself() -> None:
    """The end of the lease guards, too; recognising its own claim saves time (case i)."""
    text = specification().replace(r"IF Claimable \/ Owned(consumer[c].id)", "IF Claimable")
    assert text != specification()
    assert check(text, SMALL).holds


def test_every_invariant_is_checked() -> None:
    below = specification().split("What must hold.")[1]
    named = set(re.findall(r"^(\w+) +==", below, flags=re.MULTILINE))
    checked = re.search(r"INVARIANTS (.*)\nPROPERTY (.*)", CONFIGURATION.read_text())
    assert checked is not None
    assert named == {*checked[1].split(), *checked[2].split()}


def test_checker_fails_when_the_specification_is_invalid() -> None:
    with pytest.raises(CheckerFailed, match="no verdict"):
        check(specification().replace("Init ==", "Init = ="), SMALL)
