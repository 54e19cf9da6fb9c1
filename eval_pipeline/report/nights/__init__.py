"""The parts of a suite's page: the newest night, the strip, the trends, the matrix, the runs.

trends  How metrics went from night to night.
"""
