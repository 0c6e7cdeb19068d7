"""Fakes and contract suites, for arc's own tests and for those who implement its protocols."""
