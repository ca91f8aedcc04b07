"""Mutants of the worker, and of the consumer that it calls."""

from __future__ import annotations

from lab.simulation.mutants.change import Change

WORKERS, IN_ORDER = ("workers",), ("workers-fifo",)
LONG, MILD, DEPLOYED, HANGING = ("long-work",), ("long-work-mild",), ("deployments",), ("hanging",)
TAKEN_OVER = ("taken-over",)

WORKER_CHANGES = (
    Change(
        "the worker counts visibility from the receive's answer",
        "oneslot/worker/poller.py",
        "asked + self._settings.hidden_seconds",
        "now + self._settings.hidden_seconds",
        MILD,
    ),
    Change(
        "the heartbeat extends nothing",
        "oneslot/worker/visibility.py",
        "                due.append(job)",
        "                pass",
        LONG,
    ),
    Change(
        "the heartbeat takes a throttled entry for final",
        "oneslot/worker/visibility.py",
        "            if is_final(entry):\n                self._lose",
        '            if entry.get("SenderFault"):\n                self._lose',
        MILD,
    ),
    Change(
        "the worker deletes a message whose handler failed",
        "oneslot/worker/pool.py",
        "State.FAILED if failure else State.ACKNOWLEDGING):",
        "State.ACKNOWLEDGING):\n            failure = None\n        failure = None\n        if False:",
        WORKERS,
    ),
    Change(
        "the worker deletes a message that the handler reported as failed",
        "oneslot/worker/pool.py",
        "return _Failure(_REPORTED_FAILED, lambda _: None) if verdict.failed else None",
        "return None",
        WORKERS,
    ),
    Change(
        "the worker receives ten messages whatever is idle",
        "oneslot/worker/poller.py",
        "MaxNumberOfMessages=how_many",
        "MaxNumberOfMessages=RECEIVE_MAXIMUM",
        DEPLOYED,
    ),
    Change(
        "the worker receives ten messages of a FIFO queue at once",
        "oneslot/worker/poller.py",
        "1 if source.fifo else RECEIVE_MAXIMUM",
        "RECEIVE_MAXIMUM",
        IN_ORDER,
    ),
    Change(
        "the worker keeps the receive attempt after an answer",
        "oneslot/worker/poller.py",
        '        self._attempt_id = ""\n        now =',
        "        now =",
        IN_ORDER,
    ),
    Change(
        "a new receive attempt after a lost answer",
        "oneslot/worker/poller.py",
        "self._attempt_id or self._surroundings.new_id()",
        "self._surroundings.new_id()",
        IN_ORDER,
        guard="The messages of a lost answer come later, at the end of their timeout, and in order. No law says how soon.",
    ),
    Change(
        "a thread never counts as idle again",
        "oneslot/worker/pool.py",
        "                    return  # abandoned in the meantime; another thread has taken its place\n"
        "                self.become_idle()",
        "                    return",
        WORKERS,
    ),
    Change(
        "reserved threads stay reserved after an error",
        "oneslot/worker/poller.py",
        "self._pool.become_idle(reserved - len(received))",
        "self._pool.become_idle(0)",
        WORKERS,
    ),
    Change(
        "a finished job stays in hand",
        "oneslot/worker/acknowledgement.py",
        "            self._in_hand.drop(job)",
        "            pass",
        WORKERS,
    ),
    Change(
        "the worker deletes once and never again",
        "oneslot/runtime/sqs/deletion.py",
        "if not waiting or not backoff.pause():",
        "if True:",
        MILD,
    ),
    Change(
        "no failed message asks for its own wait",
        "oneslot/worker/pool.py",
        "milliseconds = getattr(error, RETRY_AFTER, None)",
        "milliseconds = None",
        LONG,
    ),
    Change(
        "the worker releases no claim when it stops",
        "oneslot/worker/worker.py",
        "        self._release_claims(unfinished)\n",
        "",
        DEPLOYED,
    ),
    Change(
        "the worker shows no message when it stops",
        "oneslot/worker/worker.py",
        "released = self._visibility.release(unfinished)",
        "released = 0",
        DEPLOYED,
    ),
    Change(
        "an abandoned thread is not replaced",
        "oneslot/worker/pool.py",
        "            if not self.stuck:\n                self._add_thread()",
        "            pass",
        HANGING,
    ),
    Change(
        "an abandoned message stays in hand",
        "oneslot/worker/pool.py",
        "            self._in_hand.drop(job)\n            if not self.stuck:",
        "            if not self.stuck:",
        HANGING,
    ),
    Change(
        "the worker deletes a message whose handler returns too late",
        "oneslot/worker/pool.py",
        '            self._log.event("finished_too_late", ',
        '            self._acknowledgement.add(job)\n            self._log.event("finished_too_late", ',
        TAKEN_OVER,
    ),
    Change(
        "the consumer acknowledges a fenced record",
        "oneslot/runtime/consumer/consumer.py",
        "claim.claimed_by, claim.consumption_count\n                raise NotFinished",
        "claim.claimed_by, claim.consumption_count",
        TAKEN_OVER,
    ),
    Change(
        "the poller dies of an error",
        "oneslot/worker/poller.py",
        "except (BotoCoreError, ClientError, OSError) as error:\n                self._log.count(receive_errors=1)",
        "except OSError as error:\n                self._log.count(receive_errors=1)",
        WORKERS,
    ),
    Change(
        "the acknowledgement dies of an error",
        "oneslot/runtime/sqs/deletion.py",
        "(BotoCoreError, ClientError, OSError)",
        "OSError",
        WORKERS,
    ),
    Change(
        "the heartbeat dies of an error",
        "oneslot/worker/visibility.py",
        "(BotoCoreError, ClientError, OSError)",
        "OSError",
        LONG,
    ),
    Change(
        "a late message is begun without an extension",
        "oneslot/worker/poller.py",
        "self._visibility.ensure_hidden(jobs)",
        "jobs",
        MILD,
        guard="Another consumer may have it, and the ledger answers one of the two as busy: a call more, and no effect more.",
    ),
)
"""Each with the scenario that must kill it."""
