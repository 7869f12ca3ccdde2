"""What several machines are made of: arrays, pipelines, stepped arrays."""
