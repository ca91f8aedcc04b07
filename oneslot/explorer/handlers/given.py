"""What a user, a template or a scan gives of a handler and its surroundings: the options of `explore`."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from oneslot.explorer.handlers.laws import Law
from oneslot.runtime.sqs.queue import QUEUE_VISIBILITY_SECONDS, USUAL_RECEIVES

USUAL_COPIES = 2


@dataclass(frozen=True)
class Given:
    """The options of `explore`, by the names that its users and a scenario file give them.

    `explore(**given)` takes those that differ from their defaults.

    Attributes:
        handler: "app.handler", below `path`.
        messages: bodies, or records of SQS.
        event: one whole event of any shape, such as the input of a task of Step Functions, in place of messages.
        tables: the tables of DynamoDB: {"orders": "order_id"}, {"orders": ("customer", "order_id")} or ["orders:order_id"].
        law: a function of the end, or several; without one, the end must be as if each message was delivered once.
        ignore: "table.attribute" of counters that may differ.
        env: environment variables, set before the import.
        answers: answers of operations without a stand-in: {"athena.start_query_execution": {...}}, or functions of
            the parameters.
        rows: the rows that exist before, by table, in plain values.
        objects: the objects that exist before, by bucket and key.
        parameters, secrets: values of Systems Manager's parameters and of secrets, by name.
        path: the folder of the handler; a list if it has layers.
        batch: the most messages of a delivery; what fails is delivered again one by one.
        reports_failures: whether the mapping has ReportBatchItemFailures. Without it Lambda ignores what is returned.
        bisects: whether Lambda bisects a stream's batch after an error. Else, and if it reads no reported failures, the
            batch is delivered again as a whole.
        copies, faults: the deliveries of each message, and the most faults of a schedule.
        budget: seconds for all levels.
        timeout, visibility: the function's timeout and the queue's visibility timeout, in seconds.
        receives: the deliveries without a fault that must be enough, as the queue's maxReceiveCount.
        fifo: whether the queue is FIFO: the messages of a group come one at a time and in their order, and an acknowledged
            one never comes again.
        queue: the name of the queue. What the handler sends to it is delivered, too.
        acknowledges_only_finished: also require that no invocation acknowledges whose last call failed.
        answers_equal: also require that each delivery is answered as a single one is, apart from generated values.
    """

    handler: str
    messages: Sequence[Any] = ()
    event: Any = None
    tables: Any = ()
    law: Law | Sequence[Law] | None = None
    ignore: Collection[str] = ()
    env: Mapping[str, str] | None = None
    answers: Mapping[str, Any] | None = None
    rows: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    objects: Mapping[str, Mapping[str, bytes | str]] | None = None
    parameters: Mapping[str, Any] | None = None
    secrets: Mapping[str, Any] | None = None
    path: str | Path | Sequence[str | Path] = "."
    batch: int = 1
    reports_failures: bool = True
    bisects: bool = False
    copies: int = USUAL_COPIES
    faults: int = 1
    budget: float = 60
    timeout: int = 30
    visibility: int = QUEUE_VISIBILITY_SECONDS
    receives: int = USUAL_RECEIVES
    fifo: bool = False
    queue: str = ""
    acknowledges_only_finished: bool = False
    answers_equal: bool = False

    @property
    def folders(self) -> list[Path]:
        """The folders of `path`."""
        return [Path(one) for one in ([self.path] if isinstance(self.path, str | Path) else self.path)]

    def keys(self) -> Iterator[str]:
        """Yield the names whose values are not their defaults."""
        return (one.name for one in fields(self) if one.default is MISSING or self[one.name] != one.default)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


GIVEN = {one.name for one in fields(Given)} - {"handler"}
"""The names that a scenario file may define."""
