"""An example: the worker as a Fargate service beside, or instead of, the Lambda function."""
