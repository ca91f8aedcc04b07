"""What another stack knows of the appointments stack: its outputs, by name, as the command line knows them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from aws_cdk import Fn, Stack

TABLE_OUTPUTS = {"ledger": "LedgerTableName", "slots": "SlotsTableName", "appointments": "AppointmentsTableName"}
"""The outputs with the tables' names, by what the tables hold."""

QUEUE_OUTPUTS = tuple(f"{queue}{what}" for queue in ("Queue", "DeadLetterQueue") for what in ("Url", "Arn", "Name"))
"""The outputs that name a queue."""


def to_be_read(output: str, *, fifo: bool) -> str:
    """The name under which the other stacks read an output: that of a FIFO queue under a second one, e.g. `FifoQueueArn`.

    A queue of another kind is another queue, and its name is read only when a stack is deployed. CDK's command line passes
    over a stack whose template is what it was, so the template has to say which kind is meant.
    """
    return f"Fifo{output}" if fifo and output in QUEUE_OUTPUTS else output


@dataclass(frozen=True)
class Deployed:
    """The appointments stack, seen from `stack` in the same account and region; `fifo` is the kind of its queues.

    Reading outputs exports nothing: the appointments template is the same whether or not another stack looks at it, and
    may change without asking the others first.
    """

    stack: Stack
    name: str
    fifo: bool

    def output(self, output: str) -> str:
        """The value of one output."""
        return Fn.get_stack_output(self.name, to_be_read(output, fifo=self.fifo))

    @property
    def queue_name(self) -> str:
        """The request queue's name."""
        return self.output("QueueName")

    @property
    def dead_letter_queue_name(self) -> str:
        """The dead-letter queue's name."""
        return self.output("DeadLetterQueueName")

    def table_names(self) -> dict[str, str]:
        """The tables' names by what they hold."""
        return {folder: self.output(output) for folder, output in TABLE_OUTPUTS.items()}

    def table_arns(self) -> dict[str, str]:
        """The tables' ARNs by what they hold."""
        return {
            folder: self.stack.format_arn(service="dynamodb", resource="table", resource_name=name)
            for folder, name in self.table_names().items()
        }

    def table_arn_in_report(self, output: str) -> str:
        """How the rules' report writes the ARN of the table that this output names."""
        reference = {"Fn::GetStackOutput": {"StackName": self.name, "OutputName": output}}
        name = json.dumps(reference, separators=(",", ":"))
        return f"arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/{name}"
