"""Tables and variables of an explored handler: from a CloudFormation template, or by hand."""

from oneslot.explorer.handlers.templates.template import from_template, table

__all__ = ["from_template", "table"]
