"""Programs as graphs of primitives, whoever wrote them, and the way from there to a workload."""
