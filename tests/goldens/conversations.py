"""Three scripted conversations, in English, Korean and Chinese, behind the golden requests.

In each, the user plans a trip, changes plans, has things looked up by a tool, records expenses, and asks a question
twice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from arc_common import Document, Message, ToolCall

_START = datetime(2026, 3, 2, 9, tzinfo=UTC)
_LOOK_UP_EVERY = 7
_ROWS = (3, 24, 80, 200)
"""Number of lines in each lookup's result: short and long ones."""


@dataclass(frozen=True, slots=True)
class Script:
    """The texts of a conversation in one language.

    Args:
        instructions: The system prompt.
        talk: Exchanges, written by hand.
        expense: Templates of recording an expense; take `day`, `what`, `where` and `sum`.
        things: Purchases and their places.
        look_up: Templates of a lookup and its answer; take `number`.
        row: A line of a lookup's result; takes `number`, `place` and `day`.
        places: Places of parcels.
        documents: Documents about services.
        memories: Memories of the user from other conversations.
        artifact: A search result.
        questions: The questions of the two recorded turns; the first was asked before.
    """

    instructions: str
    talk: tuple[tuple[str, str], ...]
    expense: tuple[str, str]
    things: tuple[tuple[str, str], ...]
    look_up: tuple[str, str]
    row: str
    places: tuple[str, ...]
    documents: tuple[str, ...]
    memories: tuple[str, ...]
    artifact: str
    questions: tuple[str, str]


_ENGLISH = Script(
    instructions="You are a patient travel assistant. Answer in one or two sentences.",
    talk=(
        ("Hi! We want to go to Lisbon in August, the four of us.", "Lovely. Which dates do you have in mind?"),
        ("We fly out on 9 August and come back on the 23rd.", "Noted: 9 to 23 August. From which airport?"),
        ("From Eindhoven. My booking code is HN-48213.", "Thank you, I have HN-48213."),
        ("Our budget for the hotel is 1,850 euros at most.", "Understood, I will stay below 1,850 euros."),
        ("I'm allergic to penicillin, in case that matters for the insurance.", "It does; I will mention it there."),
        ("Please never book anything with a night train. My wife can't sleep in them.", "No night trains, then."),
        ("My daughter Sofie is seven and my son Bram is eleven.", "Good ages for the oceanarium."),
        ("What do you think of the Alfama quarter?", "It is old and steep, and full of music in the evening."),
        ("Steep is difficult. My mother-in-law uses a wheelchair.", "Then the flat streets of Belém suit you better."),
        ("Send invoices to billing@northpier.example and nowhere else.", "Invoices go to billing@northpier.example."),
        ("What is the booking code, and when do we fly out?", "The code is HN-48213, and you fly out on 9 August."),
        ("I work in purchasing for a packaging company, so I read contracts all day.", "Then I will be precise."),
        ("The meeting with the landlord moved to Thursday at three.", "Thursday at 15:00, noted."),
        ("If it rains we go to the tile museum instead of the beach.", "A fine plan for a wet day."),
        ("Do you know a good bakery near Belém?", "Pastéis de Belém is the famous one; come before nine."),
        ("We'd like a room facing south, on the tenth floor or above.", "I will ask for a high room facing south."),
        ("Call Marta at +34 600 555 019 if anything goes wrong.", "I have Marta's number."),
        ("Actually we have to fly a day later: on 10 August.", "Changed: you leave on 10 August now."),
        ("The hotel wrote that they only have a room on the sixth floor.", "Shall I look for another hotel?"),
        ("No, the sixth floor is fine after all.", "Then the sixth floor it is."),
        ("My car's number plate is K-738-XB; the car park wants it.", "I will give them K-738-XB."),
        ("Don't cancel anything without asking me first.", "I will always ask you before I cancel."),
        ("I prefer to pay by bank transfer.", "I will choose bank transfer wherever they take it."),
        ("We moved last week: we live at Kerkstraat 90 in Utrecht now.", "I have changed your address."),
        ("Sofie got a cat called Miso, so somebody has to feed it in August.", "Who could do that?"),
        ("Our neighbour Ilse will. She has the spare key.", "Good, then the cat is looked after."),
        ("The refund of 318.50 euros still hasn't arrived.", "It usually takes ten working days."),
        ("How many bags may we take?", "One cabin bag each, and two suitcases of 23 kilos in all."),
        ("I get up at half past six and run eight kilometres. Is there a park?", "Parque Eduardo VII is close."),
        ("Thanks. Let's go on tomorrow, I have to pick up the children.", "Until tomorrow!"),
    ),
    expense=(
        "Please note an expense for day {day}: {what} at {where}, {sum} euros.",
        "Noted for day {day}: {sum} euros for {what}.",
    ),
    things=(
        ("lunch", "Café Sol"),
        ("train tickets", "the station in Sintra"),
        ("sun cream", "the pharmacy on the corner"),
        ("a taxi", "the airport"),
        ("museum tickets", "the Gulbenkian"),
        ("ice cream for everybody", "Santini"),
        ("a hat", "the market hall"),
    ),
    look_up=("Where is parcel {number} by now?", "Parcel {number} is on its way; the newest line says where."),
    row="{day} March: parcel {number} scanned in {place}.",
    places=("Utrecht", "Antwerp", "Lille", "Bordeaux", "Burgos", "Porto", "Lisbon"),
    documents=(
        "Bookings can be changed free of charge until 48 hours before departure. Later changes cost 35 euros each.",
        "Suitcases over 23 kilos cost 12 euros a kilo. Wheelchairs travel free and do not count as luggage.",
        "Refunds are paid to the account that the booking was paid from, within ten working days.",
        "The hotel's breakfast is served from 06:30 to 10:30; on Sundays until 11:30.",
    ),
    memories=("Ann prefers window seats.", "Ann's booking last year was for two people.", "Ann is a vegetarian."),
    artifact="Flight TP 1234 to Lisbon departs at 07:35 from gate 12; the booking desk opens at 05:00.",
    questions=(
        "What is the booking code, and when do we fly out?",
        "And until when can that be changed for free?",
    ),
)

_KOREAN = Script(
    instructions="당신은 친절한 여행 도우미입니다. 한두 문장으로 답하세요.",
    talk=(
        ("안녕하세요! 네 식구가 8월에 부산에 가려고 해요.", "좋네요. 날짜는 정하셨나요?"),
        ("8월 9일에 출발해서 23일에 돌아와요.", "8월 9일부터 23일까지로 적어 두겠습니다. 어디서 출발하세요?"),
        ("수서역에서요. 예약 번호는 HN-48213이에요.", "네, HN-48213으로 확인했습니다."),
        ("호텔 예산은 최대 185만 원이에요.", "185만 원을 넘지 않게 찾아보겠습니다."),
        ("저는 페니실린 알레르기가 있어요. 여행자 보험에 필요할까요?", "네, 보험 서류에 적어 두겠습니다."),
        ("야간 버스는 절대 예약하지 마세요. 남편이 잠을 못 자요.", "야간 버스는 빼겠습니다."),
        ("딸 서연이는 일곱 살이고 아들 민준이는 열한 살이에요.", "아쿠아리움을 좋아할 나이네요."),
        ("감천문화마을은 어떤가요?", "예쁘지만 계단이 많고 가파릅니다."),
        ("계단은 힘들어요. 시어머니가 휠체어를 타시거든요.", "그럼 평평한 해운대 쪽이 낫겠습니다."),
        ("청구서는 billing@northpier.example 로만 보내 주세요.", "청구서는 그 주소로만 보내겠습니다."),
        ("예약 번호가 뭐였고, 출발은 언제였죠?", "예약 번호는 HN-48213이고 8월 9일에 출발하세요."),
        ("저는 포장재 회사에서 구매를 맡고 있어서 계약서를 자주 봐요.", "그럼 조건을 정확하게 말씀드릴게요."),
        ("집주인과의 약속이 목요일 오후 세 시로 바뀌었어요.", "목요일 오후 3시로 적어 두었습니다."),
        ("비가 오면 해수욕장 대신 박물관에 갈 거예요.", "비 오는 날에 좋은 계획이네요."),
        ("해운대 근처에 맛있는 빵집이 있나요?", "역 앞의 옵스가 유명합니다. 아침 일찍 가세요."),
        ("남향 방으로, 10층 이상이면 좋겠어요.", "10층 이상의 남향 방을 요청하겠습니다."),
        ("문제가 생기면 지영 씨에게 010-5550-0190으로 전화해 주세요.", "지영 씨 번호를 저장했습니다."),
        ("하루 늦게 가야겠어요. 8월 10일에 출발할게요.", "출발을 8월 10일로 바꾸었습니다."),
        ("호텔에 6층 방밖에 없다고 하네요.", "다른 호텔을 찾아볼까요?"),
        ("아니요, 6층도 괜찮아요.", "그럼 6층으로 하겠습니다."),
        ("차 번호는 12가 3456이에요. 주차장에서 필요하대요.", "주차장에 12가 3456으로 알려 두겠습니다."),
        ("저한테 물어보지 않고 취소하지 마세요.", "취소하기 전에 꼭 여쭤보겠습니다."),
        ("저는 계좌 이체를 선호해요.", "가능하면 계좌 이체로 하겠습니다."),
        ("지난주에 이사했어요. 지금은 서울 마포구 월드컵로 90에 살아요.", "주소를 바꾸어 두었습니다."),
        ("서연이가 고양이 미소를 키워서 8월에 누가 밥을 줘야 해요.", "부탁할 분이 계신가요?"),
        ("옆집 은주 씨가 해 주기로 했어요. 열쇠도 맡겼어요.", "그럼 고양이 걱정은 없겠네요."),
        ("환불금 318,500원이 아직 안 들어왔어요.", "보통 영업일로 열흘 정도 걸립니다."),
        ("짐은 몇 개까지 되나요?", "한 사람당 손가방 하나와, 모두 합쳐 23킬로 가방 두 개입니다."),
        ("저는 아침 여섯 시 반에 일어나서 8킬로를 뛰어요. 공원이 있나요?", "동백섬 산책로가 가깝습니다."),
        ("고마워요. 아이들을 데리러 가야 해서 내일 계속해요.", "내일 뵙겠습니다!"),
    ),
    expense=(
        "{day}일째 지출을 적어 주세요: {where}에서 {what}, {sum}원이요.",
        "{day}일째에 {what} {sum}원으로 적었습니다.",
    ),
    things=(
        ("점심", "밀면집"),
        ("기차표", "부전역"),
        ("선크림", "길모퉁이 약국"),
        ("택시", "부산역"),
        ("입장권", "시립미술관"),
        ("빙수 네 그릇", "해변 카페"),
        ("모자", "국제시장"),
    ),
    look_up=("택배 {number}번은 지금 어디에 있나요?", "택배 {number}번은 오는 중입니다. 마지막 줄에 위치가 있어요."),
    row="3월 {day}일: 택배 {number}번이 {place}에서 확인되었습니다.",
    places=("서울", "용인", "천안", "대전", "김천", "대구", "부산"),
    documents=(
        "예약은 출발 48시간 전까지 무료로 변경할 수 있습니다. 그 뒤에는 한 번에 35,000원이 듭니다.",
        "23킬로가 넘는 가방은 1킬로에 12,000원입니다. 휠체어는 무료이며 짐으로 세지 않습니다.",
        "환불은 결제한 계좌로 영업일 열흘 안에 지급됩니다.",
        "호텔 조식은 06:30부터 10:30까지이고, 일요일에는 11:30까지입니다.",
    ),
    memories=("민지는 창가 자리를 좋아한다.", "민지는 작년에 두 사람 자리를 예약했다.", "민지는 채식을 한다."),
    artifact="부산행 KTX 1234편은 12번 승강장에서 07시 35분에 출발하고 예약 창구는 5시에 엽니다.",
    questions=("예약 번호가 뭐였고, 출발은 언제였죠?", "그건 언제까지 무료로 바꿀 수 있나요?"),
)

_CHINESE = Script(
    instructions="你是一位耐心的旅行助手。请用一两句话回答。",
    talk=(
        ("你好！我们一家四口八月想去里斯本。", "真不错。日期定了吗？"),
        ("我们8月9日出发，23日回来。", "记下了：8月9日到23日。从哪个机场走？"),
        ("从上海走。我的订单号是 HN-48213。", "好的，订单号是 HN-48213。"),
        ("酒店的预算最多是14500元。", "明白，我会控制在14500元以内。"),
        ("我对青霉素过敏，保险上要不要写？", "要的，我会写在保险单上。"),
        ("千万不要订夜车，我太太在车上睡不着。", "好的，不订夜车。"),
        ("我女儿小雨七岁，儿子小杰十一岁。", "这个年纪去海洋馆正合适。"),
        ("阿尔法玛老城区怎么样？", "那里很老，坡也陡，晚上到处是音乐。"),
        ("坡陡不行，我岳母坐轮椅。", "那么平坦的贝伦区更合适。"),
        ("发票只能寄到 billing@northpier.example，不要寄到别的地方。", "发票只寄到这个地址。"),
        ("订单号是多少？什么时候出发？", "订单号是 HN-48213，8月9日出发。"),
        ("我在一家包装公司负责采购，天天看合同。", "那我会把条款说清楚。"),
        ("跟房东的会改到星期四下午三点了。", "记下了，星期四下午三点。"),
        ("如果下雨，我们就不去海边，改去瓷砖博物馆。", "下雨天这样安排很好。"),
        ("贝伦区附近有好吃的面包店吗？", "贝伦蛋挞店最有名，最好九点以前去。"),
        ("我们想要一间朝南的房间，最好在十楼以上。", "我会申请十楼以上朝南的房间。"),
        ("有问题请打玛尔塔的电话 +34 600 555 019。", "已经记下玛尔塔的电话。"),
        ("我们得晚一天走，改成8月10日出发。", "已改为8月10日出发。"),
        ("酒店说只剩六楼的房间了。", "要不要换一家酒店？"),
        ("不用，六楼也可以。", "那就订六楼。"),
        ("我的车牌号是浙A·7K358，停车场要用。", "我会把车牌号告诉停车场。"),
        ("没有问过我，不要取消任何预订。", "取消之前我一定先问您。"),
        ("我喜欢用银行转账付款。", "能转账的地方我都用转账。"),
        ("我们上周搬家了，现在住在杭州市文三路90号。", "地址已经更新。"),
        ("小雨养了一只叫咪咪的猫，八月得有人喂。", "有人可以帮忙吗？"),
        ("邻居陈姐会来喂，她有备用钥匙。", "那猫就有人照顾了。"),
        ("318.50元的退款还没有到账。", "一般要十个工作日。"),
        ("我们可以带几件行李？", "每人一件手提行李，另外一共两件23公斤的箱子。"),
        ("我每天六点半起床，跑八公里。附近有公园吗？", "爱德华七世公园很近。"),
        ("谢谢，我得去接孩子了，明天再聊。", "明天见！"),
    ),
    expense=(
        "请记一笔第{day}天的支出：在{where}，{what}，{sum}元。",
        "已记下第{day}天：{what}{sum}元。",
    ),
    things=(
        ("午饭", "阳光咖啡馆"),
        ("火车票", "辛特拉车站"),
        ("防晒霜", "街角的药店"),
        ("打车", "机场"),
        ("门票", "古尔本基安美术馆"),
        ("冰淇淋", "海边小店"),
        ("帽子", "菜市场"),
    ),
    look_up=("包裹{number}现在到哪儿了？", "包裹{number}在路上，最后一行写着位置。"),
    row="3月{day}日：包裹{number}在{place}扫描。",
    places=("杭州", "上海", "西安", "兰州", "乌鲁木齐", "马德里", "里斯本"),
    documents=(
        "出发前48小时可以免费更改订单，之后每次更改收费260元。",
        "超过23公斤的箱子每公斤收费90元。轮椅免费，不算行李。",
        "退款在十个工作日内退回付款时的账户。",
        "酒店早餐时间是06:30到10:30，星期天到11:30。",
    ),
    memories=("小李喜欢靠窗的座位。", "小李去年预订了两个人的位置。", "小李吃素。"),
    artifact="飞往里斯本的TP 1234航班07:35从12号登机口出发，订票窗口五点开门。",
    questions=("订单号是多少？什么时候出发？", "那什么时候之前可以免费更改？"),
)

SCRIPTS = {"en": _ENGLISH, "ko": _KOREAN, "zh": _CHINESE}
LANGUAGES = tuple(SCRIPTS)


def conversation(language: str) -> list[Message]:
    """Return a language's messages, oldest first, with fixed ids and times."""
    return [_stamped(message, place) for place, message in enumerate(_said(SCRIPTS[language]))]


def documents(language: str) -> list[Document]:
    """Return a language's documents."""
    return [Document(text, id=f"doc{place}") for place, text in enumerate(SCRIPTS[language].documents)]


def _said(script: Script) -> Iterator[Message]:
    for day, exchange in enumerate(script.talk, start=1):
        for user, assistant in (exchange,) if day % 3 else (exchange, _expense(script, day)):
            yield Message("user", user)
            yield Message("assistant", assistant)
        if day % _LOOK_UP_EVERY == 0:
            yield from _look_up(script, day)


def _expense(script: Script, day: int) -> tuple[str, str]:
    what, where = script.things[day % len(script.things)]
    told, noted = script.expense
    amount = f"{day * 37 % 90 + 4}.{day * 7 % 10}0"
    return told.format(day=day, what=what, where=where, sum=amount), noted.format(day=day, what=what, sum=amount)


def _look_up(script: Script, day: int) -> Iterator[Message]:
    asked, answered = script.look_up
    number = 4700 + day
    rows = _ROWS[day // _LOOK_UP_EVERY - 1]
    result = "\n".join(
        script.row.format(number=number, place=script.places[row % len(script.places)], day=row % 28 + 1)
        for row in range(rows)
    )
    yield Message("user", asked.format(number=number))
    yield Message("assistant", None, tool_calls=(ToolCall("look_up_parcel", {"number": number}, id=f"call_{day}"),))
    yield Message("tool", result, tool_call_id=f"call_{day}", name="look_up_parcel")
    yield Message("assistant", answered.format(number=number))


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
