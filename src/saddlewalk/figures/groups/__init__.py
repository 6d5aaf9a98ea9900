"""Figures of Sequential Group Composition."""
