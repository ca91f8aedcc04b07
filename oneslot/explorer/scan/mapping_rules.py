"""The rules of an event source mapping, which need no exploration: each with AWS's page that states it."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from oneslot.explorer.handlers.templates.intrinsics import Resolver
from oneslot.explorer.handlers.templates.sources import ASYNCHRONOUS, FIFO, QUEUES, STREAMS, FunctionSource, references
from oneslot.explorer.handlers.templates.template import DEFAULT_SECONDS, redrive_policy
from oneslot.runtime.sqs.queue import FEWEST_RECEIVES

LAMBDA = "https://docs.aws.amazon.com/lambda/latest/dg"
QUEUE_PAGE = f"{LAMBDA}/services-sqs-configure.html"
FAILURES_PAGE = f"{LAMBDA}/services-sqs-errorhandling.html"
STREAM_PAGE = f"{LAMBDA}/services-ddb-create-mapping.html"
ASYNCHRONOUS_PAGE = f"{LAMBDA}/invocation-async-retain-records.html"
SCALING_PAGE = f"{LAMBDA}/services-sqs-scaling.html"
FIFO_PAGE = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html"

DEFAULT_BATCH = {True: 10, False: 100}
"""Lambda's batch size where the mapping names none: for queues, and for streams."""
MOST_AT_ONCE = 10
"""The messages that SQS gives at once."""
RETENTION_S = 345_600
"""SQS keeps a message four days where the queue names no other time."""
TIMEOUTS = 6
LEAST_SECONDS = 0.5
"""The seconds that a message should have. Lambda's defaults, ten messages in 3 s, leave 0.3."""

Severity = Literal["error", "warning"]
RULES: Mapping[str, tuple[Severity, str]] = {
    "visibility-below-timeout": ("error", QUEUE_PAGE),
    "visibility-below-six-timeouts": ("warning", QUEUE_PAGE),
    "no-dead-letter-queue": ("error", QUEUE_PAGE),
    "too-few-receives": ("warning", QUEUE_PAGE),
    "failures-not-reported": ("error", FAILURES_PAGE),
    "batch-too-large-for-timeout": ("warning", QUEUE_PAGE),
    "queue-not-in-template": ("warning", QUEUE_PAGE),
    "source-is-its-own-target": ("error", FIFO_PAGE),
    "dead-letter-queue-of-another-type": ("error", FIFO_PAGE),
    "dead-letters-expire": ("warning", FIFO_PAGE),
    "dead-letters-of-the-function": ("warning", ASYNCHRONOUS_PAGE),
    "batch-above-ten": ("error", QUEUE_PAGE),
    "concurrency-above-reserved": ("warning", SCALING_PAGE),
    "reads-from-latest": ("warning", STREAM_PAGE),
    "order-broken-by-dead-letters": ("warning", FIFO_PAGE),
    "group-blocked-by-a-message": ("warning", FIFO_PAGE),
    "shard-blocked-by-a-record": ("error", STREAM_PAGE),
    "no-failure-destination": ("warning", ASYNCHRONOUS_PAGE),
}
"""Each rule with its severity, and AWS's page that states it; a stream's mapping has a page of its own."""


@dataclass(frozen=True)
class Finding:
    """A rule that a mapping breaks. An "error" is refused by AWS, or repeats or loses messages in daily use."""

    rule: str
    severity: Severity
    function: str
    source: str
    sentence: str
    page: str


@dataclass(frozen=True)
class _Mapping:
    """A mapping with its values resolved; None is a value that the template does not give."""

    resolver: Resolver
    source: FunctionSource
    function: Mapping[str, Any]

    def number(self, node: Any) -> float | None:
        """Return the number that a node has; None if it has none."""
        try:
            return float(self.resolver.known(node))
        except (TypeError, ValueError):
            return None

    def of_mapping(self, name: str, otherwise: Any = None) -> Any:
        return self.resolver.known(self.source.settings.get(name, otherwise))

    @property
    def timeout(self) -> float | None:
        return self.number(self.function.get("Timeout", DEFAULT_SECONDS["timeout"]))

    @property
    def visibility(self) -> float | None:
        if self.source.resource is None:
            return None
        return self.number(self.source.resource.get("VisibilityTimeout", DEFAULT_SECONDS["visibility"]))

    @property
    def batch(self) -> float | None:
        return self.number(self.of_mapping("BatchSize", DEFAULT_BATCH[self.source.kind in QUEUES]))

    @property
    def window(self) -> float:
        return self.number(self.of_mapping("MaximumBatchingWindowInSeconds", 0)) or 0


def may_batch(resolver: Resolver, source: FunctionSource) -> bool:
    """Return whether the source's mapping may deliver more than one record; a size that the template lacks may be any."""
    if source.kind not in (*QUEUES, *STREAMS):
        return False
    size = _Mapping(resolver, source, {}).batch
    return size is None or size > 1


def _visibility(one: _Mapping) -> Iterator[tuple[str, str]]:
    timeout, visibility = one.timeout, one.visibility
    if timeout is None or visibility is None:
        return
    wanted = TIMEOUTS * timeout + one.window
    if visibility < timeout:
        text = f"The visibility timeout, {visibility:g} s, is below the function's timeout, {timeout:g} s."
        yield "visibility-below-timeout", f"{text} Lambda refuses it, as cfn-lint says too. Set it to {wanted:g} s."
    elif visibility < wanted and "MaximumConcurrency" not in (one.of_mapping("ScalingConfig") or {}):
        text = (
            f"The visibility timeout, {visibility:g} s, is below six times the function's timeout"
            f"{' and the batching window' if one.window else ''}. A throttled batch comes back before its retries end. "
            f"Set it to {wanted:g} s."
        )
        yield "visibility-below-six-timeouts", text


def _dead_letters(one: _Mapping) -> Iterator[tuple[str, str]]:
    """Check the dead-letter queue. A FIFO queue may go without one, to keep its groups' order; either has its price."""
    if one.source.resource is None:
        text = "Its queue is not in the template, so its visibility timeout and its dead-letter queue are not checked."
        yield "queue-not-in-template", f"{text} Check them where it is declared."
        return
    if "RedrivePolicy" not in one.source.resource:
        if one.source.kind == FIFO:
            text = "Without a dead-letter queue a message that always fails blocks its group until it expires, and is lost."
            yield "group-blocked-by-a-message", f"{text} Add a RedrivePolicy if order may break there."
        else:
            text = "The queue has no dead-letter queue: a message that always fails is retried until it expires, and is lost."
            yield "no-dead-letter-queue", f"{text} Add a RedrivePolicy."
        return
    if one.source.kind == FIFO:
        text = "A dead-letter queue takes a failed message out of its group's order; the next one goes on without it."
        yield "order-broken-by-dead-letters", f"{text} Keep it only if order may break there."
    policy = redrive_policy(one.source.resource["RedrivePolicy"])
    receives = one.number(policy.get("maxReceiveCount"))
    if receives is not None and receives < FEWEST_RECEIVES:
        text = f"maxReceiveCount is {receives:g}: throttles alone can send a good message to the dead-letter queue."
        yield "too-few-receives", f"{text} Set it to {FEWEST_RECEIVES} or more."
    targets = references(policy.get("deadLetterTargetArn"))
    if one.source.name in targets:
        yield "source-is-its-own-target", "The queue is its own dead-letter queue. Name another one."
    held = [one.resolver.resources[name].get("Properties", {}) for name in targets & one.resolver.resources.keys()]
    if one.source.name not in targets and held:
        yield from _dead_letter_queue(one, held[0])
    if "DeadLetterConfig" in one.function or "DeadLetterQueue" in one.function:
        text = (
            "The function's own dead-letter queue is for asynchronous invocations: a queue's messages never get there."
        )
        yield "dead-letters-of-the-function", f"{text} The queue's RedrivePolicy keeps them; remove it."


def _dead_letter_queue(one: _Mapping, held: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if (str(held.get("FifoQueue")).lower() == "true") != (one.source.kind == FIFO):
        text = (
            "A FIFO queue needs a FIFO dead-letter queue, and a standard queue a standard one. SQS refuses the policy."
        )
        yield "dead-letter-queue-of-another-type", f"{text} Change FifoQueue of the dead-letter queue."
    kept, queued = (
        one.number(given.get("MessageRetentionPeriod", RETENTION_S)) for given in (held, one.source.resource or {})
    )
    if one.source.kind != FIFO and kept is not None and queued is not None and kept <= queued:
        text = f"A dead letter keeps the time at which it was sent, and expires {kept:g} s after it, maybe at once."
        yield "dead-letters-expire", f"{text} Set MessageRetentionPeriod above the queue's, {queued:g} s."


def _failures(one: _Mapping) -> Iterator[tuple[str, str]]:
    is_split = one.of_mapping("FunctionResponseTypes") or one.of_mapping("BisectBatchOnFunctionError")
    if (one.batch or 0) > 1 and not is_split:
        text = f"One failed message returns the whole batch of {one.batch:g}, so the others are processed again."
        ids = {FIFO: "the failed message and all after it"}.get(one.source.kind, "the failed messages")
        ids = "the lowest failed sequence number" if one.source.kind in STREAMS else ids
        yield "failures-not-reported", f"{text} Add FunctionResponseTypes: [ReportBatchItemFailures], and return {ids}."


def _batch(one: _Mapping) -> Iterator[tuple[str, str]]:
    timeout, batch = one.timeout, one.batch
    if batch and batch > MOST_AT_ONCE and (one.source.kind == FIFO or one.window < 1):
        remedy = "Lower BatchSize" if one.source.kind == FIFO else "Set MaximumBatchingWindowInSeconds to 1 or more"
        yield "batch-above-ten", f"Lambda refuses a BatchSize of {batch:g}, above {MOST_AT_ONCE}, here. {remedy}."
    if timeout and batch and timeout / batch < LEAST_SECONDS:
        text = f"{batch:g} messages share {timeout:g} s, {1000 * timeout / batch:.0f} ms each. A timeout returns all of them."
        remedy = "Lower BatchSize or raise Timeout; the bound of 500 ms is Oneslot's own."
        yield "batch-too-large-for-timeout", f"{text} {remedy}"


def _concurrency(one: _Mapping) -> Iterator[tuple[str, str]]:
    most = one.number((one.of_mapping("ScalingConfig") or {}).get("MaximumConcurrency"))
    reserved = one.number(one.function.get("ReservedConcurrentExecutions"))
    if most is not None and reserved is not None and most > reserved:
        text = f"MaximumConcurrency, {most:g}, is above the function's reserved concurrency, {reserved:g}: Lambda throttles."
        yield "concurrency-above-reserved", f"{text} Lower it, or reserve as much."


def _stream(one: _Mapping) -> Iterator[tuple[str, str]]:
    bounds = [one.of_mapping(name, -1) for name in ("MaximumRetryAttempts", "MaximumRecordAgeInSeconds")]
    if {*map(one.number, bounds)} == {-1}:
        text = "A record that always fails blocks its shard until it expires."
        remedy = "Set MaximumRetryAttempts, BisectBatchOnFunctionError and an on-failure destination."
        yield "shard-blocked-by-a-record", f"{text} {remedy}"
    elif not one.of_mapping("DestinationConfig"):
        text = "A record that fails too often is dropped, and nothing keeps it. Add an on-failure destination."
        yield "no-failure-destination", text
    if one.of_mapping("StartingPosition") == "LATEST":
        text = "With LATEST a new or changed mapping may miss records: Lambda begins to read some minutes later."
        yield "reads-from-latest", f"{text} Set StartingPosition to TRIM_HORIZON or AT_TIMESTAMP."


def _asynchronous(one: _Mapping) -> Iterator[tuple[str, str]]:
    """Check where a failed event goes. The queue of a topic or a rule keeps only what Lambda did not accept."""
    has_destination = "OnFailure" in json.dumps(one.function.get("EventInvokeConfig"))
    if not has_destination and not any(name in one.function for name in ("DeadLetterConfig", "DeadLetterQueue")):
        text = "After its retries Lambda drops the event, and nothing keeps it. Add an on-failure destination."
        yield "no-failure-destination", text


_CHECKS: Mapping[str, tuple[Callable[[_Mapping], Iterator[tuple[str, str]]], ...]] = {
    **dict.fromkeys(QUEUES, (_visibility, _dead_letters, _failures, _batch, _concurrency)),
    **dict.fromkeys(STREAMS, (_stream, _failures)),
    **dict.fromkeys(ASYNCHRONOUS, (_asynchronous,)),
}


def findings(resolver: Resolver, name: str, function: Mapping[str, Any], source: FunctionSource) -> list[Finding]:
    """Return the rules that a source of a function breaks. `function`: its properties, over the template's Globals."""
    one, is_stream = _Mapping(resolver, source, function), source.kind in STREAMS
    return [
        Finding(rule, severity, name, source.title, sentence, STREAM_PAGE if is_stream else page)
        for check in _CHECKS.get(source.kind, ())
        for rule, sentence in check(one)
        for severity, page in [RULES[rule]]
    ]
