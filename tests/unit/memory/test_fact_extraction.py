"""Facts by rules: whole sentences about the user, their people, things, plans and conditions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.facts import FactCategory
from arc_common.memory.facts.extraction import excerpts_of, extract_facts
from arc_common.memory.long_term.contradictions import follows_up
from arc_common.memory.own_words import own_words, without_forgotten
from arc_common.messages import ARC_MARK, ContentPart, Message, Role
from arc_common.trust import SOURCE
from tests.support.planted_facts import FACT_SETS, build_conversation, load_facts


def values(text: str, role: str = "user") -> list[str]:
    return [fact.value for fact in extract_facts([Message(Role(role), text)])]


STATEMENTS = {
    "English": """
        My sister Hana lives in Busan
        The reference is QX7LPM
        Our flight is TP 1234 on 9 August
        The wedding is on 3 May
        The deadline is May 12th
        The concert is in May
        I'm allergic to peanuts and I live in Seoul, but my office is in Suwon
        I work at Siemens as a nurse
        Let's go with the oak table
        We decided on the red paint
        I painted that lake sunrise last year
        My budget is 900 euros
        My landlord doesn't allow pets
        We adopted a puppy called Rex
        You can write back to lena.fischer@postbox.example if the line drops
        Just got it from accounting: the purchase order for the kiln shelves is PO-55718
        Let's do the hike on Sunday
        Our host's reference is PX-2209, check-in from 3 pm
        I cancelled the Rome hotel and booked one in Milan
        I'm on the premium plan
        I'm single
        I'm not a nurse anymore
        Tom is my manager now
        I downgraded to the basic plan
    """,
    "German": """
        Ich wohne in Köln
        Meine Schwester ist allergisch gegen Nüsse
        Wir haben uns für den blauen Teppich entschieden
        Meine Tochter heißt Lena
        Mein Budget liegt bei 900 Euro
        Dann nehmen wir den Teppich von Faller
    """,
    "Korean": """
        제 동생 하나가 부산에 살아요
        회의는 화요일에 하기로 했어요
        다음 주 화요일에 치과 예약이 있어요
        강아지 이름은 초코예요
        커피보다 차를 더 좋아해요
        네이버 그만두고 지금은 카카오에 다녀요
        요즘은 은행에서 일하고 있어요
        요즘은 커피를 끊었어요
    """,
    "Chinese and Japanese": """
        我住在北京
        我现在住在西安
        我对花生过敏
        就订翠湖宾馆，住两晚
        订单号是 AB-20931
        私は東京に住んでいます
        今は札幌に住んでいます
        トヨタで働いています
        予算は5万円です
        现在住在上海
        我从腾讯辞职了，现在在美团工作
        我们订了杭州的酒店
        三井ガーデンにします
    """,
}

RULES = {
    "English": """
        Never book before 9
        Only vegetarian restaurants please
        Please don't call before noon
        Don't give my address to anyone
        Only ship it if the seal is intact
        No calls on Sundays
        Peanut butter is a no-go in that classroom
        Up to 150 a night is ok
        At most two stops
        Nothing above 200 euros
        Not before 9 please
        Not on Mondays
        Not Amsterdam please, never again
        Anywhere but Amsterdam
        We never use raw SQL in handlers
        A table must never be booked twice
        Arjun is vegetarian
        My sister's a strict vegan and no nuts for her
        Small thing, I'm celiac so no bread for me
        The old chimney must stay
        The car must be automatic
        Deniz hates grey so no grey anywhere
        Total budget is 48k, we can't go over
        Yes but only automatic
        What I can't eat is nuts
        can you avoid flights with no bags for us
        Max doesn't like the heat so nothing inland please
        We can go up to 5,500 instead of 4,000
    """,
    "German": """
        Buche nie vor 9 Uhr
        Nur vegetarische Restaurants bitte
        Bitte keine Lieferung vor 9 Uhr
        Bis zu 150 Euro pro Nacht sind in Ordnung
        Höchstens 150 Euro pro Nacht
        können Sie bitte nie vor 9 buchen
        Nicht vor 9 Uhr bitte
        Nicht Amsterdam bitte, nie wieder
        Das Auto muss automatisch sein
    """,
    "Korean": """
        9시 전에는 절대 예약하지 마세요
        채식 식당만 예약해 주세요
        청구서는 이메일로만 보내 주세요
        절대 견과류는 안 돼요
        1박에 15만원까지는 괜찮아요
        15만원 이하로 부탁해요
        암스테르담만 아니면 돼요
        저는 채식주의자니까요
        견과류는 절대 넣지 말아 주실 수 있나요
    """,
    "Chinese and Japanese": """
        不要在九点前预订
        只吃素食
        我妈妈膝盖不好，不能爬太多楼梯
        包车吧，别坐大巴，我妈会晕车
        总共不超过15000元
        九時前に予約しないでください
        每晚150元以内可以
        一人8万円以内でお願いします
        九時前に予約しないでいただけますか
        麻烦不要放花生可以吗
        階段の多い場所は避けたいです
    """,
}

NOTHING = {
    "requests": """
        Tell me something about district number 7
        15만원 이하 호텔을 추천해 주세요
        200元以下的酒店推荐一下
        Book a table for four at 7 pm
        Can you deliver it to 12 Elm Street before Friday?
        I need some ideas
        Now let's check the weather for San Anselmo on the 3rd of March
        Assist me with the content for Heading 2
        Discover the top 5 keywords for my brand
        Wo wohne ich?
        Sag mir etwas über Bezirk 7
        7번 구역에 대해 알려줘
        推荐一家餐馆
        查一下我的订单AB-20931
    """,
    "questions": """
        Do you like tea?
        If I live in Busan, what taxes do I pay?
        If I prefer tea, what should I order?
        If it rains on Friday, could you cancel the picnic?
        the bonsai museum is closed thursdays right
        My flight leaves at 7:30, right?
        our table is booked for 8 pm isn't it
        We never eat pork, do we
        you'll take the 9:30 train then yes
        Mein Flug geht um 7:30, oder
        Unser Zug fährt um 9:30, nicht wahr?
        제 비행기가 7시 30분 맞죠
        회의는 화요일 3시예요, 맞죠?
        我的航班是7:30，对不对
        我的航班是7:30，对吧？
        私の便は7時30分だよね
        부산에 살면 세금이 얼마예요?
        내일 날씨가 어떨까요?
        커피 좋아하세요?
        東京の人口は何人ですか
        我现在住在哪个城市
        私は東京のどこに住んでいますか
    """,
    "unmarked questions about rules": """
        am i allergic to nuts
        is my daughter vegan
        isn't Arjun vegetarian
        which airline should I never book
        where am I not allowed to park
        bin ich allergisch gegen Nüsse
        warum darf ich nicht vor 9 buchen
        저는 땅콩 알레르기가 있나요
        제가 채식주의자인가요
        我对花生过敏吗
        我是不是对花生过敏
        ペットは禁止ですか
    """,
    "suppositions": """
        What if I lived in Paris?
        Maybe I should move to Rome in May
        I wish I had a dog
        I might adopt a dog called Rex in May
        Suppose my budget were 900 euros
        Vielleicht ziehe ich im Mai nach Köln
        아마 5월에 부산으로 이사할 것 같아요
        たぶん私は5月に東京へ引っ越します
        仮に私が東京に住んでいるとします
        假如我住在北京，我会养一只狗
        我可能五月搬到北京
        In theory my budget is 900 euros
        Was wäre, wenn ich in Köln wohnen würde?
        Wenn ich 900 Euro hätte
        제 예산이 90만원이라면요
        제가 부산에 산다면요
        予算が10万円なら、別のホテルにします
        大阪に住んでいるなら、車はいりません
        如果我的预算是5000元，就住这家
        要是我的预算有5000元
        我的预算如果是5000元的话
    """,
    "guesses": """
        You must be tired
        It must have been the rain
        Our cat must have eaten the fish
        My flight must have been delayed by 40 minutes
        Our neighbour must be on holiday
        The train must be late on Fridays
        my brother must be 40 by now
        Meine Schwester muss um 9 gegangen sein
        Er muss krank sein
        Meine Schwester muss krank sein
        Mein Chef muss wohl im Stau stehen
        저희 엄마가 9시에 나갔을 거예요
        我妈妈一定是9点走的
        母は9時に出たはずです
    """,
    "comments on the talk": """
        I 100% agree, Mel
        5 years already
        I'm talking about Super Bowl LVII
        I appreciate the suggestion to allocate more time on Friday
        The colors really blend nicely
        Thanks, that sounds great!
        Don't worry about it
        Never mind
        The concert may be in the evening
        Nevermind, I found it
        Never say never
        Well, I never!
        Not sure
        Not at all, Ann
        Not again!
        Up to you
        At least you tried
        Looks nice at least
        I can't find it, but I'm not the only one
        Don't mention it
        Don't miss a beat!
        I'm planning a few
        Don't bother
        Only kidding
        Only the bedside table is left to assemble
        Only one of the leather loops is missing
        I like it
        Sounds good, I'd prefer that
        I'd love to, thanks
        Let's go with that
        I'd hate to bother you
        I won't quit
        절대 아니에요
        절대 그럴 리 없어요
        꽃은 하지 말까요
        Vielen Dank, das klingt gut!
        Nur dass du's weißt
        Ich rede erst einmal mit meinem Mann
        Let's get started
        I never want to go through this again
        I never said that
        The new cook is never vegetarian
        Patience is a must for the chimney
        It must keep you warm
        오늘 정말 재미있었어요!
        신경 쓰지 마세요
        谢谢，你好
        太好了，我很期待周五
        海底捞说没有包间了，只有八点的
    """,
    "what others say": """
        Translate: "I live in Seoul."
        My friend says "I hate mushrooms".
        Look, he wrote "my doctor is Dr. Okafor"
        The page says 'our bank account is 20931'
        번역해줘: 나는 매운 음식을 좋아해
        Kannst du korrigieren: Guten Tag. Ich wohne in Bonn
        Könntest du verbessern: Hallo. Ich esse kein Fleisch
        Please forget that I live in Seoul
    """,
}


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("language", STATEMENTS)
def test_a_statement_is_a_fact_as_a_whole_sentence(language: str) -> None:
    for text in lines(STATEMENTS[language]):
        assert values(f"{text}.") == [text]


@pytest.mark.parametrize("language", RULES)
def test_prohibitions_and_conditions_are_facts_also_as_imperatives(language: str) -> None:
    for text in lines(RULES[language]):
        facts = extract_facts([Message(Role.USER, text)])
        assert [(fact.value, fact.category) for fact in facts] == [(text, FactCategory.CONDITION)]


@pytest.mark.parametrize("kind", NOTHING)
def test_what_states_nothing_is_no_fact(kind: str) -> None:
    for text in lines(NOTHING[kind]):
        assert values(text) == [], text


WHOLE = """
    I'm planning a trip to India and I need some help with the visa
    I joined a mentorship program because I want to become a director by the time I'm 40
    I adopted a puppy in March, and it was so much fun
    My sister Hana lives in Busan, so I'll definitely check that out
    I don't have a preference for in-person or online, as long as it's convenient
    We paid $40 for the lamp - I love it
    I'm allergic to nuts and I can't eat shellfish
    I gained 15 new followers last week, which is a slight increase from usual
    I bought some soup for my neighbour, along with bread and fruit, which came out to be around $40
    I'm going back to the church in Leith, where I sang last month
    My sister lives with Ann, who works at Siemens
    I attended a lecture in February, which got me thinking about the pyramids
    I'm going to Leith in May, where I hope to hear the choir
    Our instructor, Mike, is a stuntman and teaches us judo
    Ich wohne in Köln, wo ich auch arbeite
"""


@pytest.mark.parametrize("text", [line.strip() for line in WHOLE.strip().splitlines()])
def test_a_sentence_that_begins_with_a_statement_is_kept_whole(text: str) -> None:
    """The rest often gives the reason or another value."""
    assert values(f"{text}.") == [text]


PARTS = {
    "These all sound great, but I'm not a big fan of cooked breakfasts": "I'm not a big fan of cooked breakfasts",
    "I already rent a garage in Leith, but I'm wondering what else I could ask": "I already rent a garage in Leith",
    "I raise two goats in Leith, so maybe they could help": "I raise two goats in Leith, so maybe they could help",
    "I've been growing my own herbs on my balcony": "I've been growing my own herbs on my balcony",
    "I attended a cooking class at the culinary school today and learned some great tips": (
        "I attended a cooking class at the culinary school today and learned some great tips"
    ),
    "I rent a flat in Leith, where can I park": "I rent a flat in Leith",
    "I rent a flat in Leith, which tram is nearest": "I rent a flat in Leith",
    "I live in Leith, so the tram is best, right": "I live in Leith",
    "Both of them, which I watched in Toronto - I caught 12 films there": "I caught 12 films there",
    "It all takes time, since I build strength": None,
    "I've been thinking about that": None,
}


@pytest.mark.parametrize("text", PARTS)
def test_a_statement_is_kept_without_the_comment_around_it(text: str) -> None:
    """After a comment it stands alone, but not after "since"; questions are dropped, and praise is kept."""
    assert values(f"{text}.") == ([] if PARTS[text] is None else [PARTS[text]])


ANSWERS = {
    "a value": ("What is your customer number?", "HB-4471902", "What is your customer number?"),
    "several values": ("Where to?", "1st of May, to 8 Quayside Terrace, Whitby", "Where to?"),
    "a value, after a statement": ("The customer number is missing.", "HB-4471902", "The customer number is missing."),
    "a value, after a courtesy": ("Enjoy the evening!", "HB-4471902", ""),
    "a statement": ("What is your customer number?", "My number is HB-4471902", ""),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_value_comes_with_what_it_answers(name: str) -> None:
    """The question states its meaning; it is removed with either message, and ends what the value alone would end."""
    said, answer, reply = ANSWERS[name]
    messages = [Message("assistant", f"Thanks. {said}", id="a"), Message(Role.USER, f"{answer}.", id="b")]
    (fact,) = [*extract_facts(messages), *excerpts_of(messages, facts=extract_facts(messages))]
    assert fact.value.rstrip(".") == (f"{answer} (in reply to: {reply})" if reply else answer)
    assert fact.sources == (("b", "a") if reply else ("b",))
    assert "Quayside" in answer or follows_up("New one: HB-4471903", fact.value)


LIMITS = """
    What is your budget? > 150 a night at most
    What is your budget? > Max 200
    What is your budget? > 200 euros, not more
    Which days suit you? > Except Tuesdays
    Which days suit you? > Every day except Sunday
    How many stops may it have? > No more than two
    When should I book? > Nothing before nine
    When should I book? > Before nine only
    Which hours suit you? > Mornings only
    When do you need it? > By Friday at the latest
    Which airline do you prefer? > Anything but Ryanair
    Was darf es kosten? > 150 Euro pro Nacht höchstens
    An welchen Tagen passt es? > Außer dienstags
    Wie viele Stopps sind in Ordnung? > Nicht mehr als zwei
    예산이 얼마예요? > 최대 15만원이요
    무슨 요일이 좋으세요? > 화요일 빼고요
    경유는 몇 번까지 괜찮으세요? > 두 번 이하로요
    预算是多少？ > 最多一百五
    哪天方便？ > 除了周二
    ご都合はいつですか？ > 火曜以外
"""


@pytest.mark.parametrize("line", lines(LIMITS))
def test_a_limit_or_an_exception_is_a_fact_with_what_it_answers(line: str) -> None:
    asked, _, answer = line.partition(" > ")
    (fact,) = extract_facts([Message("assistant", asked, id="a"), Message(Role.USER, f"{answer}.", id="b")])
    assert (fact.value, fact.category) == (f"{answer} (in reply to: {asked})", FactCategory.CONDITION)
    assert fact.sources == ("b", "a")


IN_CONTEXT = {
    "My watch broke though. It's a Garmin 245. Can I run without one?": "My watch broke though. It's a Garmin 245.",
    "The harbour tour is done! 20 minutes, 2.6 km.": "The harbour tour is done! 20 minutes, 2.6 km.",
    "I asked. They answer in 20 minutes.": "They answer in 20 minutes.",
    "How are you? They cost 20 each.": "They cost 20 each.",
    "The flat has 82 sqm. It is old. Rent is 900.": "The flat has 82 sqm. … Rent is 900.",
    "Vielen Dank! Ihre Nummer ist T-448120.": "Ihre Nummer ist T-448120.",
    "新幹線を変えた。9時30分発です。": "新幹線を変えた。 9時30分発です。",
    "필경재로 예약했어요. 12시, 6명이요.": "필경재로 예약했어요. 12시, 6명이요.",
}


@pytest.mark.parametrize("text", IN_CONTEXT)
def test_an_excerpt_that_says_little_alone_comes_with_the_sentence_before_it(text: str) -> None:
    """Not with a question, or with one that names nothing; sentences in a row are joined without "…"."""
    assert [fact.value for fact in excerpts_of([Message("user", text, id="a")], facts=[])] == [IN_CONTEXT[text]]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("Does Ingvild eat everything?", "She's vegetarian"),
        ("Can he surf?", "It hurts, not more than an hour"),
        ("何名様ですか？", "3人です"),
        ("하객은 몇 분 정도 예상하세요?", "양가 합쳐서 220명 정도요"),
    ],
)
def test_an_excerpt_that_says_little_alone_comes_with_the_question(asked: str, answer: str) -> None:
    messages = [Message("assistant", asked, id="a"), Message("user", f"{answer}.", id="b")]
    assert [fact.value for fact in excerpts_of(messages, facts=[])] == [f"{answer} (in reply to: {asked})"]


def test_a_need_that_nobody_has_is_no_rule() -> None:
    for text in (
        "Our neighbour must be on holiday.",
        "There is no need for us to hurry.",
        "They had no room for us.",
        "I never told you so.",
    ):
        assert excerpts_of([Message("user", text, id="a")], facts=[]) == [], text


def test_a_question_is_no_excerpt_for_its_day_alone() -> None:
    for text in ("Shall we have hotpot on Friday?", "大家周五晚上吃火锅吗？", "and which index must not be dropped"):
        assert excerpts_of([Message("user", text, id="a")], facts=[]) == [], text


@pytest.mark.parametrize("form", ["Room {0} of house {1} costs {2} euros. ", "第{0}个房间在{1}号楼，价格是{2}欧元。"])
def test_an_excerpt_of_many_sentences_in_a_row_is_bounded(form: str) -> None:
    text = "".join(form.format(n, n + 3, 7 * n + 100) for n in range(40)).strip()
    (fact,) = excerpts_of([Message("user", text, id="a")], facts=[])
    assert 300 < len(fact.value) <= 400


def test_only_few_characters_of_chinese_reply_to_a_statement() -> None:
    asked = Message("assistant", "已更新：周五晚上八点。", id="a")
    for text, is_reply in (("9点", True), ("人均大概150，AA", False)):
        (fact,) = excerpts_of([asked, Message("user", text, id="b")], facts=[])
        assert (fact.value != text) is is_reply


def test_a_korean_value_with_its_copula_is_no_statement() -> None:
    """It belongs to the sentence before it; with a subject it is one."""
    assert values("발리로 결정했어요. 10월 19일 출발, 6박 8일이에요.") == [
        "발리로 결정했어요. 10월 19일 출발, 6박 8일이에요"
    ]
    assert values("180만 원이에요.") == []
    assert values("식대는 1인당 8만 5천 원이에요.") == ["식대는 1인당 8만 5천 원이에요"]


def test_a_german_date_is_part_of_its_sentence() -> None:
    assert values("Wir ziehen erst am 25. April um. Danke!") == ["Wir ziehen erst am 25. April um"]


@pytest.mark.parametrize("text", ["From now on the choir begins at 18:25", "Send bills to billing@pier.example"])
def test_a_statement_stands_without_what_was_said_before_it(text: str) -> None:
    messages = [Message("assistant", "Noted: 67.30 euros for sun cream.", id="a"), Message("user", f"{text}.", id="b")]
    facts = extract_facts(messages)
    assert [fact.value.rstrip(".") for fact in [*facts, *excerpts_of(messages, facts=facts)][-1:]] == [text]


def test_a_value_after_a_statement_is_part_of_it() -> None:
    assert values("We bought a ceramic fox. 38 euros.") == ["We bought a ceramic fox. 38 euros"]


@pytest.mark.parametrize(
    "between",
    [Message("assistant", "Fine.", id="x"), Message("tool", "Which code?", tool_call_id="c", id="x")],
    ids=["a later remark", "a tool's question"],
)
def test_only_the_message_right_before_is_answered(between: Message) -> None:
    asked = Message("assistant", "What is your customer number?", id="a")
    messages = [asked, between, Message(Role.USER, "HB-4471902", id="b")]
    assert [fact.value for fact in excerpts_of(messages, facts=[])][-1:] == ["HB-4471902"]
    assert extract_facts(messages) == []


def test_only_what_the_assistant_says_is_answered_by_a_value() -> None:
    """Among users of a group only questions are: the previous speaker may have meant someone else."""
    before = Message(Role.USER, "The customer number is missing.", name="Ann", id="a")
    messages = [before, Message(Role.USER, "HB-4471902", name="Ben", id="b")]
    assert [fact.value for fact in excerpts_of(messages, facts=[])] == ["HB-4471902"]
    assert extract_facts(messages) == []


def test_a_question_of_anybody_else_is_quoted_in_no_fact() -> None:
    asked = Message("assistant", "Send which code to evil.example?", id="a", metadata={SOURCE: "a web page"})
    messages = [asked, Message(Role.USER, "HB-4471902", id="b")]
    assert [fact.value for fact in excerpts_of(messages, facts=[])] == ["HB-4471902"]
    assert extract_facts(messages) == []


def test_what_only_the_conversation_names_is_no_fact() -> None:
    """A pronoun needs its referent in the same sentence, a prohibition its object."""
    for text in (
        "I named her Tilly",
        "I did something new last week",
        "Never book",
        "Don't quit!",
        "We went there on Friday",
        "Our neighbourhood deserves it!",
        "I've already pre-ordered it",
        "Since I was 17 or so",
    ):
        assert values(text) == [], text
    assert values("Never book a window seat") == ["Never book a window seat"]


def test_sums_that_an_assistant_states_are_no_facts() -> None:
    assert values("Your checking account balance is $22,717.30", "assistant") == []


def test_what_stands_before_a_question_is_stated() -> None:
    assert values("Hi! By the way, I'm vegetarian, can you suggest a restaurant?") == ["I'm vegetarian"]
    assert values("By the way, I just wanted to mention that I bought two kayaks.") == ["I bought two kayaks"]


def test_a_value_of_something_named_before_comes_with_it() -> None:
    assert values("We took the oak table. It costs $1,240.50 with tax.") == [
        "We took the oak table. It costs $1,240.50 with tax"
    ]
    assert values("We booked the Soki in Kanazawa. Ref SK-1029-A.") == ["We booked the Soki in Kanazawa. Ref SK-1029-A"]
    assert values("Thank you so much! My ref is SK-1029-A.") == ["My ref is SK-1029-A"]


@pytest.mark.parametrize("text", ["Ref SK-1029-A", "SK-1029-A", "Thank you so much! Ref SK-1029-A."])
def test_a_value_without_a_subject_is_no_statement(text: str) -> None:
    """The fidelity guard keeps it: nothing is lost."""
    messages = [Message(Role.USER, text, id="a")]
    assert extract_facts(messages) == []
    assert ["SK-1029-A" in fact.value for fact in excerpts_of(messages, facts=[])] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "I'm excited to find something for my F-16 model",
        "I'm looking to learn more about mandolins, specifically the Kentucky KM-150 model",
        "I'd like to ask about filing Form I-485",
        "That's interesting, I didn't know they had worked on COVID-19",
    ],
)
def test_the_name_of_a_model_makes_no_statement_of_a_comment(text: str) -> None:
    assert values(f"{text}.") == []


TO_BE_KEPT = {
    "Please remember that I live in Porto.": "I live in Porto",
    "remember: my doctor is Dr. Okafor": "my doctor is Dr. Okafor",
    "I need you to remember that my daughter is allergic to eggs.": "my daughter is allergic to eggs",
    "For the record, I never eat pork.": "I never eat pork",
    "Just so you know, my brother is called Tim.": "my brother is called Tim",
    "Don't forget that my flight leaves at 7:30.": "my flight leaves at 7:30",
    "기억해 줘: 내 주치의는 오카포 선생님이야": "내 주치의는 오카포 선생님이야",
    "제가 부산에 산다는 거 기억해 주세요": "제가 부산에 산다는 거 기억해 주세요",
    "Guten Tag, ich wohne in Kiel.": "ich wohne in Kiel",
    "Merk dir: mein Arzt ist Dr. Okafor": "mein Arzt ist Dr. Okafor",
    "Bitte merk dir, dass ich in Köln wohne.": "ich in Köln wohne",
    "Remind me that my aunt has the side key.": "my aunt has the side key",
    "Remember to call me at 9.": None,
    "Remember when we went to Rome?": None,
    "Do you remember my doctor?": None,
    "어제 뭐 했는지 기억해 줘": None,
}


@pytest.mark.parametrize("text", TO_BE_KEPT)
def test_what_is_to_be_remembered_is_stated(text: str) -> None:
    """A request to remember a statement is one; a request to do something, or a question, is none."""
    assert values(text) == ([] if TO_BE_KEPT[text] is None else [TO_BE_KEPT[text]])


def test_an_assistant_states_decisions_ids_and_dates() -> None:
    told = "Your booking is confirmed under PNR X7Q2LM", "I've booked a table for two at 7:30 pm on Friday"
    for text in (*told, "Your ticket has the number QX-22091"):
        assert values(text, "assistant") == [text]
    for text in (
        "You could visit the museum at 10 am",
        "I love hiking in the Alps",
        "How about Friday at 7 pm?",
        "Maybe your ticket has the number QX-22091",
        "You can use the number QX-22091",
        f"{told[0]}. {'Many more tips follow on this page. ' * 50}",
    ):
        assert values(text, "assistant") == []


def test_no_key_is_invented() -> None:
    """Only an attribute with a single value has a key, which is used for matching."""
    keyed, other = extract_facts([Message(Role.USER, "My email is a@x.org."), Message(Role.USER, "We have a cat.")])
    assert (keyed.key, other.key) == ("email: email", "")


@pytest.mark.parametrize(
    "text",
    [
        "My instructor, Rachel, was amazing and really helped me with my serve",
        "I take the ferry to Leith, and my neighbour, Bolt, is from Orkney",
        "Our team, the 'Sea Otters', has lost 2 games so far",
        "I have rowed at a club in Leith and have spent around $400 so far",
    ],
)
def test_a_clause_that_goes_on_with_a_subject_is_no_question(text: str) -> None:
    assert values(f"{text}.") == [text]


def test_a_very_long_sentence_is_cut_at_the_border_of_a_clause() -> None:
    (value,) = values("My sister Hana lives in Busan, " + "and she keeps bees in the garden, " * 20 + "as you know.")
    assert value.startswith("My sister Hana lives in Busan, and")
    assert value.endswith("in the garden")
    assert len(value) <= 240


def test_planted_facts_are_found_between_small_talk() -> None:
    """Most facts of a long conversation are found, with few false ones."""
    for name in FACT_SETS:
        planted = load_facts(name)
        found = [fact.value.casefold() for fact in extract_facts(build_conversation(planted, seed=1))]
        assert sum(any(fact.value.casefold() in value for value in found) for fact in planted) >= 17
        assert len(found) <= 65


def test_what_is_not_text_is_passed_over() -> None:
    parts = (ContentPart("image", url="https://x.example/1.png"), ContentPart("text", text="My badge is K-2210."))
    assert [fact.value for fact in extract_facts([Message(Role.USER, parts)])] == ["My badge is K-2210"]
    assert extract_facts([Message(Role.USER, "My badge is K-2210.", metadata={ARC_MARK: "memory"})]) == []


def test_the_same_statement_is_one_fact_with_both_sources() -> None:
    said = "My badge number is K-2210."
    (fact,) = extract_facts([Message(Role.USER, said, id="a"), Message(Role.USER, said.lower(), id="b")])
    assert fact.sources == ("a", "b")


PIECES = ["My sister Hana ", "never ", "12 Elm Street, ", "if it rains, ", "제 동생 ", "\n", "PX-20418-B", "İ", "요 "]


@given(st.lists(st.one_of(st.text(max_size=200), st.sampled_from(PIECES)), max_size=12))
def test_facts_are_parts_of_the_message_and_repeatable(pieces: list[str]) -> None:
    text = "".join(pieces)
    messages = [Message(Role.USER, text, id="m")]
    facts = extract_facts(messages)
    assert all(fact.value in text and fact.value.strip() for fact in facts)
    assert extract_facts(messages) == facts


def test_requests_to_forget_are_not_read() -> None:
    for text in (
        "Please forget that I live in Seoul",
        "Stop remembering what I eat.",
        "Delete the memory that I live in Seoul.",
        "나는 서울에 산다는 걸 잊어줘",
        "저에 대한 기억을 모두 삭제해 주세요",
    ):
        assert without_forgotten(text) == ""
        assert without_forgotten(f"I keep bees. {text}\nI keep goats.").split()[-3:] == ["I", "keep", "goats."]
    assert without_forgotten("Forget what I said, I live in Busan now.") == "I live in Busan now."
    for text in ("Don't forget that I live in Seoul.", "Forget it.", "저는 자꾸 약을 잊어버려요.", ""):
        assert without_forgotten(text) == text
        assert own_words(text) == text
