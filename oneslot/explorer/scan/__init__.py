"""All functions of a template through the explorer, and their event source mappings through a list of rules."""
