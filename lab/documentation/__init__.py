"""The documentation's generated pages, and the site of `make docs`."""
