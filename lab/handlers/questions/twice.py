"""SQS message processed twice by Lambda: add a payment to an account."""

import json

import boto3

client = boto3.client("dynamodb")


def handler(event, context):
    for record in event["Records"]:
        payment = json.loads(record["body"])
        client.update_item(
            TableName="accounts",
            Key={"id": {"S": payment["account"]}},
            UpdateExpression="ADD pence :pence",
            ExpressionAttributeValues={":pence": {"N": str(payment["pence"])}},
        )


def fixed(event, context):
    for record in event["Records"]:
        payment = json.loads(record["body"])
        new = {
            "TableName": "payments",
            "Item": {"id": {"S": payment["id"]}},
            "ConditionExpression": "attribute_not_exists(id)",
        }
        add = {
            "TableName": "accounts",
            "Key": {"id": {"S": payment["account"]}},
            "UpdateExpression": "ADD pence :pence",
            "ExpressionAttributeValues": {":pence": {"N": str(payment["pence"])}},
        }
        try:
            client.transact_write_items(TransactItems=[{"Put": new}, {"Update": add}])
        except client.exceptions.TransactionCanceledException as error:
            if error.response["CancellationReasons"][0]["Code"] != "ConditionalCheckFailed":
                raise  # a conflict or a throttle: SQS delivers again
