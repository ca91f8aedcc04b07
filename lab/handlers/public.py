"""The public handlers, with the messages, tables and variables that their own templates give them.

No file of a public repository is kept here: a run takes a folder with its clones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lab.handlers.subjects import Subject

SAMPLES, PATTERNS = "aws-samples/", "aws-samples/serverless-patterns"
PATTERNS_AT = "fb7b5d06c27d8abb1bd35e52ab7523acf4baab7b"
TEXTRACT = "textract-pipeline/lambda/"
GRAPHQL = "https://api.example/graphql"
PAGE: Mapping[str, Any] = {
    "Blocks": [
        {"BlockType": kind, "Id": kind, "Text": "one", "Confidence": 99.0, "Geometry": geometry, "Relationships": below}
        for geometry in [
            {
                "BoundingBox": {"Width": 0.5, "Height": 0.5, "Left": 0.1, "Top": 0.1},
                "Polygon": [{"X": 0.1, "Y": 0.1}, {"X": 0.6, "Y": 0.6}],
            }
        ]
        for kind, below in [("PAGE", [{"Type": "CHILD", "Ids": ["LINE"]}]), ("LINE", [])]
    ]
}
"""Textract's answer for a page with one line."""
FEEDBACK: Mapping[str, Any] = {
    "eventID": "e-1",
    "eventName": "INSERT",
    "eventSource": "aws:dynamodb",
    "dynamodb": {
        "SequenceNumber": "1",
        "NewImage": {
            "date": {"S": "2026-11-20"},
            "source_platform": {"S": "web"},
            "category": {"S": "delivery"},
            "sentiment_label": {"S": "negative"},
            "sentiment_score": {"N": "-0.5"},
            "urgency": {"S": "high"},
            "persona_name": {"S": "Ada"},
        },
    },
}
"""A record of a DynamoDB stream."""


def queue(name: str) -> str:
    """Return the URL of a queue."""
    return f"https://sqs.eu-west-2.amazonaws.com/000000000000/{name}"


def pattern(folder: str, handler: str, **options: Any) -> Subject:
    """Return a handler of the collection of serverless patterns."""
    return Subject(folder.partition("/")[0], handler, (folder,), options, PATTERNS, PATTERNS_AT)


PUBLIC = (
    Subject(
        "amazon-sqs-best-practices-cdk",
        "SQSToDynamoDBFunction.lambda_handler",
        ("sqs_blog/lambda",),
        {
            "messages": [{"product_id": "p-1", "location": "London", "quantity": 3, "update_date": "2026-11-20"}],
            "tables": {"inventory": "id"},
            "env": {"DYNAMODB_TABLE_NAME": "inventory"},
            "visibility": 300,
        },
        f"{SAMPLES}amazon-sqs-best-practices-cdk",
        "54143c7efd610b2345964951403bbde628f54ba0",
    ),
    Subject(
        "aws-serverless-shopping-cart, delete_from_cart",
        "delete_from_cart.lambda_handler",
        ("backend/shopping-cart-service",),
        {
            "messages": [{"pk": "user#1", "sk": "product#1"}],
            "tables": {"cart": ("pk", "sk")},
            "rows": {"cart": [{"pk": "user#1", "sk": "product#1", "quantity": 2}]},
            "env": {"TABLE_NAME": "cart"},
        },
        f"{SAMPLES}aws-serverless-shopping-cart",
        "66a863f1b7a2a7f319adddce6a55e090ce9f6734",
    ),
    Subject(
        "powertools-lambda-python, idempotency with batch",
        "integrate_idempotency_with_batch_processor.lambda_handler",
        ("examples/idempotency/src",),
        {"messages": ["hello"], "tables": {"idempotency": "id"}, "env": {"IDEMPOTENCY_TABLE": "idempotency"}},
        "aws-powertools/powertools-lambda-python",
        "fa1c29f2d497a7c233f06eb69d0f7ee1b187a9e4",
    ),
    Subject(
        "amazon-textract-serverless, syncprocessor",
        "lambda_function.lambda_handler",
        (f"{TEXTRACT}syncprocessor", f"{TEXTRACT}helper/python", f"{TEXTRACT}textractor/python"),
        {
            "messages": [{"documentId": "d", "bucketName": "scans", "objectName": "d.png", "features": ["Text"]}],
            "tables": {"outputs": ("documentId", "outputType"), "documents": "documentId"},
            "rows": {"documents": [{"documentId": "d", "documentStatus": "IN_PROGRESS"}]},
            "objects": {"scans": {}},
            "answers": {"textract.detect_document_text": PAGE},
            "env": {"OUTPUT_TABLE": "outputs", "DOCUMENTS_TABLE": "documents"},
        },
        f"{SAMPLES}amazon-textract-serverless-large-scale-document-processing",
        "1338f862f01d3f234c73ad3c04ebf1ed593679e9",
    ),
    Subject(
        "accelerated-intelligent-document-processing 0.3.4, queue_processor",
        "index.handler",
        ("src/lambda/queue_processor", "lib/idp_common_pkg"),
        {
            "messages": [{"input_bucket": "scans", "input_key": "d.pdf", "output_bucket": "texts", "status": "QUEUED"}],
            "tables": {"concurrency": "counter_id"},
            "rows": {"concurrency": [{"counter_id": "workflow_counter", "active_count": 0}]},
            "answers": {
                f"POST {GRAPHQL}": {"status": 200, "body": {"data": {"updateDocument": {"ObjectKey": "d.pdf"}}}}
            },
            "env": {
                "CONCURRENCY_TABLE": "concurrency",
                "STATE_MACHINE_ARN": "arn:aws:states:eu-west-2:000000000000:stateMachine:documents",
                "APPSYNC_API_URL": GRAPHQL,
            },
        },
        "aws-solutions-library-samples/accelerated-intelligent-document-processing-on-aws",
        "53a65443873b53cb1682cd1761be10cc80534455",
    ),
    Subject(
        "sample-voice-of-customer-datalake, aggregator",
        "aggregator.handler.lambda_handler",
        ("voc-datalake/lambda",),
        {
            "messages": [{"Records": [FEEDBACK]}],
            "tables": {"aggregates": ("pk", "sk")},
            "env": {"AGGREGATES_TABLE": "aggregates", "POWERTOOLS_METRICS_NAMESPACE": "feedback"},
        },
        f"{SAMPLES}sample-voice-of-customer-datalake",
        "a7a976b0b04e91086e659bb570f9c98d324e63c2",
    ),
    pattern(
        "apigw-sqs-lambda-ddb-cdk/lambda/sqs-handler",
        "index.lambda_handler",
        messages=[{"eventId": "e-1", "text": "hello"}],
        tables={"events": "eventId"},
        env={"dynamo_db_name": "events"},
    ),
    pattern(
        "sqs-lambda-dynamodb-cdk/lambda_fns",
        "insertRecord.handler",
        messages=[json.dumps({"records": [{"PutRequest": {"Item": {"id": {"S": "r-1"}}}}]})],
        tables={"records": "id"},
    ),
    pattern(
        "cdk-s3-sqs-lambda-dynamodb/lambda",
        "index.lambda_handler",
        messages=[json.dumps({"Records": [{"s3": {"bucket": {"name": "uploads"}, "object": {"key": "staff.csv"}}}]})],
        tables={"employeeInfoNew": "email"},
        objects={"uploads": {"staff.csv": "name,email\nAda,ada@example.org\nBob,bob@example.org\n"}},
        visibility=300,
    ),
    pattern(
        "sqs-fifo-delayed-queue-dynamodb/lambda",
        "process_message.handler",
        messages=[{"body": "hello", "attributes": {"MessageGroupId": "customer-1"}}],
        tables={"customers": "customer_id"},
        env={"TABLE_NAME": "customers", "QUEUE_URL": queue("downstream.fifo")},
        visibility=60,
    ),
    pattern(
        "apigw-http-api-fifo-sqs-lambda-sns-sam/src",
        "app.lambda_handler",
        messages=[{"order": "o-1"}],
        env={"TOPIC_ARN": "arn:aws:sns:eu-west-2:000000000000:orders"},
    ),
)
