"""An example: the worker as a Fargate service, beside the Lambda function or instead of it."""
