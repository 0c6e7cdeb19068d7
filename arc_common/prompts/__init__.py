"""The text that arc writes into prompts: a constant for each task, and the functions that render and parse it.

Text from users, tools and documents is data: it is put between markers that it can't contain, and is never read as a
template.
"""
