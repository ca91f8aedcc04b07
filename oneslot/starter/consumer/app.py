"""The Lambda handler. It reads the variables that the construct in stack.py sets."""

from oneslot import consumer_from_environment, typed

from decision import Change, take

handler = consumer_from_environment(take, typed(Change))
