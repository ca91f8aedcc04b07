"""Rights: the roles of services, their exact calls on exact resources, and the reason for each wildcard and each finding.

The `grant_*` methods of CDK are wider (`grant_write_data` allows deletes and batches), so the statements are written here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from aws_cdk import Acknowledgment, Annotations, ArnFormat, Stack, Validations
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct


def accept(construct: IConstruct, findings: dict[str, str]) -> None:
    """Accept findings on a construct and the constructs in it.

    `findings`: the rule's name as the report writes it, e.g. `AwsSolutions-SQS3` → the reason.
    """
    Validations.of(construct).acknowledge(
        *(Acknowledgment(id=f"{rule.partition('-')[0]}::{rule}", reason=why) for rule, why in findings.items())
    )


def accept_wildcards(role: IConstruct, resources: dict[str, str]) -> None:
    """Accept that a role's right covers several resources: the resource as the report writes it → the reason."""
    accept(role, {f"AwsSolutions-IAM5[Resource::{resource}]": why for resource, why in resources.items()})


INLINE = "the rights are this one role's: shared with another they would have to fit both, and so be wider"


def service_role(
    scope: Construct,
    construct_id: str,
    service: str,
    policies: Mapping[str, iam.PolicyDocument],
    *,
    wildcards: Mapping[str, str] | None = None,
    only_this_account: bool = True,
) -> iam.Role:
    """Return a role for `service` (e.g. "glue"), with these named inline policies and no others.

    Args:
        wildcards: a resource of the policies with a wildcard, as the rules' report writes it → the reason.
        only_this_account: let the service assume the role only for this account. The service must name the account, and
            Lambda and Glue do not.
    """
    account = {"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}} if only_this_account else None
    role = iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=account),
        inline_policies=policies,
    )
    accept(role, {"HIPAA.Security-IAMNoInlinePolicy": INLINE})
    accept_wildcards(role, dict(wildcards or {}))
    return role


def document(*statements: iam.PolicyStatement) -> iam.PolicyDocument:
    """Return a policy of these statements."""
    return iam.PolicyDocument(statements=list(statements))


def allow(
    actions: list[str], *resources: str, only: Mapping[str, Mapping[str, str | Sequence[str]]] | None = None
) -> iam.PolicyStatement:
    """Return a statement that allows these actions on these resources, under the conditions `only`."""
    return iam.PolicyStatement(actions=actions, resources=list(resources), conditions=only)


def through(service: str, scope: Construct) -> dict[str, dict[str, str]]:
    """Return the condition that a key is used only through this service, e.g. "s3"."""
    return {"StringEquals": {"kms:ViaService": f"{service}.{Stack.of(scope).region}.amazonaws.com"}}


WRITES = ("Put", "Update")

ACTIONS = {
    "Put": "dynamodb:PutItem",
    "Update": "dynamodb:UpdateItem",
    "Delete": "dynamodb:DeleteItem",
    "Check": "dynamodb:ConditionCheckItem",
}
"""The call behind each word of `Effects`. A transaction needs the rights of its writes, and none of its own."""


@dataclass(frozen=True, kw_only=True)
class TableRights:
    """A table of effects, and the exact actions on it and on its indexes: IAM's, or words of a decision, such as `Check`."""

    table: dynamodb.ITable | dynamodb.ITableV2
    actions: Sequence[str] = WRITES
    indexes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def statements(self) -> list[iam.PolicyStatement]:
        """Return the statements that allow them."""
        arn = self.table.table_arn
        return [
            allow([ACTIONS.get(action, action) for action in self.actions], arn),
            *(allow(list(actions), f"{arn}/index/{index}") for index, actions in self.indexes.items()),
        ]


def title(name: str) -> str:
    """Return the name that decisions use as part of a policy's name: `gift_cards` is `GiftCards`."""
    return "".join(word.capitalize() for word in name.split("_"))


def consumer_rights(
    *,
    ledger: dynamodb.ITable | dynamodb.ITableV2,
    tables: Mapping[str, TableRights],
    queue: sqs.IQueue,
    dead_letter_queue: sqs.IQueue,
    log_group: logs.ILogGroup,
    keys: Iterable[kms.IKey],
    group_commit: bool,
) -> dict[str, iam.PolicyDocument]:
    """Return the named inline policies, one for each resource."""
    of_ledger = ["dynamodb:UpdateItem"]
    if group_commit:  # it looks up a batch's rows, and puts new ones without a claim
        of_ledger += ["dynamodb:BatchGetItem", "dynamodb:PutItem"]
    own = {
        "Requests": document(
            allow(
                [
                    "sqs:ReceiveMessage",
                    "sqs:DeleteMessage",
                    "sqs:GetQueueAttributes",
                    "sqs:ChangeMessageVisibility",
                ],
                queue.queue_arn,
            )
        ),
        "Quarantine": document(allow(["sqs:SendMessage"], dead_letter_queue.queue_arn)),
        # A log group's ARN ends with ":*", its streams: Lambda names those itself.
        "Logs": document(allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn)),
    }
    if used := [use_key(key) for key in keys]:
        own["Key"] = document(*used)
    of_tables = {
        f"{title(name)}Table" if title(name) in own else title(name): document(*rights.statements())
        for name, rights in tables.items()
    }
    return {"Ledger": document(allow(of_ledger, ledger.table_arn)), **of_tables, **own}


def use_key(key: kms.IKey, *services: str) -> iam.PolicyStatement:
    """Allow services to use the key in the function's name, and the function itself nothing: DynamoDB and SQS by default."""
    region = key.env.region
    return iam.PolicyStatement(
        actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
        resources=[key.key_arn],
        conditions={
            "StringEquals": {
                "kms:ViaService": [f"{name}.{region}.amazonaws.com" for name in services or ("dynamodb", "sqs")]
            }
        },
    )


def let_logs_use(key: kms.IKey, scope: Construct) -> None:
    """Let CloudWatch Logs encrypt this account's log groups with the key; `scope` is in their stack."""
    stack = Stack.of(scope)
    groups = stack.format_arn(
        service="logs", resource="log-group", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    statement = iam.PolicyStatement(
        sid="CloudWatchLogs",
        principals=[iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")],
        actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"],
        resources=["*"],
        conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )
    _add(key, statement, scope, "CloudWatch Logs (logs.REGION.amazonaws.com)", "or the log group cannot be created")


def let_alarms_use(key: kms.IKey, scope: Construct) -> None:
    """Let CloudWatch's alarms of this account publish to a topic that the key encrypts."""
    statement = iam.PolicyStatement(
        sid="Alarms",
        principals=[alarm_service(scope)],
        actions=["kms:Decrypt", "kms:GenerateDataKey*"],
        resources=["*"],
    )
    _add(key, statement, scope, "CloudWatch (cloudwatch.amazonaws.com)", "or no alarm reaches the topic")


def alarm_service(scope: Construct) -> iam.ServicePrincipal:
    """Return CloudWatch as the principal of this account's alarms."""
    account = {"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}}
    return iam.ServicePrincipal("cloudwatch.amazonaws.com", conditions=account)


def _add(key: kms.IKey, statement: iam.PolicyStatement, scope: Construct, service: str, otherwise: str) -> None:
    """Add the statement to the key's policy. CDK drops one that is there already, and cannot change an imported key's."""
    if not key.add_to_resource_policy(statement).statement_added:
        Annotations.of(scope).add_warning_v2(
            f"oneslot:{statement.sid}",
            f"{key.node.path} is an imported key, whose policy cannot be changed here. Let {service} use it, {otherwise}: "
            "`oneslot docs construct` has the actions.",
        )
