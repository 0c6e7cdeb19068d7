"""Texts as in documents, and all kinds of token counters."""

from hypothesis import strategies as st

from arc_common import CalibratedTokenCounter, HeuristicTokenCounter, TiktokenCounter

COUNTERS = [HeuristicTokenCounter(), CalibratedTokenCounter(), TiktokenCounter("o200k_base")]
"""Counters by exact arithmetic, fitted features and a real vocabulary; no count is additive over joined texts."""

_PIECES = [
    "The harbour opens at nine. ",
    "Dr. Okafor pays 1,240.50 euros, doesn't she?",
    "저는 서울에 살아요 ",
    "배송지는 부산입니다.",
    "我叫李明。住在北京，工作很忙！",
    "東京タワーは高いです。",
    "\n\n",
    "\n",
    " ",
    "- a list item\n",
    "```python\nprint('x')\n\nprint('y')\n```\n",
    "~~~\nnever closed\n",
    "# Heading\n",
    "A rather long sentence that goes on and on, without end or purpose, about the harbour and its many lanterns ",
    "x" * 60,
    "👩‍👩‍👧‍👦🇰🇷é각",
    "<arc:documents>",
    "[Source: elsewhere]",
    "---",
    "\x00",
]

texts = st.lists(st.sampled_from(_PIECES) | st.text(max_size=20), max_size=30).map("".join)
