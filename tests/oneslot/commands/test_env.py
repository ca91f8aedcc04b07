"""`oneslot env`: the variables with which the AWS CLI and boto3 reach a stack."""

from __future__ import annotations

from tests.kits.moto_stack import MotoStack, document, invoke


def test_env_exports_what_botocore_reads_when_the_stack_is_local(moto_stack: MotoStack) -> None:
    state = moto_stack.target.local
    assert state is not None
    exported = document(invoke("env", "--json"))
    assert exported["AWS_ENDPOINT_URL"] == exported["ENDPOINT_URL"] == state.endpoint_url
    assert exported["AWS_ACCESS_KEY_ID"] == state.access_key_id
    assert exported["AWS_DEFAULT_REGION"] == state.region
