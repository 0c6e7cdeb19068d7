"""Chinese and Japanese: the forms of their questions, suppositions and statements; words: `chinese_japanese.txt`."""

from arc_common.text.languages.language import Language, Pattern, vocabulary

_WORDS, _PHRASES = vocabulary("chinese_japanese", whole_words=False)
_SHORT = r"[^，、。]{0,8}[\d一二两三四五六七八九十百千万][^，、。]{0,8}"
_COMMON = "|".join(sorted(_WORDS["common_words"], key=len, reverse=True))
_NUMERAL = "[〇一二两兩三四五六七八九十百千万]"
_SINGLE, _TASK = _PHRASES["single_valued"], _PHRASES["text_tasks"]

CHINESE_JAPANESE = Language(
    name="Chinese or Japanese",
    script="han and kana",
    is_spaced=False,
    **_WORDS,
    stop_word=Pattern(rf"{_PHRASES['stops']}|[的吗嗎呢吧了是]|[はがをにでとのか]"),
    common_word=Pattern(
        rf"{_NUMERAL}{{2,}}|{_NUMERAL}[个個年月日号號天次点點时時分回人件位只块元円度周週岁歳本枚]|{_COMMON}"
    ),
    follow_up=Pattern(
        r"\s*(?:那么|那麼|那(?=[，,])|然后|另外|还有|那.{0,8}呢|それで|では|じゃあ|それじゃ|あと(?=は|、))"
    ),
    pointer=Pattern(
        r"[它她他]们?|这[个些里]?|那[个些里]|這[個些裡]?|那[個裡]"
        r"|[そこあ](?:れ|の(?![ぁ-ん])|ちら|こ(?=は|が|の|に|で|へ|を))"
    ),
    lead_ins=Pattern(rf"^(?:{_PHRASES['interjections']}[，,。、\s!！]{{1,3}})"),
    seeking=Pattern(
        rf"(?P<asked>^(?!.*(?:可以|麻[烦煩]|[请請])).*[吗嗎][。！!\s]*$|(?<![えれけ]ません)(?<![えれけ]ます)か[。\s]*$|是不是|是否)|{_PHRASES['questions']}|{_PHRASES['requests']}"
        rf"|{_PHRASES['recollections']}"
        r"|么[。\s]*$|[几幾](?!乎)|([\u3400-\u9fff])不\2|(?<![邀申])[请請](?![客假])|どう(?![もぞ])"
        r"|よね[。\s]*$|(?:か|[てで]|(?<!にち|ばん)は)[。\s]*$"
    ),
    confirming=Pattern(rf"[，,、]?\s?{_PHRASES['tags']}[。？?！!\s]*$"),
    condition=Pattern(rf"^[^，,、。]{{0,8}}{_PHRASES['conditions']}|(?:たら|れば|なら|的话|的話)(?=[，,、]|$)"),
    listener=Pattern(r"[你您妳]|あなた"),
    lasting=Pattern(
        rf"我(?:们)?(?:现在|目前|已经|一直|平时)?{_PHRASES['doings']}|{_PHRASES['states']}|{_PHRASES['people']}(?:は|が|の).+"
    ),
    bare=Pattern(r"^[^はがをも]*\d[^はがをも]*です\W*$"),
    wanting=Pattern(rf"{_PHRASES['wanted']}|想(?!念)|能(?=游|在|够|去)|(?<!重)要(?!求|点)|吧[。！!\s]*$|吧[，,]"),
    forbidding=Pattern(
        rf"(?P<limit>^(?:[^，、。\d]{{0,4}}{_PHRASES['limits']}.{{1,12}}|{_SHORT}{_PHRASES['final_limits']}|[^，、。]{{1,9}}以外)(?:就行|都行|です|で|でお願いします)?[。！!]?$)"
        rf"|{_PHRASES['forbidden']}|(?:^|[，,我先也])别(?![是的人处墅名样致说忘急客担])|以[内下](?:都|就)?(?:可以|行)|只有.{{1,12}}才"
    ),
    vague=Pattern(r"[这那](?:[里家个间些边儿]|样)|^(?:[它她他]们?|这|那|這|[そこあ](?:れ|の|ちら|こ))"),
    denying=Pattern(rf"不(?!同|错|过(?!敏|期)|仅)|{_PHRASES['denied']}|{_PHRASES['leaving']}"),
    replacing=Pattern(
        r"([^，、。はがを]{1,12})(?:ではなく|じゃなくて|の代わりに)|(?:而不是|不是)([^，。]{1,12}?)(?=，?而是|[，。]|$)"
    ),
    parting=Pattern("[，,；;、]"),
    subject=Pattern(r"[他她]|(?![我咱私僕俺今现目])[^，、。]{1,8}[はが]"),
    naming=Pattern(
        r"^(?:今の|现在|今は)?(?:我们?的?|私の|うちの)?(?P<name>[^，、。はが是的现]{1,8})"
        r"(?:现在)?(?:は|が|是|叫)(?:今は?)?(?P<value>[^，、。\d]{2,12}?)(?:です|だ)?$"
    ),
    relations={
        "home": Pattern(r"(?:住在|搬到了?)([\u3400-\u9fff]{2,4})|([\u3400-\u9fff]{2,4})に(?:住んで|引っ越)"),
        "employer": Pattern(
            r"(?<!现)在([\u3400-\u9fffA-Za-z]{2,10})(?:工作|上班)|([ァ-ヿ\u3400-\u9fffA-Za-z]{2,12})(?:で働|に勤め)"
        ),
    },
    attribute=Pattern(
        rf"(?P<name>{_SINGLE}[^\W\d]{{0,4}}?)(?:现在|已经)?(?:是|为|改成|改到|改为|在|は|を|が|：|:)(?P<value>.+)"
    ),
    self_quoted="[我咱俺私僕]",
    text_task=Pattern(
        rf"(?m)(?:^|(?<=[。！？!?，,]))[^:：\n。！？]{{0,40}}?{_TASK}[^:：\n。！？「“]{{0,20}}[:：]\s{{0,3}}"
        rf"|^[^\n]{{0,12}}(?:下面|下列|以下|下記|[这這次][篇段封句の])[^\n]{{0,30}}?{_TASK}[^\n]{{0,20}}\n"
    ),
    text_in_task=Pattern(rf"[“「『\"][^“”「」『』\"\n]{{3,400}}[”」』\"](?=[^\n。！？“「]{{0,15}}{_TASK})"),
)
