"""The two packs of rules that every stack is held to."""

from aws_cdk import App, CfnElement, Stack, Validations
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks, HIPAASecurityChecks


def add_rules(app: App) -> None:
    """Refuse to synthesise `app` if a stack breaks an AWS Solutions or a HIPAA Security rule."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), HIPAASecurityChecks(app))


def objects_in_report(bucket: s3.Bucket, path: str) -> str:
    """Return the ARN of objects in a bucket as the report writes it."""
    resource = bucket.node.default_child
    if not isinstance(resource, CfnElement):
        raise TypeError("a bucket's default child is its CloudFormation resource")
    return f"<{Stack.of(bucket).get_logical_id(resource)}.Arn>/{path}"
