"""What of a message is its speaker's own: no code, quotations, texts to be worked on, and nothing to be forgotten."""

import re

from arc_common.text.languages import english, korean
from arc_common.text.sentences import sentence_spans

__all__ = ["own_words", "without_forgotten", "without_quoted"]

_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTATION = re.compile(
    r"(?P<said>\b(?:says?|said|told \w{1,12}|wrote|writes|texted|announced|reads?)[,:]?\s)?"
    r"(?<![\w\"])[“\"](?=\S)[^\"“”\n]{60,2000}(?<=\S)[”\"](?!\w)"
)
"""A long text in quotation marks is somebody else's (a title is short), unless it is told that they said it."""

_ONESELF = r"(?=(?:I|I['’](?:m|ve|d|ll)|My|We|Our)\s[a-z]|(?:저|제|나|내|난|전|우리|저희)(?:[는가도의]|\s))"
_QUOTED = re.compile(
    rf"(?<!\w)(?:[“\"]{_ONESELF}[^\"“”\n]{{3,400}}[”\"]|「{_ONESELF}[^「」\n]{{3,400}}」|『{_ONESELF}[^『』\n]{{3,400}}』"
    rf"|['‘]{_ONESELF}[^\n]{{3,300}}?['’](?=[\s.,!?;:)]|[가-힣]|$))"
)
"""A sentence in quotation marks in which somebody speaks of themselves; titles have capitals ("I Will Survive")."""

_QUOTES = {'"': '"', "“": "”", "‘": "’", "'": "'", "「": "」", "『": "』"}
_MAY_FORGET = re.compile(
    r"forget|unlearn|remember|memor|notes|records|delete|erase|remove|discard|stor|sav|잊|까먹|지워|없애|삭제|기억|빼",
    re.IGNORECASE,
)


def own_words(text: str) -> str:
    """A text without what its writer does not state in their own name; line breaks stand in the place of that.

    Code, long quotations, a text that is given to be worked on ("Translate: …"), what is to be forgotten. Linear in the
    text.
    """
    text = _QUOTATION.sub(_unless_said, _CODE_BLOCK.sub("\n", text))
    return without_forgotten(_without_tasks(text))


def without_quoted(text: str) -> str:
    """A text without what somebody says of themselves in quotation marks."""
    return _QUOTED.sub("\n", text)


def without_forgotten(text: str) -> str:
    """A text without the requests to forget something, each with what is to be forgotten; else as it stands.

    What is stated behind it stays: "forget that I live in Seoul, I live in Busan now".
    """
    if not _MAY_FORGET.search(text):
        return text
    kept, rest = [], 0
    for start, end in sentence_spans(text):
        sentence = text[start:end]
        if (stated := _stated_instead(sentence)) is not None:
            kept += [text[rest:start], stated]
            rest = end
    return "".join([*kept, text[rest:]])


def _stated_instead(sentence: str) -> str | None:
    """What is stated behind a request to forget; `None` if nothing is to be forgotten."""
    if request := english.FORGET.match(sentence):
        instead = english.SAID_INSTEAD.search(sentence, request.end())
    elif request := korean.FORGET.search(sentence):
        instead = korean.SAID_INSTEAD.match(sentence, request.end())
    else:
        return None
    return sentence[instead.end() :] if instead else ""


def _without_tasks(text: str) -> str:
    """A text without those that are given to be worked on: in their quotation marks, else to the next empty line."""
    for pattern in (english.TEXT_TASK, korean.TEXT_TASK):
        kept, rest = [], 0
        for task in pattern.finditer(text):
            if task.end() < rest:
                continue
            closing = _QUOTES.get(text[task.end() : task.end() + 1])
            end = text.find(closing, task.end() + 1) + 1 if closing else text.find("\n\n", task.end())
            kept += [text[rest : task.end()], "\n"]
            rest = end if end > 0 else len(text)
        text = "".join([*kept, text[rest:]])
    return korean.TEXT_IN_TASK.sub("\n", text)


def _unless_said(quotation: re.Match[str]) -> str:
    return quotation.group() if quotation["said"] else "\n"
