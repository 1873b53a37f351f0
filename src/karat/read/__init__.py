"""Bytes and objects → model; every error has its place."""
