"""
Processes, staged files, optional packages, memory, records of runs, and loading models: shared by all task folders.
"""
