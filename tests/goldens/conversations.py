"""Three conversations, in English, Korean and Chinese, that the golden windows are made from."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from arc_common import Document, Message
from arc_common.messages import Role, ToolCall
from tests.arc_common.memory.conversations import FACT_SETS, PlantedFact, build_conversation, load_facts

__all__ = ["FOLLOW_UPS", "INSTRUCTIONS", "LANGUAGES", "LOOKED_UP", "MEMORIES", "QUESTIONS", "conversation", "documents"]

_START = datetime(2026, 3, 2, 9, tzinfo=UTC)
LANGUAGES = ("en", "ko", "zh")
MESSAGES = 120
_PLANTED = 48
_TOOL_EVERY = 17

INSTRUCTIONS = {
    "en": "You are a patient assistant. Answer in one or two sentences.",
    "ko": "당신은 친절한 비서입니다. 한두 문장으로 답하세요.",
    "zh": "你是一位耐心的助手。请用一两句话回答。",
}

QUESTIONS = {
    "en": "What is the booking code, and when do we fly out?",
    "ko": "예약 번호가 뭐였고, 출발은 언제였죠?",
    "zh": "订单号是多少？什么时候出发？",
}

FOLLOW_UPS = {
    "en": "And until when can that be changed for free?",
    "ko": "그건 언제까지 무료로 바꿀 수 있나요?",
    "zh": "那什么时候之前可以免费更改？",
}

_DOCUMENTS = {
    "en": (
        "Bookings can be changed free of charge until 48 hours before departure.",
        "The warranty of laptops lasts three years and covers the battery for one.",
        "Returns are accepted within fourteen days if the seal is unbroken.",
    ),
    "ko": (
        "예약은 출발 48시간 전까지 무료로 변경할 수 있습니다.",
        "노트북 보증 기간은 3년이며 배터리는 1년입니다.",
        "봉인이 뜯기지 않은 제품은 14일 이내에 반품할 수 있습니다.",
    ),
    "zh": (
        "出发前48小时可以免费更改订单。",
        "笔记本电脑保修三年，电池保修一年。",
        "未拆封的商品可以在十四天内退货。",
    ),
}

MEMORIES = {
    "en": ("Ann prefers window seats.", "Ann's booking last year was for two people."),
    "ko": ("민지는 창가 자리를 좋아한다.", "민지는 작년에 두 사람 자리를 예약했다."),
    "zh": ("小李喜欢靠窗的座位。", "小李去年预订了两个人的位置。"),
}

LOOKED_UP = {
    "en": "Flight TP 1234 to Lisbon departs at 07:35 from gate 12; the booking desk opens at 05:00.",
    "ko": "리스본행 TP 1234편은 12번 탑승구에서 07시 35분에 출발하고 예약 창구는 5시에 엽니다.",
    "zh": "飞往里斯本的TP 1234航班07:35从12号登机口出发，订票窗口五点开门。",
}

_CHINESE_FACTS = (
    "我的订单号是 HN-48213，请记一下。",
    "我们八月九日从里斯本出发。",
    "酒店的预算最多是一千八百五十欧元。",
    "发票请寄到 billing@northpier.example，不要寄到别的地方。",
    "有问题请打玛尔塔的电话 +34 600 555 019。",
    "我对青霉素过敏，千万不要开这种药。",
    "我女儿叫小雨，今年七岁。",
    "我住在杭州市西湖区文三路 90 号。",
    "会议改到星期四下午三点了。",
    "我不吃辣，点菜的时候请注意。",
    "我们公司一共有 240 名员工。",
    "客户的负责人叫王建国。",
    "房租每个月 5200 元，月底以前要交。",
    "我的车牌号是浙A·7K358。",
    "未经我同意，不要取消预订。",
    "如果下雨，我们就改去博物馆。",
    "爷爷的手术安排在五月十二日。",
    "我每天早上六点半起床跑步，大约八公里。",
    "无线网络的密码写在路由器下面的标签上。",
    "合同必须在六月三十日之前签好。",
    "我在一家包装公司负责采购。",
    "猫叫咪咪，狗叫旺财。",
    "我们想要一间朝南的房间，最好在十楼以上。",
    "上次的退款是 318.50 元，还没有到账。",
)

_CHINESE_TALK = {
    Role.USER: (
        "谢谢你这么快就回复我，我知道你们一定很忙。",
        "今天天气真不好，一整天都在下雨，我哪儿也没去。",
        "不好意思，我说话总是有点啰嗦，请多包涵。",
        "我昨天跟同事聊起这件事，大家都觉得挺有意思的。",
        "你觉得这样安排合适吗？还是应该换一种办法？",
        "说实话，我一开始也不太确定要不要提这件事。",
        "我已经把你上次写的内容看了两遍，大概明白了。",
        "不用着急，这种事情本来就需要一些时间。",
        "等我把手头的事情处理完，我们再慢慢聊吧。",
        "我太太说我应该早一点把这些都写下来。",
        "周末我们打算去郊外走走，换换心情。",
        "要是你在我的位置上，你会怎么做呢？",
        "刚才泡了一杯茶，突然想起来还没有回答你。",
        "有时候小事情总是堆在一起，真让人头疼。",
        "总之，希望你今天过得比我顺利一些。",
        "这就是目前的情况，我很想听听你的看法。",
    ),
    Role.ASSISTANT: (
        "好的，我已经记下来了，您随时可以继续补充。",
        "没关系，您慢慢说，我会一步一步地帮您整理。",
        "听起来您这几天确实很忙，先休息一下也好。",
        "我建议先把最要紧的部分确定下来，其余的以后再说。",
        "这个想法很不错，不过也可以考虑其他的可能。",
        "如果您愿意，我可以把刚才的内容简单总结一下。",
        "谢谢您的信任，有什么变化请告诉我。",
        "一般来说，提前准备会让事情顺利很多。",
        "我理解您的心情，这种时候确实不容易做决定。",
        "您说得对，细节往往比想象的更重要。",
        "先不用担心，我们还有足够的时间来处理。",
        "等您确认以后，我们就可以进行下一步了。",
        "很高兴听到这个消息，祝您一切顺利。",
        "这类情况比较常见，通常都能找到解决的办法。",
    ),
}

_TOOL_TEXT = {
    "en": ("look_up_order", "Order 4711: packed on Monday, in the Utrecht depot since Tuesday, due on Friday by noon."),
    "ko": ("look_up_order", "주문 4711: 월요일에 포장, 화요일부터 대전 물류센터에 보관, 금요일 정오까지 도착 예정."),
    "zh": ("look_up_order", "订单4711：星期一打包，星期二起在杭州仓库，预计星期五中午之前送达。"),
}


def conversation(language: str) -> list[Message]:
    """A conversation of 120 messages and seven rounds of tool use, with ids and times; always the same one."""
    said = _chinese() if language == "zh" else _planted(language)
    return [_stamped(message, place) for place, message in enumerate(_with_tools(said, language))]


def documents(language: str) -> list[Document]:
    """The documents of a language."""
    return [Document(text, id=f"{language}-{place}") for place, text in enumerate(_DOCUMENTS[language])]


def _planted(language: str) -> list[Message]:
    facts = [fact for name in FACT_SETS for fact in load_facts(name) if fact.language == language]
    chosen: list[PlantedFact] = random.Random(7).sample(facts, _PLANTED)
    return build_conversation(chosen, language_mix=float(language == "ko"), seed=7, messages=MESSAGES)


def _chinese() -> list[Message]:
    rng = random.Random(7)
    facts = list(_CHINESE_FACTS)
    said: list[Message] = []
    for place in range(MESSAGES):
        role = (Role.USER, Role.ASSISTANT)[place % 2]
        sentences = rng.sample(_CHINESE_TALK[role], 3)
        if role is Role.USER and facts and place % 4 == 0:
            sentences.insert(rng.randint(0, 3), facts.pop(0))
        said.append(Message(role, "".join(sentences)))
    return said


def _with_tools(said: Sequence[Message], language: str) -> Iterator[Message]:
    name, result = _TOOL_TEXT[language]
    for place, message in enumerate(said):
        if message.role is Role.ASSISTANT and place % _TOOL_EVERY == 0:
            call = f"call_{place}"
            yield Message(Role.ASSISTANT, None, tool_calls=(ToolCall(name, {"order": place}, id=call),))
            yield Message(Role.TOOL, result * (1 + place % 3), tool_call_id=call, name=name)
        yield message


def _stamped(message: Message, place: int) -> Message:
    return Message(
        message.role,
        message.content,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        name=message.name,
        id=f"g{place}",
        created_at=_START + timedelta(minutes=20 * place),
    )
