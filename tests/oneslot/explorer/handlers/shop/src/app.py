"""An order's consumer, as its template deploys it."""

import json
import os
from typing import Any

import boto3
from shared import key_of  # type: ignore[import-not-found]

table = boto3.resource("dynamodb").Table(os.environ["TABLE"])


def handler(event: Any, context: Any) -> dict[str, Any]:
    prefix = boto3.client("ssm").get_parameter(Name="/shop/prefix")["Parameter"]["Value"]
    for record in event["Records"]:
        order = json.loads(record["body"])["order"]
        table.put_item(Item={"id": key_of(prefix, order), "customer": "c-1"})
    return {"batchItemFailures": []}
