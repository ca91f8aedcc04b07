"""The appointments stack as the other stacks see it: its outputs, by name."""

import json
from dataclasses import dataclass

from aws_cdk import Fn, Stack

TABLE_OUTPUTS = {"ledger": "LedgerTableName", "slots": "SlotsTableName", "appointments": "AppointmentsTableName"}
"""The outputs with the tables' names, by what the tables hold."""


def output_name(output: str, *, fifo: bool) -> str:
    """Return the name under which other stacks read an output; a FIFO queue has a second one, e.g. `FifoQueueArn`.

    A queue of another kind is another queue, and other stacks read its name only when they are deployed. CDK's command
    line skips a stack whose template did not change, so the template must name the kind.
    """
    return f"Fifo{output}" if fifo and "Queue" in output else output


@dataclass(frozen=True)
class Deployed:
    """The appointments stack, seen from `stack` in the same account and region; `fifo` is the kind of its queues.

    Reading an output exports nothing, so the appointments template does not depend on its readers.
    """

    stack: Stack
    name: str
    fifo: bool

    def output(self, output: str) -> str:
        """Return the value of one output."""
        return Fn.get_stack_output(self.name, output_name(output, fifo=self.fifo))

    def table_names(self) -> dict[str, str]:
        """Return the tables' names by what they hold."""
        return {folder: self.output(output) for folder, output in TABLE_OUTPUTS.items()}

    def table_arns(self) -> dict[str, str]:
        """Return the tables' ARNs by what they hold."""
        return {
            folder: self.stack.format_arn(service="dynamodb", resource="table", resource_name=name)
            for folder, name in self.table_names().items()
        }

    def table_arn_in_report(self, output: str) -> str:
        """Return the ARN of the table that this output names, as the rules' report writes it."""
        reference = {"Fn::GetStackOutput": {"StackName": self.name, "OutputName": output}}
        name = json.dumps(reference, separators=(",", ":"))
        return f"arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/{name}"
