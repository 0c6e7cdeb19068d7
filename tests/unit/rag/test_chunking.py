"""Chunks are never too large, lose nothing, and are cut at natural boundaries."""

from itertools import pairwise

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from arc_common import Document, HeuristicTokenCounter, InvalidInputError
from arc_common.rag.chunking import Chunker
from arc_common.text.sentences import grapheme_break
from tests.support.texts import COUNTERS, texts

WORDS = HeuristicTokenCounter()


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
@example(text=" ```\nx = 1\n```\n", size=12, overlap=0)
@given(text=texts, size=st.integers(12, 80), overlap=st.integers(0, 11))
def test_no_chunk_is_too_large_and_nothing_is_lost(counter, text, size, overlap):
    """Each is a verbatim part within its tokens; the next one begins without a gap and extends further."""
    chunks = Chunker(counter, size=size, overlap=overlap).split(text)
    covered = 0
    for before, chunk in zip([None, *chunks], chunks, strict=False):
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip() == chunk.text != ""
        assert chunk.tokens == counter.count(chunk.text) <= size
        assert not text[covered : chunk.start].strip()
        assert chunk.end > covered
        assert before is None or chunk.start > before.start
        covered = chunk.end
    assert not text[covered:].strip()


@given(texts, st.integers(12, 80))
def test_without_overlap_chunks_divide_the_text(text, size):
    chunks = Chunker(WORDS, size=size, overlap=0).split(text)
    assert all(before.end <= after.start for before, after in pairwise(chunks))


PARAGRAPH = " ".join(f"Sentence number {i} says a little about the harbour and its boats." for i in range(12))
ARTICLE = "\n\n".join(f"{PARAGRAPH} This was paragraph {n}." for n in range(20))


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
def test_ordinary_text_comes_in_two_to_three_hundred_tokens(counter):
    """Neighbours overlap by 30 to 60 tokens, and both ends are at sentences."""
    chunks = Chunker(counter).split(ARTICLE)
    assert len(chunks) > 10
    for chunk in chunks[:-1]:
        assert 200 <= chunk.tokens <= 300
    for before, after in pairwise(chunks):
        assert 30 <= counter.count(ARTICLE[after.start : before.end]) <= 60
    for chunk in chunks:
        assert chunk.text.startswith(("Sentence", "This"))
        assert chunk.text.endswith(".")


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
@pytest.mark.parametrize(
    "sentence",
    [
        pytest.param("저는 매일 아침 항구까지 걸어가서 배가 들어오는 것을 봐요. ", id="Korean"),
        pytest.param("我每天早上走到港口，看船进来，然后喝一杯咖啡。", id="Chinese"),
        pytest.param("わたしは毎朝、港まで歩いて船が入るのを見ます。", id="Japanese"),
    ],
)
def test_other_scripts_are_cut_at_sentences_too(counter, sentence):
    chunks = Chunker(counter).split(sentence * 100)
    for chunk in chunks[:-1]:
        assert 200 <= chunk.tokens <= 300
        assert chunk.text.endswith(sentence.strip()[-1])
        assert chunk.text.startswith(sentence[:2])


def test_a_paragraph_ends_a_chunk():
    """It does if the chunk is then two thirds full; otherwise the last sentence does."""
    first = "Short words make one line. " * 34
    text = f"{first}\n\n{first}"
    chunks = Chunker(WORDS, size=300, overlap=0).split(text)
    assert WORDS.count(first.strip()) < 300
    assert chunks[0].text == first.strip()
    assert [chunk.start for chunk in chunks] == [0, text.index("\n\n") + 2]


CODE = "```python\n" + "\n".join(f"value_{i} = compute({i})" for i in range(12)) + "\n```"


def test_a_paragraph_that_is_larger_than_what_it_is_part_of_does_not_end_a_chunk():
    """Counters that look at whole texts, like the default one, may count less for a longer text."""

    class Excitable:
        name = "excitable"

        def count(self, text):
            words = len(text.split())
            return words + 5 * (words > 5 and text.endswith("!"))

        def count_batch(self, texts):
            return [self.count(text) for text in texts]

    text = "One two three four. Five six seven!\n\nEight. Nine ten eleven."
    chunks = Chunker(Excitable(), size=8, overlap=0).split(text)
    assert [(chunk.text, chunk.tokens) for chunk in chunks] == [
        ("One two three four. Five six seven!\n\nEight.", 8),
        ("Nine ten eleven.", 3),
    ]


def test_code_is_not_divided():
    text = f"{PARAGRAPH}\n\n{CODE}\n\n{PARAGRAPH}\n\n{CODE}\n\n{PARAGRAPH}"
    for size in (150, 200, 300):
        chunks = Chunker(WORDS, size=size, overlap=40).split(text)
        assert [chunk.text.count(CODE) for chunk in chunks if "value_" in chunk.text] == [1, 1]


def test_code_begins_a_chunk_rather_than_being_divided():
    before = "A short line before it."
    chunks = Chunker(WORDS, size=WORDS.count(CODE) + 1, overlap=10).split(f"{before}\n\n{CODE}")
    assert [chunk.text for chunk in chunks] == [before, CODE]


def test_a_fence_ends_with_its_own_kind():
    """Shorter fences and other marks inside it are part of the block."""
    block = f"````md\n{CODE}\n~~~\n\n{CODE}\n````"
    chunks = Chunker(WORDS, size=WORDS.count(block), overlap=10).split(f"{PARAGRAPH}\n\n{block}\n\n{PARAGRAPH}")
    assert sum(block in chunk.text for chunk in chunks) == 1


def test_a_fence_in_a_list_may_be_indented():
    block = "\n".join(f"    {line}" for line in CODE.splitlines())
    chunks = Chunker(WORDS, size=WORDS.count(block), overlap=10).split(f"{PARAGRAPH}\n\n{block}\n\n{PARAGRAPH}")
    assert sum(block.strip() in chunk.text for chunk in chunks) == 1


def test_a_block_of_code_that_does_not_fit_is_cut_at_lines():
    chunks = Chunker(WORDS, size=60, overlap=10).split(CODE)
    assert len(chunks) > 1
    for line in CODE.splitlines():
        assert any(line in chunk.text.splitlines() for chunk in chunks)


def test_a_giant_sentence_is_cut_at_white_space():
    text = " ".join(f"word{i}" for i in range(3_000))
    chunks = Chunker(WORDS).split(text)
    assert {word for chunk in chunks for word in chunk.text.split()} == set(text.split())
    assert all(200 <= chunk.tokens <= 300 for chunk in chunks[:-1])


def test_a_giant_word_is_cut_between_characters():
    whole = "👩‍👩‍👧‍👦"
    chunks = Chunker(WORDS, size=43, overlap=7).split(whole * 300)
    assert all(chunk.text.replace(whole, "") == "" for chunk in chunks)


def test_an_overlap_may_begin_within_a_sentence():
    text = f"{' '.join(['boat'] * 110)}. A short one. " * 20
    chunks = Chunker(WORDS).split(text)
    assert len(chunks) > 5
    for before, after in pairwise(chunks):
        assert 30 <= WORDS.count(text[after.start : before.end]) <= 60


def test_no_more_than_half_of_a_chunk_is_overlap():
    assert len(Chunker(WORDS, size=300, overlap=299).split(ARTICLE)) < 3 * len(Chunker(WORDS).split(ARTICLE))


def test_a_long_sentence_behind_a_short_one_is_begun():
    text = f"A short one. {' '.join(['word'] * 400)}. Another."
    chunks = Chunker(WORDS).split(text)
    assert all(200 <= chunk.tokens <= 300 for chunk in chunks[:-1])


def test_a_size_that_holds_nothing_is_refused():
    """The alternatives would be a chunk that is too large, or a text without its emoji."""
    with pytest.raises(InvalidInputError, match="size"):
        Chunker(COUNTERS[2], size=1, overlap=0).split("𓀀𓀁")
    assert [chunk.text for chunk in Chunker(WORDS, size=1, overlap=0).split("각국각")] == ["각", "국", "각"]


def test_useless_numbers_are_refused():
    cases = [
        *((wrong, 0, "size") for wrong in (0, -1, None, "9", True, 2.5, float("nan"))),
        *((10, wrong, "overlap") for wrong in (10, -1, None, "9", True, 2.5, float("nan"))),
    ]
    for size, overlap, field in cases:
        with pytest.raises(InvalidInputError, match=field):
            Chunker(WORDS, size=size, overlap=overlap)


def test_chunks_of_a_document_know_where_they_stand():
    """They have its source and metadata, their place and an id; the document is not modified."""
    document = Document(ARTICLE, id="guide", source="The guide", metadata={"lang": "en"})
    chunks = Chunker(WORDS).split_document(document)
    assert document.metadata == {"lang": "en"}
    assert [chunk.id for chunk in chunks[:2]] == ["guide#0", "guide#1"]
    for index, chunk in enumerate(chunks):
        assert chunk.source == "The guide"
        assert chunk.text == ARTICLE[chunk.metadata["chunk_start"] : chunk.metadata["chunk_end"]]
        assert chunk.metadata["lang"] == "en"
        assert chunk.metadata["document_id"] == "guide"
        assert chunk.metadata["chunk_index"] == index
    assert Chunker(WORDS).split_document(Document("Hello."))[0].id is None
    assert Chunker(WORDS).split_document(Document(" \n ")) == []


@given(st.text(alphabet=st.sampled_from("aé\u0301\u200d👩👧🏽🇰🇷🇯🇵각\u1100\u1161\u11a8\r\n \ufe0f"), max_size=12))
def test_borders_of_characters_are_unicodes(text):
    borders = {match.start() for match in regex.finditer(r"\X", text)} | {len(text)}
    for offset in range(len(text) + 1):
        found = grapheme_break(text, offset)
        assert found in borders
        assert found == max(border for border in borders if border <= offset) or "\u200d" in text[found:offset]


def test_a_long_run_of_marks_is_no_character():
    text = "a" + "\u0301" * 100_000
    assert grapheme_break(text, 90_000) == 90_000


def test_what_is_no_text_is_refused():
    for wrong in [None, b"text", 5, ["text"]]:
        with pytest.raises(InvalidInputError, match="text"):
            Chunker(WORDS).split(wrong)
        for given_ in (wrong, "text"):
            with pytest.raises(InvalidInputError, match="document"):
                Chunker(WORDS).split_document(given_)
            with pytest.raises(InvalidInputError, match="token_counter"):
                Chunker(given_)
