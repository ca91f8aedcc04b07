"""What the lab thinks of each breach of the world: the mistake, and what its authors may say."""

from __future__ import annotations

AGAIN = "done work fails when it is repeated"
PARTLY = "a partly refused batch is ignored"
SWALLOWED = "an exception ends in the log"
NEW = "each delivery makes a new identity"
COUNTED = "a counter is added to without a mark"
LATE = "a later write can be overtaken by an earlier one"
FIRST = "only the first record of a batch is read"
MISTAKES = (AGAIN, PARTLY, NEW, SWALLOWED, COUNTED, LATE, FIRST)
YES = "agree"

JUDGED: dict[str, tuple[str, str]] = {
    "apigw-lambda-translate-polly-s3/template.yaml#ApiFunction": (
        SWALLOWED,
        "may be meant: the client reads the error in an answer of 200",
    ),
    "inspector-eventbridge-multi-destinations/template.yaml#WriteToDynamoDBFunction": (SWALLOWED, YES),
    "python-minimal-plugin/template.yaml#PythonMinimalPluginFunction": (SWALLOWED, YES),
    "order/template.yaml#OrderFunction": (NEW, YES),
    "monetization/template.yaml#GenerateReportFunction": (NEW, YES),
    "monetization/template.yaml#CompileReportFunction": (NEW, "may be meant: a file for each run, named by its time"),
    "python-test-samples/apigw-lambda-dynamodb/template.yaml#PythonTestDemo": (
        NEW,
        "may be meant: a log of requests, kept by their time",
    ),
    "apigw-sqs-lambda-iot/template.yaml#iotpublish": (FIRST, YES),
    "queue-based-ingestion/python-sam/template.yaml#SQSMessageProcessorFunction": (LATE, YES),
    "checkout-processing-workflow/template.yaml#PaymentServiceEndpoint": (AGAIN, YES),
    "checkout-processing-workflow/template.yaml#ShippingServiceEndpoint": (AGAIN, YES),
    "human-in-the-loop/template.yaml#HandleApprovalFunction": (
        AGAIN,
        "may be meant: a second click on the mail's link shows an error",
    ),
    "lambda-orchestration-sam/template.yaml#BuySellFunction": (AGAIN, YES),
    "approvals-service/template.yaml#PropertiesApprovalSyncFunction": (AGAIN, YES),
    "payment/template.yaml#OnCompletedFunction": (AGAIN, YES),
    "payment/template.yaml#OnFailedFunction": (AGAIN, YES),
    "delivery/template.yaml#TableUpdateFunction": (PARTLY, YES),
    "orders/template.yaml#TableUpdateFunction": (PARTLY, YES),
    "products/template.yaml#TableUpdateFunction": (PARTLY, YES),
    "warehouse/template.yaml#TableUpdateFunction": (PARTLY, YES),
    "shoppingcart-service.yaml#AddToCartFunction": (
        COUNTED,
        "may be meant: quantities are summed, and a client's retry is not told from a second press",
    ),
    "shoppingcart-service.yaml#CartDBStreamHandler": (COUNTED, YES),
}
"""By the end of the row's key."""


def judged(key: str) -> tuple[str, str]:
    """Return the mistake of a breach, and what its authors may say. Raises `StopIteration` for one that was not read."""
    return next(one for end, one in JUDGED.items() if key.endswith(end))
