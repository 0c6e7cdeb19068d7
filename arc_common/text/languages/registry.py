"""Which rules apply to a sentence: by its script, because a chat changes language from one line to the next."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from arc_common.text.languages import chinese_japanese, english, english_signals, korean, korean_signals
from arc_common.text.languages.signal import Hinted, Signal

__all__ = ["CHINESE_JAPANESE", "ENGLISH", "KOREAN", "Rules", "rules_for"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What arc knows of one language.

    Args:
        signals: What a user's clause may state.
        assistant: What an assistant's clause may state.
        lead_ins: What a sentence may begin with and lose nothing without.
        question: Matches a sentence that asks.
        request: Matches a question that asks for something to be done.
        task: Matches a request that states nothing: for information, for a text.
        asking: Matches the beginning of a clause that asks.
        seeking: Matches a clause that looks for something: a question with or without its mark, a request.
        tag: Matches a question that only asks to agree with what is stated.
        given: Matches where a question ends and the reason for it begins.
        reported: Matches a question that somebody tells of, from the verb of asking to the word that asks.
        supposition: Matches a sentence of what is only imagined.
        condition: Matches a clause that says in which case a question is asked.
        chit_chat: Matches courtesies and comments on the conversation itself.
        joiner: Matches the words in front of which a long clause may be divided.
    """

    signals: Sequence[Signal]
    assistant: Sequence[Signal]
    lead_ins: re.Pattern[str]
    question: re.Pattern[str]
    request: re.Pattern[str]
    task: re.Pattern[str]
    asking: re.Pattern[str]
    seeking: re.Pattern[str]
    tag: re.Pattern[str]
    given: re.Pattern[str]
    reported: re.Pattern[str] | Hinted
    supposition: re.Pattern[str] | Hinted
    condition: re.Pattern[str]
    chit_chat: re.Pattern[str]
    joiner: re.Pattern[str]


ENGLISH = Rules(
    signals=english_signals.SIGNALS,
    assistant=english_signals.ASSISTANT,
    lead_ins=english.LEAD_INS,
    question=english.QUESTION,
    request=english.REQUEST,
    task=english.TASK,
    asking=english.ASKING,
    seeking=english.SEEKING,
    tag=english.TAG,
    given=english.GIVEN,
    reported=english.REPORTED,
    supposition=english.SUPPOSITION,
    condition=english.CONDITION,
    chit_chat=english.CHIT_CHAT,
    joiner=english.JOINER,
)
KOREAN = Rules(
    signals=korean_signals.SIGNALS,
    assistant=korean_signals.ASSISTANT,
    lead_ins=korean.LEAD_INS,
    question=korean.QUESTION,
    request=korean.REQUEST,
    task=korean.TASK,
    asking=korean.ASKING,
    seeking=korean.SEEKING,
    tag=korean.TAG,
    given=korean.GIVEN,
    reported=korean.REPORTED,
    supposition=korean.SUPPOSITION,
    condition=korean.CONDITION,
    chit_chat=korean.CHIT_CHAT,
    joiner=korean.JOINER,
)
CHINESE_JAPANESE = Rules(
    signals=chinese_japanese.SIGNALS,
    assistant=chinese_japanese.ASSISTANT,
    lead_ins=chinese_japanese.LEAD_INS,
    question=chinese_japanese.QUESTION,
    request=chinese_japanese.REQUEST,
    task=chinese_japanese.TASK,
    asking=chinese_japanese.ASKING,
    seeking=chinese_japanese.SEEKING,
    tag=chinese_japanese.TAG,
    given=chinese_japanese.GIVEN,
    reported=chinese_japanese.REPORTED,
    supposition=chinese_japanese.SUPPOSITION,
    condition=chinese_japanese.CONDITION,
    chit_chat=chinese_japanese.CHIT_CHAT,
    joiner=chinese_japanese.JOINER,
)

_HANGUL = re.compile(r"[가-힣]")
_HAN_OR_KANA = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


def rules_for(sentence: str) -> Rules:
    """The rules of the language that a sentence is most likely in; English where the script doesn't tell."""
    hangul = len(_HANGUL.findall(sentence))
    other = len(_HAN_OR_KANA.findall(sentence))
    if hangul and hangul >= other:
        return KOREAN
    return CHINESE_JAPANESE if other else ENGLISH
