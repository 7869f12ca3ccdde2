"""One run: machines put together into a report."""
