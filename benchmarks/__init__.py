"""Side by side with what users would run instead: `python -m benchmarks.<name>` from the repository's root."""
