"""`run`: deploy, seed, send, drain and judge on this machine, and leave nothing running."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import click

from demo.commands.seed import seed_plan
from demo.commands.send import generated, malformed_option
from demo.generator import Mix
from demo.plan import Plan, make_plan
from oneslot.declaration.reading import declared
from oneslot.local.stack import LocalStack, local_stack
from oneslot.operator.commands.audit import audit_history
from oneslot.operator.commands.check import check_target, show
from oneslot.operator.commands.export import export_history
from oneslot.operator.commands.send import send_messages
from oneslot.operator.commands.watch import LOCAL_INTERVAL, follow
from oneslot.operator.evidence.verdict import CheckVerdict
from oneslot.operator.options import COUNT, json_option, local_stack_options
from oneslot.operator.target import Target, home_folder, local_target
from oneslot.operator.terminal import Terminal, table
from oneslot.wording import count_text, numbered, verdict_text

# Few enough practices that patients compete for slots.
REQUESTS_PER_PRACTICE = 100
FEWEST_PRACTICES = 5
# Patients differ in day, channel and service, so some get no slot even at this ratio.
SLOTS_PER_BOOKING = 1.25
DRAIN_TIMEOUT_SECONDS = 900.0


@click.command(short_help="Deploy, seed, send, drain and judge, all on this machine.")
@click.option(
    "--requests", "count", type=COUNT, metavar="N", default=2000, show_default=True, help="Send N different requests."
)
@malformed_option
@click.option("--practice-count", type=COUNT, metavar="N", help="Open slots at N practices.")
@click.option(
    "--seed",
    "seed_number",
    type=int,
    metavar="N",
    default=1,
    show_default=True,
    help="Use this seed: it repeats the same run.",
)
@local_stack_options
@click.option("--audit/--no-audit", default=True, show_default=True, help="End with the Spark audit and its report.")
@json_option
def run(
    *,
    count: int,
    malformed: float,
    practice_count: int | None,
    seed_number: int,
    stage: str,
    context: Sequence[tuple[str, str]],
    audit: bool,
    as_json: bool,
) -> int:
    """Deploy the real template into an embedded AWS, seed, send, drain, check, stop, and audit.

    The evidence stays in the state folder (.oneslot): delivery log, archive of accepted requests, report of the check,
    exported history, and the audit's report as a web page.
    Exit status 0 only if every invariant holds.
    """
    terminal = Terminal(as_json)
    mix = Mix(count, malformed=malformed)
    practices = practice_count or max(FEWEST_PRACTICES, count // REQUESTS_PER_PRACTICE)
    # Few more slots than bookings, so that patients compete for them.
    plan = make_plan(practices, max(practices, round(mix.bookings * SLOTS_PER_BOOKING)), seed_number)
    home = home_folder()
    stages = Stages(terminal)
    with _sigterm_like_ctrl_c(), ExitStack() as running:
        with stages.stage("deploy", "Deploy the template into an embedded AWS"), terminal.working("Deploying"):
            stack = running.enter_context(local_stack(home, progress=terminal.say, stage=stage, context=dict(context)))
        target = local_target(stack.state, home)
        with stages.stage(
            "seed", f"Seed {numbered(plan.slots, 'slot')} at {numbered(len(plan.practices), 'practice')}"
        ):
            start_and_seed(stack, target, plan, terminal)
        with stages.stage(
            "send",
            f"Send {numbered(mix.count, 'request')} in {numbered(mix.messages, 'message')}, consumed as they arrive",
        ):
            messages = generated(target, mix, seed_number)
            with terminal.progress("Sending messages", mix.messages) as progress:
                sent = send_messages(target, messages, progress)
        with stages.stage("drain", "Drain the queue"):
            follow(target, terminal, interval=LOCAL_INTERVAL, timeout=DRAIN_TIMEOUT_SECONDS, drain=True)
        with stages.stage("check", "Check every invariant on the evidence"):
            verdict, unwritten = check_target(target, terminal)
        history, answer = (home / kind / f"{datetime.now(UTC):%Y%m%dT%H%M%S}" for kind in ("history", "audit"))
        if audit:
            with (
                stages.stage("export", "Export tables, delivery log, archive and dead letters"),
                terminal.working("Exporting"),
            ):
                export_history(target, history, terminal.say)
        with stages.stage("stop", "Stop everything"), terminal.working("Stopping"):
            running.close()
    conclusion = None
    if audit:
        with stages.stage("audit", "Audit the history in Spark, request by request"), terminal.working("Auditing"):
            conclusion = audit_history(history, answer)
    document = {
        **verdict.document(),
        "practices": len(plan.practices),
        "slots": plan.slots,
        "messages_accepted": sent.accepted,
        "seconds": {name: round(seconds, 3) for name, _, seconds in stages.done},
        "evidence": str(home),
        "unwritten": unwritten,
        "audit": None if conclusion is None else {"folder": str(answer), **conclusion.document},
    }
    terminal.result(document)
    took = table("Time", "Stage", "Seconds", numbers=(1,))
    for _, what, seconds in stages.done:
        took.add_row(what, f"{seconds:.1f}")
    took.add_section()
    took.add_row("total", f"{stages.seconds:.1f}")
    terminal.show(took)
    terminal.lines(f"Evidence: {target.home}\n")
    show(terminal, target, verdict)
    terminal.warn(unwritten)
    if conclusion is not None:
        terminal.plain()
        terminal.sentence(f"Audit: {conclusion.sentence}", style="bold green" if conclusion.sound else "bold red")
        terminal.warn(differences(verdict, conclusion.document))
    sound = verdict.holds and not unwritten and (conclusion is None or conclusion.sound)
    terminal.lines(f"\n{last_line(verdict, stages, sound=sound)}", style="bold green" if sound else "bold red")
    terminal.plain(f"Report: {answer / 'report.html' if audit else target.report}")
    return 0 if sound else 1


def differences(verdict: CheckVerdict, audited: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each verdict of which check and audit count different numbers of requests."""
    checked, other = verdict.counts.verdicts, audited.get("verdicts")
    if checked is None or other is None:
        return
    for name, count in other.items():
        if count != checked.get(name, 0):
            yield f"Check and audit differ: {verdict_text(name, declared().twice)} {checked.get(name, 0):,} and {count:,}."


def last_line(verdict: CheckVerdict, stages: Stages, *, sound: bool) -> str:
    """Return the result in one line: what was lost, what was booked twice, and what it took."""
    counts = verdict.counts
    said = [
        f"{count_text(counts.lost)} lost",
        f"{count_text(counts.double_booked)} {declared().twice}",
        f"{numbered(counts.requests or 0, 'request')} in {stages.seconds:.0f} s",
    ]
    return " · ".join(said if sound else ["Not sound, see above", *said])


@contextmanager
def _sigterm_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM end what this process started, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass
class Stages:
    """The stages of a run, with their durations: `(name, description, seconds)`."""

    terminal: Terminal
    done: list[tuple[str, str, float]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The duration of all stages together."""
        return sum(seconds for _, _, seconds in self.done)

    @contextmanager
    def stage(self, name: str, what: str) -> Iterator[None]:
        """Announce a stage, and measure it."""
        self.terminal.say(f"== {what}", style="bold")
        started = time.monotonic()
        yield
        seconds = time.monotonic() - started
        self.done.append((name, what, seconds))
        self.terminal.say(f"   {seconds:.1f} s", style="dim")


def start_and_seed(stack: LocalStack, target: Target, plan: Plan, terminal: Terminal) -> None:
    """Seed the slots while the handler's processes start."""
    with ThreadPoolExecutor(1, "start") as executor:
        started = executor.submit(stack.start)
        seed_plan(target, plan, terminal)
        started.result()
