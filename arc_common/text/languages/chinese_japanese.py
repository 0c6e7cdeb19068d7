"""Chinese and Japanese: a few simple markers besides the values that all languages share."""

import re

from arc_common.facts import FactCategory
from arc_common.text.languages.language import Language, Signal

STOP_WORD = re.compile(
    "请问|請問|什么|什麼|哪里|哪裡|哪儿|哪个|哪個|哪些|哪|谁|誰|多少|怎么|怎麼|怎样|怎樣|为什么|為什麼|为何"
    "|何时|如何|[的吗嗎呢吧了是]"
    "|なに|なん|何|いつ|どこ|だれ|どの|どれ|どう|なぜ|いくら|いくつ|でしょうか|ですか|ますか|ましたか|です"
    "|ます|ました|[はがをにでとのか]"
)
"""Question words and markers in Chinese and Japanese, and the particles of every sentence."""


def _signal(name: str, category: FactCategory, weight: float, *patterns: str) -> Signal:
    return Signal(name, category, weight, re.compile("|".join(patterns)))


LEAD_INS = re.compile(
    r"^(?:(?:你好|您好|好的|谢谢|嗯|对了|另外|还有|那么?|行|好|请问|麻烦|あの|えっと|はい|ええ|それで"
    r"|ところで|ちなみに|あと|そして)[，,。、\s!！]{1,3})"
)
QUESTION = re.compile(r"(?:吗|呢|嘛|么|ですか|ますか|でしょうか|かな)?[?？]\W{0,3}$|(?:ですか|ますか|でしょうか)[。]?$")
REQUEST = re.compile(r"帮我|请你|能不能|可以.{0,4}(?:帮|给)|てくれ|てもらえ|ていただけ")
ASKING = re.compile(
    r"[^，,。；;]{0,40}(?:请问|請問|什么|什麼|怎么|怎麼|为什么|為什麼|多少|谁|誰|哪|有没有|有沒有|是不是"
    r"|能不能|可不可以|吗|嗎"
    r"|いつ|どこ|だれ|なぜ|どう|いくら|何|ですか|ますか)"
)
SEEKING = re.compile(
    r"吗|嗎|呢|么[。\s]*$|什么|什麼|怎么|怎麼|怎样|怎樣|多少|几(?!乎)|幾(?!乎)|谁|誰|哪|何|多[久大长長远遠]"
    r"|是否|能否|可否|有没有|有沒有"
    r"|([\u3400-\u9fff])不\1|可不可以|(?<![邀申])[请請](?![客假])|帮|幫|告诉|告訴|提醒|一下|一遍|查一|查查"
    r"|查[询詢]|找一|找找|推荐|推薦"
    r"|给我|給我|列出|[继繼][续續]|想知道|想[问問]|忘了|忘记|忘記|[记記]不|不[记記]得|[还還][记記]得|想不起"
    r"|不知道|来着|叫啥|啥"
    r"|上次|之前[说說提]|[刚剛]才"
    r"|いつ|どこ|だれ|なぜ|どう(?![もぞ])|どの|どれ|どんな|どっち|どちら|いくら|いくつ|なん|教えて|ください"
    r"|下さい|お願い|調べ|探し|覚えて"
    r"|忘れ|思い出せ|[わ分]からな|知りたい|聞きたい|もう一[度回]|この前|っけ|かな|よね[。\s]*$|(?:か|[てで]"
    r"|(?<!にち|ばん)は)[。\s]*$"
)
TAG = re.compile(r"(?:对吧|对吗|是吧|好吗|行吗|ですよね|よね|でしょう)[?？]\W{0,3}$")
GIVEN = re.compile(r"(?<=[，,、])(?:因为|因為|なぜなら)")
TASK = re.compile(r"推荐|推薦|告诉|告訴|介绍|介紹|解释|説明|教えて|調べて|おすすめ")
SUPPOSITION = re.compile(
    r"^(?:假如|假设|假設|要是)[^。]{1,60}(?:就好了|会怎|怎么办|呢)|もし[^。]{1,60}(?:たら|れば)(?:どう|いいのに)"
)
CONDITION = re.compile(r"^(?:如果|要是|假如|若是?|もし)|(?:たら|れば|なら|的话|的話)[，,、]?$")
REPORTED = re.compile(
    r"(?:不知道|想知道|问我?|問我?|不确定)[^，。]{0,20}(?:吗|是否|什么|怎么|谁|哪)|か(?:どうか)?(?:聞|知り"
    r"|分から|わから)"
)
CHIT_CHAT = re.compile(
    r"谢谢|感谢|你好|您好|再见|不客气|麻烦你|ありがとう|よろしく|すみません|こんにちは|お疲れ|教えて"
)

SIGNALS = (
    _signal(
        "禁止",
        FactCategory.CONDITION,
        0.7,
        r"不要|不能|不可以|禁止|请勿|千万别|绝对不|别(?:给|把|在|让|放|打|用|买|告诉)|不吃|ないで|禁止|だめ"
        r"|ダメ|てはいけ|食べられ(?:ない|ません)|絶対に",
    ),
    _signal(
        "过敏", FactCategory.CONDITION, 0.75, r"过敏|過敏|アレルギー|素食|清真|ベジタリアン|糖尿|喘息|哮喘|怀孕|妊娠"
    ),
    _signal(
        "条件",
        FactCategory.CONDITION,
        0.5,
        r"如果|除非|只有|只要|的话|必须|必須|一定要|以内|以上的|なければ(?:ならない|なりません)|場合(?:のみ"
        r"|は|だけ)|だけ|限り|たら、",
    ),
    _signal(
        "决定",
        FactCategory.DECISION,
        0.65,
        r"决定|就选|就订|就去|选了|改成|取消|说好|約定|にします|にしました|決めました|決めた|ことにし|キャンセル",
    ),
    _signal("偏好", FactCategory.GENERAL, 0.5, r"喜欢|更想|偏好|讨厌|不喜欢|宁愿|好き|嫌い|苦手|の方がいい|ほうがいい"),
    _signal(
        "身份",
        FactCategory.ENTITY,
        0.55,
        r"我(?:叫|是|在|住|姓)|名字|名叫|我(?:的)?(?:妈|爸|妻|丈夫|老公|老婆|儿子|女儿|姐|妹|哥|弟|同事|老板"
        r"|朋友)|私は|僕は|名前は|と申し|と言います|に住んで"
        r"|で働いて|(?:母|父|妻|夫|息子|娘|姉|妹|兄|弟)(?:は|が|の)",
    ),
    _signal(
        "状态", FactCategory.STATE, 0.5, r"坏了|搬(?:到|家)|现在|已经|不再|换了|壊れ|故障|引っ越|辞め|変わり|今は|もう"
    ),
    _signal(
        "需要",
        FactCategory.GENERAL,
        0.35,
        r"我(?:想|要|需要|打算|计划)|评分|人均|预算|想找|希望|つもり|予定|たいです|ほしい|予算",
    ),
    _signal("原因", FactCategory.GENERAL, 0.3, r"因为|由于|なので|だから|から、|ため"),
    _signal(
        "数量",
        FactCategory.NUMERIC,
        0.4,
        r"[一二两三四五六七八九十百]{1,4}(?:个|人|位|天|点|只|本|张|次|间|名|匹|枚|冊|時|歳|日|月)"
        r"|星期[一二三四五六日天]|周[一二三四五六日末]|[月火水木金土日]曜日?"
        r"|明天|后天|下周|下个月|明日|来週|来月|毎週|每周",
    ),
)

ASSISTANT = (
    _signal(
        "约定",
        FactCategory.DECISION,
        0.6,
        r"已(?:经)?(?:为您|帮您|预订|预约|取消|确认)|预订成功|予約(?:しました|が完了|いたしました)|承りました",
    ),
    _signal("编号", FactCategory.NUMERIC, 0.7, r"(?:单号|编号|订单号|确认号|预约号|番号|コード)(?:是|为|は|：|:)"),
)

JOINER = re.compile(r"(?<=[，、。；,;])")
"""The places where a long clause may be divided."""


CHINESE_JAPANESE = Language(
    name="Chinese or Japanese",
    script="han and kana",
    is_spaced=False,
    stop_word=STOP_WORD,
    signals=SIGNALS,
    assistant=ASSISTANT,
    lead_ins=LEAD_INS,
    question=QUESTION,
    request=REQUEST,
    task=TASK,
    asking=ASKING,
    seeking=SEEKING,
    tag=TAG,
    given=GIVEN,
    reported=REPORTED,
    supposition=SUPPOSITION,
    condition=CONDITION,
    chit_chat=CHIT_CHAT,
    joiner=JOINER,
)
