"""The results of load tests as lines, charts and pages, and their comparison."""
