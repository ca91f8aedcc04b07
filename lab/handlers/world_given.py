"""What the lab gives to handlers of the world that the scan cannot guess: events, rows, objects, answers, variables.

Each event is the shortest that reaches a write.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

Given = Mapping[str, Any]


def pdf() -> bytes:
    """Return a PDF of one page without text."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
    ]
    text, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(b"%010d 00000 n \n" % len(text))
        text += b"%d 0 obj%sendobj\n" % (number, one)
    table = b"xref\n0 4\n0000000000 65535 f \n" + b"".join(places)
    return text + table + b"trailer<</Size 4/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(text)


def bus(source: str, detail_type: str, detail: Given, *resources: str) -> dict[str, Any]:
    """Return an event of EventBridge."""
    return {"id": "e-1", "source": source, "detail-type": detail_type, "detail": detail, "resources": list(resources)}


def changed(name: str, keys: Given, new: Given, old: Given | None = None) -> dict[str, Any]:
    """Return a record of a DynamoDB stream."""
    images = {"Keys": keys, "NewImage": {**keys, **new}, "SequenceNumber": "1"}
    images |= {} if old is None else {"OldImage": {**keys, **old}}
    return {"Records": [{"eventID": "s-1", "eventName": name, "eventSource": "aws:dynamodb", "dynamodb": images}]}


def posted(body: Any, **others: Any) -> dict[str, Any]:
    """Return a request of API Gateway, version 1."""
    text = body if isinstance(body, str) else json.dumps(body)
    context = {"requestId": "r-1", **others.pop("requestContext", {})}
    return {"httpMethod": "POST", "path": "/", "headers": {}, "body": text, "requestContext": context, **others}


PATTERNS, SAMPLES = "aws-samples/serverless-patterns/", "aws-samples/serverless-samples/"
WORKFLOWS = "aws-samples/step-functions-workflows-collection/"
UNICORNS = "aws-samples/aws-serverless-developer-experience-workshop-python/"
SHOP, CARTS = "aws-samples/aws-serverless-ecommerce-platform/", "aws-samples/aws-serverless-shopping-cart/backend/"
FORGET = "awslabs/amazon-s3-find-and-forget/"
PUSH = json.dumps({"action": "opened"})
SIGNATURE = "sha256=" + hmac.new(b"secret", PUSH.encode(), hashlib.sha256).hexdigest()

GIVEN: Mapping[str, Given] = {
    f"{PATTERNS}eventbridge-webhooks/2-github/template.yaml#WebhookFunction": {
        "event": {
            "version": "2.0",
            "requestContext": {"http": {"method": "POST"}},
            "isBase64Encoded": False,
            "headers": {
                "content-type": "application/json",
                "x-github-event": "issues",
                "x-hub-signature-256": SIGNATURE,
            },
            "body": PUSH,
        },
        "answers": {
            "secretsmanager.describe_secret": {"VersionIdsToStages": {"1" * 32: ["AWSCURRENT"]}},
            "secretsmanager.get_secret_value": {"SecretString": "secret"},
        },
    },
    f"{SAMPLES}owasp-api-security-controls-demo/owasp-api-security-controls-demo/order/template.yaml#OrderFunction": {
        "event": posted(
            {"order_id": "o-1", "item": "tea", "amount": 3},
            path="/placeOrder",
            resource="/placeOrder",
            requestContext={"authorizer": {"claims": {"sub": "ada", "cognito:username": "ada"}}},
        ),
        "env": {
            "VPCE_DNS_NAME": "pay.example",
            "PAYMENTS_API_DNS_NAME": "pay.example",
            "API_STAGE": "prod",
            "DDB_VPCE_DNS_NAME": "rows.example",
        },
        "answers": {
            "POST https://pay.example/prod/makePayment": {"status": 200, "body": {"status": "PAID"}},
            "sts.assume_role": {
                "Credentials": {"AccessKeyId": "1" * 16, "SecretAccessKey": "2", "SessionToken": "3", "Expiration": 0}
            },
        },
    },
    f"{SAMPLES}queue-based-ingestion/python-sam/template.yaml#SQSMessageProcessorFunction": {
        "answers": {
            "lambda.invoke": {
                "StatusCode": 200,
                "Payload": b'{"body": {"jobStatus": "Done", "jobPayloadLocation": "b", "jobPayloadKey": "k"}}',
            }
        }
    },
    "aws-samples/serverless-test-samples/workshops/serverless-testing-workshop/template.yaml#CheckoutFunction": {
        "event": posted("unicorn=u-1&reserved_for=Ada"),
        "env": {"DYNAMODB_TABLE_NAME": "unicorns"},
        "tables": {"unicorns": "PK"},
        "rows": {"unicorns": [{"PK": "u-1", "STATUS": "AVAILABLE"}]},
    },
    f"{WORKFLOWS}distributed-map-montecarlo/template.yaml#CalculatorFunction": {
        "event": {"Key": "run/in.csv"},
        "env": {"DATA_BUCKET": "runs"},
        "objects": {"runs": {"run/in.csv": ",0,1\n0,2,3\n"}},
    },
    f"{WORKFLOWS}s3-sfn-lambda-bedrock/template.yaml#IngestPDFFunction": {
        "event": bus("aws.s3", "Object Created", {"bucket": {"name": "texts"}, "object": {"key": "in/a.pdf"}}),
        "objects": {"texts": {"in/a.pdf": pdf()}},
    },
    f"{WORKFLOWS}s3-sfn-lambda-bedrock/template.yaml#SummarizeTextFileFunction": {
        "event": {"SourceKey": "in/a.txt", "Bucket": "texts"},
        "objects": {"texts": {"in/a.txt": "one"}},
        "answers": {"bedrock-runtime.invoke_model": {"body": b'{"content": [{"text": "short"}]}'}},
    },
    f"{UNICORNS}unicorn_approvals/infrastructure/approvals-service/template.yaml#PropertiesApprovalSyncFunction": {
        "event": changed(
            "MODIFY",
            {"property_id": {"S": "p-1"}},
            {"contract_status": {"S": "APPROVED"}, "sfn_wait_approved_task_token": {"S": "t-1"}},
        )
    },
    f"{SHOP}warehouse/template.yaml#OnOrderEventsFunction": {
        "event": bus(
            "ecommerce.orders",
            "OrderCreated",
            {
                "orderId": "o-1",
                "modifiedDate": "2026-01-05",
                "status": "NEW",
                "products": [{"productId": "p-1", "quantity": 1}],
            },
            "o-1",
        )
    },
    f"{CARTS}shoppingcart-service.yaml#CartDBStreamHandler": {
        "event": changed("INSERT", {"pk": {"S": "user#ada"}, "sk": {"S": "product#p-1"}}, {"quantity": {"N": "2"}})
    },
    f"{FORGET}templates/api.yaml#EnqueueDeletion": {
        "event": posted(
            {"MatchId": "ada", "Type": "Simple", "DataMappers": []},
            requestContext={"authorizer": {"claims": {"sub": "ada", "cognito:username": "ada"}}},
        ),
        "tables": {"deletionqueuetablename": "DeletionQueueItemId"},
    },
    f"{FORGET}templates/stream_processor.yaml#StreamProcessor": {
        "event": changed(
            "INSERT",
            {"Id": {"S": "j-1"}, "Sk": {"S": "j-1"}},
            {
                "Type": {"S": "Job"},
                **{
                    name: {"N": "1"}
                    for name in (
                        "AthenaConcurrencyLimit",
                        "AthenaQueryMaxRetries",
                        "DeletionTasksMaxNumber",
                        "ForgetQueueWaitSeconds",
                        "QueryExecutionWaitSeconds",
                        "QueryQueueWaitSeconds",
                    )
                },
            },
        ),
    },
    f"{PATTERNS}serverless-message-processing/template.yaml#DecisionMaker": {
        "messages": [{"payload": {"email": "ada@example.com$"}}]
    },
}
"""By repository, template and function."""
