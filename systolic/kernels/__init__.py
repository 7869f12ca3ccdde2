"""Cycle loops on plain arrays, compiled by Numba, and their plain twins.

Imports numpy, numba, llvmlite and the standard library only.
"""
