"""All that runs in a Lambda function or a worker: the ledger's protocol, and an SQS consumer over it.

It knows nothing of appointments, of CDK, or of the command line. Start reading with `stores/dynamodb.py`.
"""
