"""The languages: the signals, question forms and words of each."""
