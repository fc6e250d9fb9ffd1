"""Exports of a run into the formats of others; imports whatever a report may import."""
