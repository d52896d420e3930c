"""Nodes become `QuerySpec`s: inputs, steps, outputs, and the tests of single rows."""
