"""Long conversations with planted facts, for everything that must not lose facts."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from arc_common.messages import Message, Role

DATA = Path(__file__).parent / "data"

FACT_SETS = (
    "facts_support_household_medical",
    "facts_travel_work_finance",
    "facts_school_hobby_family",
    "facts_oblique",
    "facts_unforeseen",
)
"""Sets of 60 facts in English and Korean. The first three were written before the rules. "oblique" avoids the usual
words and was used to extend the rules. Of "unforeseen", the rules found 36 of the first 44 facts before a last
extension; the present rules find 14 of the other 16.
"""

FIRST_SIGHT_SETS = ("facts_first_sight_home", "facts_first_sight_work", "facts_first_sight_wedding")
"""Sets by an author who knew neither rules nor sets; the assistant states 18 of the 60 facts. At first, rules alone put
44 of each into a prompt, when hardly anything said by an assistant was a fact; now that its statements about the user's
own affairs are facts, they put 49, 48 and 50.
"""

_LEAD_INS = {
    "en": ("", "", "", "By the way: ", "Oh, and before I forget: ", "One more thing: "),
    "ko": ("", "", "", "참, ", "그리고 ", "아 맞다, "),
}


@dataclass(frozen=True, slots=True)
class PlantedFact:
    """A fact as stated, the part that must survive (`value`), and a question that it answers."""

    role: Literal["user", "assistant"]
    language: Literal["en", "ko"]
    kind: str
    text: str
    value: str
    question: str


def load_facts(name: str) -> list[PlantedFact]:
    """Load one of `FACT_SETS`."""
    return [PlantedFact(**row) for row in json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))]


def build_conversation(
    facts: Sequence[PlantedFact], *, language_mix: float = 0.4, seed: int = 0, messages: int = 120
) -> list[Message]:
    """Return alternating user and assistant messages in which each fact is stated once, amid small talk.

    - Messages have on average at least about 60 tokens; ids are `m0`, `m1`, ….
    - A fact is in a message of its own role. A few messages state two facts, some none, and the last ten none.
    - The share `language_mix` of the messages without a fact is Korean; the others are in their fact's language.
    - The same arguments give the same conversation.
    """
    rng = random.Random(seed)
    small_talk = json.loads((DATA / "filler.json").read_text(encoding="utf-8"))
    planted: dict[int, list[PlantedFact]] = {}
    for role, offset in ((Role.USER, 0), (Role.ASSISTANT, 1)):
        of_role = [fact for fact in facts if fact.role == role]
        rng.shuffle(of_role)
        places = list(range(offset, messages - 10, 2))
        rng.shuffle(places)
        for i, fact in enumerate(of_role):
            planted.setdefault(places[i % len(places)], []).append(fact)
    decks: dict[str, list[str]] = {}
    conversation = []
    for i in range(messages):
        role = (Role.USER, Role.ASSISTANT)[i % 2]
        said = planted.get(i, [])
        language = said[0].language if said else ("ko" if rng.random() < language_mix else "en")
        name = f"{role}_{language}"
        sentences = []
        for _ in range(2 if name == "user_ko" else 3):
            if not decks.get(name):
                decks[name] = rng.sample(small_talk[name], len(small_talk[name]))
            sentences.append(decks[name].pop())
        for fact in said:
            lead_in = rng.choice(_LEAD_INS[fact.language])
            sentences.insert(rng.randint(0, len(sentences)), lead_in + fact.text)
        conversation.append(Message(role, " ".join(sentences), id=f"m{i}"))
    return conversation
