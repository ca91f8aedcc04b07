"""The CDK stack: queue, dead-letter queue, ledger, function, tables and alarms. cdk.json names this file."""

from pathlib import Path

from oneslot.cdk import ExactlyOnceConsumer, new_table  # first: it chooses the Node.js that CDK starts

from aws_cdk import App, Stack  # isort: skip
from constructs import Construct  # isort: skip


class OrdersStack(Stack):
    """The consumer of orders, and the tables that it writes."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        consumer = ExactlyOnceConsumer(
            self,
            "Consumer",
            entry=Path(__file__).with_name("consumer"),
            handler="app.handler",
            tables={"orders": new_table(self, "Table", "id"), "stock": new_table(self, "Stock", "article")},
        )
        consumer.add_alarms()
        consumer.add_outputs()  # by which `oneslot` finds it


app = App()
OrdersStack(app, "Orders")
app.synth()
