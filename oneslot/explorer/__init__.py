"""Bounded schedule exploration: run a real handler through every schedule and injected fault within a budget.

Start with `explorer.py`. A `Scenario` says what is delivered and how much may go wrong, and an `ExploredSubject` is the
code under test with its `Laws`. `faults.py` lists what may become of an API call. `execution/` runs the code and stops it
at every call, and `services/` stands in for DynamoDB and SQS.
"""
