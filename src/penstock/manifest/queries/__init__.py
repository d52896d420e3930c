"""Builds `QuerySpec`s from nodes: inputs, steps, outputs, and row rules."""
