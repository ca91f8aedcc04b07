"""Tables and variables of an explored handler: from a CloudFormation template, or by hand."""

from oneslot.explorer.handlers.templates.tables import table
from oneslot.explorer.handlers.templates.template import from_template

__all__ = ["from_template", "table"]
