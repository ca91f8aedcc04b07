"""A deployed stack, local or on AWS: its names, its clients, and the folder of its evidence."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoRegionError

from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import declared, find_declaration
from oneslot.errors import InvalidRetention, NoLocalStack, StackNotFound, WrongConsumer
from oneslot.laws.schema import LEDGER_ATTRIBUTES
from oneslot.local.aws.connection import Connection
from oneslot.local.state import LocalState, read_state
from oneslot.runtime.surroundings import Surroundings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_lambda.client import LambdaClient
    from mypy_boto3_logs.client import CloudWatchLogsClient
    from mypy_boto3_sqs.client import SQSClient

HOME_VARIABLE = "ONESLOT_HOME"
DELIVERY_LOG_VARIABLE = "ONESLOT_DELIVERY_LOG"  # the local stack's, for a worker
ARCHIVE_FILE = "accepted.jsonl"
PLAN_FILE = "seeded.json"
REPORT_FILE = "check.json"
RETENTION_VARIABLE = "ONESLOT_LEDGER_RETENTION_SECONDS"
FORGOTTEN_VARIABLE = "LEDGER_FORGOTTEN_BEFORE"
CONTENT_BASED_VARIABLE = "CONTENT_BASED_DEDUPLICATION"
FOREVER = "forever"
"""The value of `ONESLOT_LEDGER_RETENTION_SECONDS` for rows that never expire."""


@dataclass(frozen=True)
class Outputs:
    """The stack's CloudFormation outputs, which are named like these fields, in capitals: `QueueUrl`.

    `tables` has the name of each table of the consumer, by the name that its declaration uses. Only a stack with `sends`
    has the relay's log group.
    """

    queue_url: str
    dead_letter_queue_url: str
    ledger_table_name: str
    consumer_function_name: str
    consumer_log_group_name: str
    event_source_mapping_id: str
    tables: Mapping[str, str] = field(default_factory=dict)
    relay_log_group_name: str = ""

    @classmethod
    def of(cls, stack_name: str, outputs: Mapping[str, str], declaration: Declaration) -> Outputs:
        """Pick the outputs that are needed. Raises `OneslotError` that names the missing ones."""
        names = {name: declaration.output(name.title().replace("_", "")) for name in STACK_OUTPUTS}
        tables = {name: table.output for name, table in declaration.schema.tables.items()}
        missing = [output for output in (*names.values(), *tables.values()) if output not in outputs]
        if missing:
            raise WrongConsumer(
                f"The stack {stack_name} has no output {', '.join(missing)}, so its consumer is not {declaration.name}. "
                f"Name a stack of it, e.g. {declaration.stack}, or another consumer with --consumer."
            )
        found = {name: outputs[output] for name, output in names.items()}
        relay = outputs.get(declaration.output("RelayLogGroupName"), "")
        return cls(
            **found, tables={name: outputs[output] for name, output in tables.items()}, relay_log_group_name=relay
        )

    def variables(self) -> dict[str, str]:
        """Return each output by its name in capitals: `QUEUE_URL`."""
        tables = {f"{name}_table_name": table for name, table in self.tables.items()}
        named = {name: str(getattr(self, name)) for name in (*STACK_OUTPUTS, RELAY_LOG)}
        return {name.upper(): value for name, value in {**named, **tables}.items() if value}


RELAY_LOG = "relay_log_group_name"
STACK_OUTPUTS = tuple(name for name in Outputs.__dataclass_fields__ if name not in ("tables", RELAY_LOG))


@dataclass(frozen=True)
class Target:
    """A stack to work with. Each client is created once, at its first use.

    Attributes:
        identity: distinguishes this stack from others, also from an earlier local one of the same name.
        home: the folder of the archive, the plan, the last report and the operator log.
        local: the state of the local run; None on AWS.
        clients: makes the clients; None for the account on AWS that the default credentials name.
        surroundings: clock, sleep, ids and synced writes of everything that works with this stack.
        declaration: its consumer.
    """

    stack_name: str
    identity: str
    outputs: Outputs
    home: Path
    local: LocalState | None = None
    clients: Connection | None = None
    surroundings: Surroundings = field(default_factory=Surroundings)
    declaration: Declaration = field(default_factory=declared)

    def command(self, verb: str) -> str:
        """Return the command line of a verb for this stack: `oneslot dlq list --stack Oneslot-prod`."""
        return format_command(verb, None if self.local else self.stack_name)

    @property
    def tables(self) -> dict[str, tuple[str, Sequence[str]]]:
        """The ledger and the consumer's tables: the name of each in DynamoDB, and the attributes that tools read."""
        schema = self.declaration.schema.tables
        own = {name: (self.outputs.tables[name], table.attributes) for name, table in schema.items()}
        return {"ledger": (self.outputs.ledger_table_name, LEDGER_ATTRIBUTES), **own}

    @property
    def archive(self) -> Path:
        """The archive of accepted requests."""
        return self.home / ARCHIVE_FILE

    @property
    def plan(self) -> Path:
        """The plan of the slots that were seeded last."""
        return self.home / PLAN_FILE

    @property
    def report(self) -> Path:
        """The last check's report."""
        return self.home / REPORT_FILE

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        """The DynamoDB client."""
        return self.clients.dynamodb() if self.clients else boto3.client("dynamodb", config=_config())

    @cached_property
    def sqs(self) -> SQSClient:
        """The SQS client."""
        return self.clients.sqs() if self.clients else boto3.client("sqs", config=_config())

    @cached_property
    def functions(self) -> LambdaClient:
        """The Lambda client."""
        return self.clients.functions() if self.clients else boto3.client("lambda", config=_config())

    def function_configuration(self) -> Mapping[str, Any]:
        """Ask for the configuration of the consumer's function, as GetFunctionConfiguration answers it."""
        about: Any = self.functions.get_function_configuration(FunctionName=self.outputs.consumer_function_name)
        return cast("Mapping[str, Any]", about)

    def function_variables(self) -> Mapping[str, str]:
        """Ask for the environment variables of the consumer's function."""
        variables: Mapping[str, str] = self.function_configuration().get("Environment", {}).get("Variables", {})
        return variables

    def variable(self, name: str) -> str:
        """Ask for one environment variable of the consumer's function; empty without it."""
        return self.function_variables().get(name, "")

    @cached_property
    def logs(self) -> CloudWatchLogsClient:
        """The CloudWatch Logs client; only for a stack on AWS: the local delivery log is a file."""
        return boto3.client("logs", config=_config())


def ledger_retention_seconds(target: Target) -> int | None:
    """Return the seconds for which the consumer keeps a ledger row; None for ever. Raises `OneslotError` without a setting."""
    text = target.variable(RETENTION_VARIABLE)
    if text == FOREVER:
        return None
    if not text.isdecimal():
        raise InvalidRetention(
            f"The function {target.outputs.consumer_function_name} has no {RETENTION_VARIABLE}. "
            "Name a stack whose consumer is Oneslot's."
        )
    return int(text)


def ledger_forgotten_before(target: Target, now_ms: int) -> int:
    """Return the epoch ms before which the ledger kept its rows for a shorter time than now; 0 if it always kept them so.

    Raises `OneslotError` for a setting that is not a time, or a time in the future.
    """
    text = target.variable(FORGOTTEN_VARIABLE)
    if not text:
        return 0
    try:
        before = datetime.fromisoformat(text)
    except ValueError:
        before = None
    if before is None or before.tzinfo is None:
        raise InvalidRetention(
            f"The consumer's {FORGOTTEN_VARIABLE} is {text}, which is not a time such as 2026-11-23T14:00:00Z. "
            "Deploy with a valid ledger_forgotten_before."
        )
    moment = round(before.timestamp() * 1000)
    if moment > now_ms:
        raise InvalidRetention(
            f"The consumer's {FORGOTTEN_VARIABLE} is {text}, which is in the future, so no missing row would be reported. "
            "Deploy with the time at which the longer retention began (ledger_forgotten_before)."
        )
    return moment


def is_content_based(target: Target) -> bool:
    """Return whether the consumer identifies messages without an id by their content; False if AWS refuses the answer."""
    try:
        return target.variable(CONTENT_BASED_VARIABLE) == "true"
    except ClientError:
        return False


def format_command(verb: str, stack: str | None) -> str:
    """Return the command line of a verb for the stack of this name on AWS, or for the local one (None)."""
    return f"oneslot {verb}" if stack is None else f"oneslot {verb} --stack {stack}"


def home_folder() -> Path:
    """Return the state folder: `ONESLOT_HOME`, else `.oneslot` beside the declaration, else in the current directory."""
    if override := os.environ.get(HOME_VARIABLE):
        return Path(override)
    declaration = find_declaration()
    return (declaration.folder if declaration else Path.cwd()) / ".oneslot"


def open_target(stack: str | None) -> Target:
    """Return the running local stack (None) or the stack of this name on AWS. Raises `OneslotError` if there is none."""
    if stack is not None:
        return aws_target(stack)
    home = home_folder()
    state = read_state(home)
    if state is None:
        raise NoLocalStack(
            "No local stack is running. Start one with `oneslot up`, or name one on AWS with "
            f"`--stack {declared().stack}`."
        )
    return local_target(state, home)


def local_target(state: LocalState, home: Path) -> Target:
    """Return the target that a local run's state describes."""
    # The start time of its process is part of the identity: the next local stack may get the same port.
    identity = f"{state.endpoint_url} {state.supervisor_pid} {state.supervisor_start}"
    declaration = declared()
    outputs = Outputs.of(state.stack_name, state.outputs, declaration)
    return Target(state.stack_name, identity, outputs, home, state, state.connection, declaration=declaration)


def aws_target(stack: str) -> Target:
    """Return the stack of this name on AWS, by the default credentials. Raises `BadInput` if there is none."""
    description = _describe(stack)
    outputs = {output["OutputKey"]: output["OutputValue"] for output in description.get("Outputs", [])}
    home = home_folder() / "stacks" / description["StackName"]
    declaration = declared()
    found = Outputs.of(stack, outputs, declaration)
    return Target(description["StackName"], description["StackId"], found, home, declaration=declaration)


def _describe(stack: str) -> Any:
    try:
        cloudformation = boto3.client("cloudformation", config=_config())
    except ValueError as error:
        if isinstance(error, BotoCoreError):
            raise
        raise NoRegionError from error  # AWS_DEFAULT_REGION is set and empty
    try:
        return cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            region = cloudformation.meta.region_name
            raise StackNotFound(
                f"There is no stack {stack!r} in {region}. Check its name, and AWS_PROFILE and AWS_DEFAULT_REGION."
            ) from error
        raise
    finally:
        cloudformation.close()


def _config() -> Config:
    return Config(retries={"mode": "standard", "total_max_attempts": 6}, max_pool_connections=32)
