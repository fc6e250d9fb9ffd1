"""A run in the formats of others: logs, data sets, results, tables."""
