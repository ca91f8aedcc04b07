"""The Lambda function's code, and the pinned packages in it."""
