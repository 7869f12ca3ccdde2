"""The tests mirror the modules of the package."""
