"""Whether a message looks for something: a question with or without its mark, a request, or what somebody forgot.

Told by form alone, and in favour of looking: who asks and is taken for one who only states gets less back, while the
other way round a few tokens are spent. What is written in a script that arc has no rules for counts as looking.
"""

import re

from arc_common.memory.rules.languages import rules_for
from arc_common.text.sentences import clauses_of, sentences_of

__all__ = ["seeks"]

_MARK = re.compile(r"\?(?!\w)|[？؟]")
_LATIN = re.compile(
    r"(?<!\w)(?:¿|qué|quién(?:es)?|cuál(?:es)?|cuándo|dónde|cómo|cuánt[oa]s?|dime|recuérdame|qual|quais|quem|quando|onde"
    r"|quant[oaie]s?|diga|lembre|quel(?:le)?s?|qui|où|combien|pourquoi|est-ce|qu['’]est|dis-moi|rappelle|wer|wie|wo|wann"
    r"|warum|welche[rsnm]?|wieviel|wessen|sag\smir|erinner\w{1,3}|bitte|chi|dove|perché|quale|quali|dimmi|ricordami"
    r"|wanneer|waar|welke|hoeveel|nerede|kimin|kaç|siapa|berapa|kapan|mana)(?!\w)",
    re.IGNORECASE,
)
_CYRILLIC = re.compile(
    r"(?<!\w)(?:кто|кого|что|чей|где|куда|когда|как|как(?:ой|ая|ое|ие|ую)|сколько|почему|напомни\w*|скажи\w*|подскажи\w*"
    r"|покажи\w*|найди\w*|забыл\w*|пожалуйста|хто|де|коли|скільки)(?!\w)",
    re.IGNORECASE,
)
_CYRILLIC_LETTER = re.compile(r"[\u0400-\u04ff]")
_UNKNOWN_LETTER = re.compile(r"(?![\u3040-\u30ff\u3400-\u9fff가-힣])[^\W\d_\u0000-\u024f\u0400-\u04ff\u1e00-\u1eff]")


def seeks(text: str) -> bool:
    """Whether any sentence of a text asks or requests something. Linear in the text."""
    return any(map(_seeks, sentences_of(text)))


def _seeks(sentence: str) -> bool:
    if _MARK.search(sentence) or _UNKNOWN_LETTER.search(sentence) or _LATIN.search(sentence):
        return True
    if _CYRILLIC_LETTER.search(sentence):
        return _CYRILLIC.search(sentence) is not None
    seeking = rules_for(sentence).seeking
    return any(seeking.search(sentence[start:end]) for start, end in clauses_of(sentence))
