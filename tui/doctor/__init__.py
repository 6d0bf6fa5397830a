"""Findings about hosts, and the smoke test."""
