"""A seeded fault campaign over the real commands: `make campaign`, or `python -m tests.campaign --help`."""
