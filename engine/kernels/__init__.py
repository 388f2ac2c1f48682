"""Triton kernels of the decode step on CUDA, one operation a file: reference, kernel, launcher.

A row of a result is a function of that row's inputs: every launch works in tiles of ROWS rows and
one order of its sums, whatever the number of rows. Utterances so never hear their company.
"""
