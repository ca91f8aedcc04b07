"""Mutants of the redrive, its journal and its reader, of renewed leases, and of the commit's fence."""

from __future__ import annotations

from lab.simulation.mutants.change import Change

REDRIVES, REDRIVES_IN_ORDER = ("redrives",), ("redrives-fifo",)
LATE, LEASES, CLOCK_SET = ("late-commits",), ("renewing",), ("renewing-clock-set",)

REPAIR_CHANGES = (
    Change(
        "the redrive deletes what it has not sent",
        "oneslot/operator/repair/redrive.py",
        "        _send(target, waiting, journal)\n",
        "        journal.sent |= {held.letter.sqs_message_id for held in waiting}\n",
        REDRIVES,
    ),
    Change(
        "the redrive notes what it sent after the deletion",
        "oneslot/operator/repair/journal.py",
        '        self._append({"sent": dict(ids)})\n',
        "",
        REDRIVES,
    ),
    Change(
        "the redrive notes no deletion",
        "oneslot/operator/repair/journal.py",
        '        self._append({"deleted": sorted(ids)})\n        self.deleted |= ids',
        "        pass",
        REDRIVES,
    ),
    Change(
        "the redrive sends again what the journal has as sent",
        "oneslot/operator/repair/redrive.py",
        "held.letter.sqs_message_id not in journal.sent]\n    if waiting",
        "True]\n    if waiting",
        REDRIVES,
    ),
    Change(
        "the redrive counts what it does not see as gone",
        "oneslot/operator/repair/redrive.py",
        "frozenset() if hidden or count_in_flight(target) else journal.left - seen",
        "journal.left - seen",
        REDRIVES,
    ),
    Change(
        "a killed redrive waits for its messages for ever",
        "oneslot/operator/repair/redrive.py",
        "        journal.note_deleted(gone)\n",
        "        pass\n",
        REDRIVES,
    ),
    Change(
        "the redrive loses a message's attributes",
        "oneslot/operator/repair/redrive.py",
        "    if kept:\n",
        "    if False:\n",
        REDRIVES,
    ),
    Change(
        "a redrive gives a group's messages one deduplication id",
        "oneslot/operator/repair/redrive.py",
        'f"{run}-{held.letter.sqs_message_id}"',
        'f"{run}-{held.group}"',
        REDRIVES_IN_ORDER,
    ),
    Change(
        "the reader of dead letters leaves them hidden",
        "oneslot/runtime/sqs/dead_letters.py",
        "        look.put_back()",
        "        pass",
        REDRIVES,
    ),
)
"""Of the redrive, each with the scenario that must kill it."""

LEDGER_CHANGES = (
    Change(
        "the commit has no fence",
        "oneslot/runtime/stores/dynamodb.py",
        'expect={"status": IN_PROGRESS, "claimed_by": claim.claimed_by}',
        'expect={"message_id": claim.message_id}',
        LATE,
    ),
    Change(
        "no lease is extended",
        "oneslot/runtime/stores/renewing.py",
        "            if now >= held.deadline or (due and not self._extended(held, until)):",
        "            if now >= held.deadline:",
        LEASES,
    ),
    Change(
        "the first lease lasts as long as the lock",
        "oneslot/runtime/stores/renewing.py",
        "min(lease_until, began + self._lease_ms)",
        "lease_until",
        LEASES,
    ),
    Change(
        "a lease follows the earlier clock",
        "oneslot/runtime/stores/renewing.py",
        "latest = max(now, wall)",
        "latest = min(now, wall)",
        CLOCK_SET,
    ),
    Change(
        "an error of an extension counts as a lost lease",
        "oneslot/runtime/stores/renewing.py",
        "        except Exception:  # any error of the store's client\n            return True",
        "        except Exception:\n            return False",
        LEASES,
        guard="The ledger repeats a failed extension until the lease would end: after an error there is nothing to lose.",
    ),
    Change(
        "an error of an extension ends all leases",
        "oneslot/runtime/stores/renewing.py",
        "        except Exception:  # any error of the store's client",
        "        except ZeroDivisionError:",
        LEASES,
    ),
    Change(
        "a lease has one beat",
        "oneslot/runtime/stores/renewing.py",
        "BEATS_PER_LEASE = 3",
        "BEATS_PER_LEASE = 1",
        LEASES,
    ),
)
"""Of leases and commit."""
