"""The consumer's configuration: the environment that the stack sets, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oneslot.runtime.sqs.deferral import Deferral, deferral_of

FOREVER = "forever"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One field for each environment variable, in lower case. A retention of None stands for `forever`.

    `deferral` holds the three that `deferral_of` reads.
    """

    ledger_table: str
    slots_table: str
    appointments_table: str
    queue_url: str
    dead_letter_queue_url: str
    ledger_retention_seconds: int | None
    batch_concurrency: int
    candidate_slots: int
    content_based_deduplication: bool
    group_commit: bool = False
    deferral: Deferral = field(default_factory=Deferral)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Configuration:
        """Read the environment.

        Raises:
            ValueError: naming the variable that is missing or malformed.
        """

        def text(name: str) -> str:
            if not environment.get(name):
                raise ValueError(f"environment variable {name} is not set; the stack sets it from its settings")
            return environment[name]

        def number(name: str) -> int:
            if not text(name).isdecimal() or int(text(name)) < 1:
                raise ValueError(f"environment variable {name} must be a whole number above 0")
            return int(text(name))

        return cls(
            ledger_table=text("ONESLOT_LEDGER_TABLE"),
            slots_table=text("ONESLOT_TABLE_SLOTS"),
            appointments_table=text("ONESLOT_TABLE_APPOINTMENTS"),
            queue_url=text("ONESLOT_QUEUE_URL"),
            dead_letter_queue_url=text("ONESLOT_DEAD_LETTER_QUEUE_URL"),
            ledger_retention_seconds=None
            if text("ONESLOT_LEDGER_RETENTION_SECONDS") == FOREVER
            else number("ONESLOT_LEDGER_RETENTION_SECONDS"),
            batch_concurrency=number("BATCH_CONCURRENCY"),
            candidate_slots=number("CANDIDATE_SLOTS"),
            content_based_deduplication=text("CONTENT_BASED_DEDUPLICATION") == "true",
            # Functions deployed before this setting existed lack the variable.
            group_commit=environment.get("GROUP_COMMIT") == "true",
            deferral=deferral_of(environment),
        )
