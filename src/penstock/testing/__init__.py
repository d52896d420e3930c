"""Tests for connectors of your own: the contract that every built-in sink is tested against."""
