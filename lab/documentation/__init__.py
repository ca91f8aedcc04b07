"""The documentation's generated pages, its pictures, and the site of `make docs`."""
