"""Measure precision, recall and waste of recalled memories in 200 generated cases of the form of PrecisionMemBench.

    python benchmarks/precision.py [--misses]

A case is a user with a dozen beliefs about different topics, a query, and the beliefs that it should recall. Beliefs
are added with `memories.add`, each case for a user of its own, and looked for in the recalled section of a whole
request (`session.context`), as a memory, a fact or a message. There is no embedder. The beliefs were written by hand in
English, German, Korean and Chinese; a fixed seed chooses the topics of a case. Queries are questions and statements by
halves.

- "precision": the share of recalled beliefs that should be, over all cases.
- "precision: recall": the share of beliefs that should be recalled that are.
- "precision: waste": the share of the section's tokens that belong to beliefs that should not be recalled.
"""

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from arc_common import ContextEngine

_CASES = 200
_OTHERS = 10

# For each topic: its beliefs, and a question and a statement to which all of them are relevant.
_ENGLISH: Mapping[str, tuple[Sequence[str], str, str]] = {
    "piano": (
        ["Nora takes piano lessons on Tuesdays.", "The piano teacher is Mr. Albrecht."],
        "Who teaches Nora the piano, and when are the lessons?",
        "The piano lessons have to be moved this week.",
    ),
    "bread": (
        ["The sourdough starter is fed every Friday."],
        "When is the sourdough starter fed?",
        "I forgot to feed the sourdough starter again.",
    ),
    "car": (
        ["The car is a grey Skoda from 2019.", "The car's next inspection is due in March."],
        "When is the inspection of the car due?",
        "The car made a strange noise this morning.",
    ),
    "allergy": (
        ["Tom is allergic to hazelnuts."],
        "What is Tom allergic to?",
        "I want to bake something with hazelnuts for Tom.",
    ),
    "roof": (
        ["The roof was repaired by Lindqvist & Sons.", "The roof has a guarantee until 2031."],
        "Who repaired the roof, and how long is the guarantee on it?",
        "Water is dripping through the roof.",
    ),
    "garden": (
        ["The tomatoes stand in the south bed of the garden."],
        "Where in the garden do the tomatoes stand?",
        "Something is eating my tomatoes.",
    ),
    "thesis": (
        ["The thesis is about medieval bridges.", "The thesis must be handed in on 30 June."],
        "What is the thesis about, and when must it be handed in?",
        "I wrote another chapter of my thesis.",
    ),
    "marathon": (
        ["The goal for the marathon is under four hours."],
        "What is the goal for the marathon?",
        "My knee hurt during the training for the marathon.",
    ),
    "insurance": (
        ["The household insurance is with Nordstern.", "The insurance costs 214 euros a year."],
        "With whom is the household insurance, and what does it cost?",
        "A letter from the insurance came today.",
    ),
    "dentist": (
        ["Dr. Kessel is the family's dentist."],
        "What is the name of our dentist?",
        "I have a toothache and need the dentist.",
    ),
    "wifi": (
        ["The password of the wifi is on the fridge."],
        "Where is the password of the wifi?",
        "The visitors want to use the wifi.",
    ),
    "choir": (
        ["The choir sings Brahms in December.", "The choir rehearses in the old school."],
        "Where does the choir rehearse, and what does it sing?",
        "I can't come to the choir on Thursday.",
    ),
}
_GERMAN: Mapping[str, tuple[Sequence[str], str, str]] = {
    "verein": (
        ["Das Training im Schwimmverein ist immer mittwochs."],
        "Wann ist das Training im Schwimmverein?",
        "Ich möchte heute nicht in den Schwimmverein.",
    ),
    "heizung": (
        ["Die Heizung wurde 2017 eingebaut.", "Die Heizung wartet die Firma Brandt."],
        "Wer wartet die Heizung, und wann wurde sie eingebaut?",
        "Die Heizung ist seit gestern kalt.",
    ),
    "katze": (
        ["Die Katze Minka bekommt nur Trockenfutter."],
        "Was bekommt die Katze Minka?",
        "Minka hat heute nichts gefressen.",
    ),
    "urlaub": (
        ["Der Urlaub auf Rügen beginnt am 4. August."],
        "Wann beginnt der Urlaub auf Rügen?",
        "Für Rügen müssen wir noch packen.",
    ),
    "steuer": (
        ["Frau Yilmaz macht die Steuererklärung."],
        "Wer macht die Steuererklärung?",
        "Das Finanzamt fragt nach der Steuererklärung.",
    ),
}
_KOREAN: Mapping[str, tuple[Sequence[str], str, str]] = {
    "수영": (["수영 강습은 매주 화요일이에요."], "수영 강습은 언제예요?", "이번 주 수영 강습은 못 가겠어요."),
    "회사": (
        ["회사는 판교역 3번 출구 앞에 있어요.", "회사 팀장은 박지훈 님이에요."],
        "회사 팀장은 누구이고 회사는 어디에 있어요?",
        "오늘 회사에서 힘든 일이 있었어요.",
    ),
    "강아지": (
        ["강아지 보리는 닭고기를 먹으면 안 돼요."],
        "강아지 보리가 먹으면 안 되는 것은 뭐예요?",
        "보리한테 간식을 사 줬어요.",
    ),
    "이사": (["이사 날짜는 5월 17일이에요."], "이사 날짜가 언제였죠?", "이사 준비를 시작했어요."),
    "기타": (["기타 줄은 두 달마다 갈아요."], "기타 줄은 얼마나 자주 갈아요?", "어제 기타 줄이 끊어졌어요."),
}
_CHINESE: Mapping[str, tuple[Sequence[str], str, str]] = {
    "钢琴": (["女儿每周三上钢琴课。"], "女儿什么时候上钢琴课？", "这周的钢琴课要改时间。"),
    "体检": (["公司体检安排在九月。"], "公司体检安排在什么时候？", "我差点忘了体检的事。"),
    "咖啡": (["咖啡机放在二楼茶水间。"], "咖啡机放在哪里？", "咖啡机好像坏了。"),
    "签证": (["日本签证六月十号到期。"], "日本签证什么时候到期？", "我在准备日本签证的材料。"),
    "房租": (["房租每个月是四千二百元。"], "房租每个月多少钱？", "房东说要涨房租。"),
}
_CONFUSING: Mapping[str, Sequence[str]] = {
    "piano": ["Ben takes violin lessons on Mondays.", "Nora takes the bus to school."],
    "bread": ["The cat is fed every morning.", "Rye bread keeps longer than white bread."],
    "car": ["The next inspection of the lift is due in June.", "Grey is Tom's favourite colour."],
    "allergy": ["Tom is a member of the chess club.", "Lea is allergic to pollen."],
    "roof": ["The bicycle was repaired by Otto.", "The washing machine has a guarantee until 2027."],
    "garden": ["The chairs stand in the north corner of the terrace.", "The garden gate squeaks."],
    "thesis": ["The report must be handed in on 2 May.", "The film is about medieval knights."],
    "marathon": ["The goal for the savings is 9,000 euros.", "The training of the new colleague begins on Monday."],
    "insurance": ["The household waste is collected on Thursdays.", "The magazine costs 48 euros a year."],
    "dentist": ["Dr. Imhof is the family's vet.", "The name of our street is Lindenweg."],
    "wifi": ["The password of the printer is in the drawer.", "The shopping list is on the fridge."],
    "choir": ["The football team trains in the new school.", "The theatre plays Brecht in December."],
}
"""Beliefs that share words with a topic but are irrelevant to it."""
_LANGUAGES = (_ENGLISH, _GERMAN, _KOREAN, _CHINESE)


@dataclass(frozen=True)
class Case:
    """A user's beliefs, a query, and the beliefs that it should recall."""

    beliefs: Sequence[str]
    query: str
    wanted: frozenset[str]


def cases(count: int = _CASES) -> Iterator[Case]:
    """Yield the first `count` cases, the same in each run."""
    rng = random.Random(17)
    for number in range(count):
        topics = _LANGUAGES[(0, 0, 1, 2, 3)[number % 5]]
        topic = rng.choice(list(topics))
        wanted, *asked = topics[topic]
        others = [one for language in _LANGUAGES for beliefs, *_ in language.values() for one in beliefs]
        others = [one for one in others if one not in wanted]
        near = [one for beliefs, *_ in topics.values() for one in beliefs if one not in wanted]
        confusing = _CONFUSING.get(topic, ())
        beliefs = [*wanted, *confusing, *rng.sample(near, 4), *rng.sample(others, _OTHERS - 4 - len(confusing))]
        beliefs = list(dict.fromkeys(beliefs))
        rng.shuffle(beliefs)
        yield Case(beliefs, asked[number // 5 % 2], frozenset(wanted))


def figures(*, count: int = _CASES, misses: bool = False) -> dict[str, float]:
    """Run the cases and return precision, recall and waste in %."""
    right = returned = wanted = wasted = tokens = 0
    with ContextEngine.open() as engine:
        for number, case in enumerate(cases(count)):
            memories = engine.memories(user_id=f"user{number}")
            for belief in case.beliefs:
                memories.add(belief)
            window = engine.session(f"s{number}", user_id=f"user{number}").context(case.query)
            shown = [item for section in window.sections if section.name == "recalled" for item in section.items]
            back = {belief for belief in case.beliefs if any(belief in item.text for item in shown)}
            right += len(back & case.wanted)
            returned += len(back)
            wanted += len(case.wanted)
            tokens += sum(item.tokens or 0 for item in shown)
            wasted += sum(item.tokens or 0 for item in shown if not any(one in item.text for one in case.wanted))
            if misses and back != case.wanted:
                print(case.query, "| missing:", *case.wanted - back, "| irrelevant:", *back - case.wanted)
    return {
        "precision": 100 * right / max(returned, 1),
        "precision: recall": 100 * right / wanted,
        "precision: waste": 100 * wasted / max(tokens, 1),
    }


def main() -> None:
    """Run the cases and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--misses", action="store_true", help="print the cases with missing or irrelevant beliefs")
    for name, value in figures(misses=parser.parse_args().misses).items():
        print(f"{name}: {value:.1f} %")


if __name__ == "__main__":
    main()
