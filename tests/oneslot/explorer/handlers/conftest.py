"""The fixture of the wheel's pytest plugin, for environments that were installed before the plugin was."""

from __future__ import annotations

from oneslot.explorer.pytest_plugin import explore

__all__ = ["explore"]
