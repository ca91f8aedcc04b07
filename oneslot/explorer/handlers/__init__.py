"""The explorer for any handler: an unmodified `lambda_handler` through every schedule and fault within a budget.

Start with `exploration.py`. `aws.py` stands below boto3, `surroundings/` below time, ids and random numbers.
`process.py` runs the code, and `laws.py` judges what it leaves.
"""
