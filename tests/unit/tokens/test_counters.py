"""The heuristic counter keeps its rates; the exact one equals tiktoken and never waits for a network."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.protocols import TokenCounter
from arc_common.tokens.calibration import Correction
from arc_common.tokens.counters import HeuristicTokenCounter, TiktokenCounter, local_encoding

HEURISTIC = HeuristicTokenCounter()
ANY_CHARACTERS = st.text(st.characters(), max_size=60) | st.text(
    st.sampled_from("aZ9é .,\n\0中한あア🎉☀ж\ud800（"), max_size=60
)


def test_each_class_of_characters_has_its_rate() -> None:
    """The sum is rounded up once: the last text costs 15 + 16 + 12 + 12 twelfths."""
    cases = [
        ("", 0), ("hello", 2), ("안녕하세요", 4), ("🎉", 1), ("☀✂", 2), ("12345678", 2), ("éàüñ", 1),
        ("あいアイ日本", 4), ("𠀀𪜀㐀", 2), ("「。」", 2), ("ＡＢ！", 2), ("при", 1), ("." * 12, 4), (" \n\t\0" * 3, 4),
        ("hello 안녕 🎉!", 5),
    ]  # fmt: skip
    for text, tokens in cases:
        assert HEURISTIC.count(text) == tokens, text


@given(ANY_CHARACTERS, ANY_CHARACTERS)
def test_joining_costs_no_more_and_at_most_one_less(first: str, second: str) -> None:
    """Joined texts cost the sum of both, or one less because of a single rounding."""
    apart = HEURISTIC.count(first) + HEURISTIC.count(second)
    assert apart - 1 <= HEURISTIC.count(first + second) <= apart


@given(ANY_CHARACTERS)
def test_each_character_counts_by_itself(text: str) -> None:
    """Order does not matter, and twelve times a text is a whole number of tokens, with and without ASCII."""
    assert HEURISTIC.count(text) == HEURISTIC.count("".join(sorted(text)))
    assert HEURISTIC.count(text * 12 + "é" * 12) == HEURISTIC.count(text * 12) + 3


@given(st.lists(ANY_CHARACTERS, max_size=5))
def test_a_heuristic_batch_is_its_texts(texts: list[str]) -> None:
    assert HEURISTIC.count_batch(texts) == [HEURISTIC.count(text) for text in texts]


llama_index_core = pytest.importorskip("llama_index.core")
SHIPPED = Path(llama_index_core.__file__).parent / "_static" / "tiktoken_cache"
CL100K = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"  # the file name in tiktoken's cache

EXACT = TiktokenCounter("o200k_base")
ANY_TEXT = st.text(st.characters(), max_size=80) | st.text(st.sampled_from("aB1 \n\t가中🎉é.\0\ud800<|>"), max_size=80)


@pytest.fixture(scope="module")
def reference() -> tiktoken.Encoding:
    """Return tiktoken's own o200k_base, after loading the counter's, so that no example waits for it."""
    assert EXACT.count("loaded") == 1
    if "TIKTOKEN_CACHE_DIR" in os.environ:
        return tiktoken.get_encoding("o200k_base")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(SHIPPED)
    try:
        return tiktoken.get_encoding("o200k_base")
    finally:
        del os.environ["TIKTOKEN_CACHE_DIR"]


@given(text=ANY_TEXT)
def test_it_counts_what_tiktoken_counts(reference: tiktoken.Encoding, text: str) -> None:
    """Any text, with lone surrogates and NUL, counts like tiktoken's ordinary encoding."""
    assert EXACT.count(text) == len(reference.encode_ordinary(text))


@given(texts=st.lists(ANY_TEXT, max_size=5))
def test_an_exact_batch_is_its_texts(texts: list[str]) -> None:
    assert EXACT.count_batch(texts) == [EXACT.count(text) for text in texts]


def test_it_says_what_counts() -> None:
    """The name is the encoding's, also for a model; the empty text is 0; special tokens are text."""
    assert isinstance(EXACT, TokenCounter)
    assert EXACT.name == "tiktoken/o200k_base"
    assert TiktokenCounter("gpt-4o-mini").name == "tiktoken/o200k_base"
    assert TiktokenCounter("gpt-4").name == "tiktoken/cl100k_base"
    assert EXACT.count("") == 0
    assert EXACT.count("<|endoftext|>") > 1


def test_exact_counts_are_not_corrected() -> None:
    EXACT.observe(10_000, 15_000)
    assert EXACT.adopt_correction() == EXACT.correction == Correction()


@given(
    words=st.lists(st.sampled_from(["word", "Привет", "日本語", "a\n", "12,5", "x  y", "\n\n", "don't"]), min_size=8)
)
@settings(max_examples=30)
def test_cutting_a_long_text_changes_nothing(reference: tiktoken.Encoding, words: list[str]) -> None:
    """A text long enough to be split counts as it does in one piece."""
    text = " ".join(words) * (80_000 // len(" ".join(words)))
    assert EXACT.count(text) == len(reference.encode_ordinary(text))


def test_a_long_run_of_one_text_ends() -> None:
    """Degenerate texts neither hang nor panic (tiktoken alone panics on a million spaces)."""
    for text in ["a", " ", "\n", "=", "가", " x"]:
        assert 1_500 <= EXACT.count(text * 300_000) <= 2_000_000


def test_an_unknown_name_lists_the_known_ones() -> None:
    for name in ["gpt-nine", "", None, 5]:
        with pytest.raises(InvalidInputError, match=r"o200k_base.*gpt-4o"):
            TiktokenCounter(name)  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize("timeout", [-1, float("nan")], ids=repr)
def test_a_bad_timeout_is_refused(timeout: float) -> None:
    with pytest.raises(InvalidInputError, match="timeout"):
        TiktokenCounter(timeout=timeout)


def test_a_damaged_file_is_passed_over(tmp_path: Path) -> None:
    """A file without tiktoken's expected hash is ignored; the shipped one is used."""
    (tmp_path / CL100K).write_bytes(b"IQ== 0\n")
    assert TiktokenCounter("cl100k_base", cache_dir=tmp_path).count("hello world") == 2


def test_nothing_of_openai_is_changed() -> None:
    """Building an encoding leaves tiktoken's module and the environment as they were."""
    import tiktoken_ext.openai_public as module

    before, environment = dict(vars(module)), dict(os.environ)
    local_encoding.cache_clear()
    assert local_encoding("o200k_base", None) is not None
    assert dict(vars(module)) == before
    assert dict(os.environ) == environment


def run(code: str, **environment: str) -> str:
    """Run code in another process without other proxies; return its output and log."""
    clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    clean |= {"PYTHONWARNINGS": "error"} | environment
    done = subprocess.run(
        [sys.executable, "-c", dedent(code)], env=clean, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_shipped_vocabulary_is_found_without_importing_its_package() -> None:
    """Construction loads nothing; the first use reads llama-index-core's file without importing it."""
    out = run("""
        import sys
        from arc_common.tokens.counters import TiktokenCounter
        assert not {"tiktoken", "numpy", "llama_index"} & set(sys.modules)
        counter = TiktokenCounter("gpt-4o")
        assert "llama_index" not in sys.modules
        print(counter.name, counter.count("hello world"))
        assert not {"llama_index.core", "requests", "numpy"} & set(sys.modules)
    """)
    assert out == "tiktoken/o200k_base 2\n"


@pytest.mark.parametrize("way", ["argument", "environment"])
def test_a_cache_folder_is_enough(tmp_path: Path, way: str) -> None:
    """Without llama-index-core, a given folder or that of tiktoken's variable is used, with no network."""
    shutil.copy(SHIPPED / CL100K, tmp_path)
    out = run(
        f"""
        import sys
        sys.modules["llama_index"] = None
        from arc_common.tokens.counters import TiktokenCounter
        counter = TiktokenCounter("cl100k_base", cache_dir={str(tmp_path) if way == "argument" else None!r})
        print(counter.name, counter.count("hello world"))
        """,
        HTTPS_PROXY="http://127.0.0.1:9",
        **({"TIKTOKEN_CACHE_DIR": str(tmp_path)} if way == "environment" else {}),
    )
    assert out == "tiktoken/cl100k_base 2\n"


@pytest.fixture
def black_hole() -> Iterator[str]:
    """Return the address of a proxy that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


USE_WITHOUT_A_VOCABULARY = """
    import logging, time
    logging.basicConfig(format="%(name)s %(levelname)s %(message)s")
    from arc_common.tokens.calibration import CalibratedTokenCounter
    from arc_common.tokens.calibration import corrected
    from arc_common.tokens.counters import TiktokenCounter
    start = time.perf_counter()
    counter = TiktokenCounter("p50k_base", timeout=0.5)
    assert time.perf_counter() - start < 0.4
    assert counter.count("hello world") == CalibratedTokenCounter().count("hello world")
    print(counter.name, 0.5 <= time.perf_counter() - start < 5)
    start = time.perf_counter()
    again = TiktokenCounter("text-davinci-003", timeout=0.5)
    assert again.name == "calibrated/2"
    assert time.perf_counter() - start < 0.4
    import tiktoken
    assert "gpt2" in tiktoken.list_encoding_names()  # it takes tiktoken's lock: a download must not hold that
    again.observe(8_000, 10_000)
    again.adopt_correction()
    assert corrected(again, 100) == 120 and corrected(counter, 100) == 100
"""


def test_a_network_that_swallows_packets_costs_only_the_timeout(tmp_path: Path, black_hole: str) -> None:
    """After the time limit an estimate is used under its own name, with one warning; the next counter does not wait."""
    out = run(USE_WITHOUT_A_VOCABULARY, HTTPS_PROXY=black_hole, TIKTOKEN_CACHE_DIR=str(tmp_path))
    assert "calibrated/2 True\n" in out
    assert out.count("arc.tokens WARNING") == 1
    assert "p50k_base (not answered in time): counting with calibrated/2" in out


def test_a_network_that_refuses_costs_nothing(tmp_path: Path) -> None:
    """A refused connection falls back at once, and the warning says why."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    out = run(USE_WITHOUT_A_VOCABULARY, HTTPS_PROXY=f"http://127.0.0.1:{port}", TIKTOKEN_CACHE_DIR=str(tmp_path))
    assert out.count("arc.tokens WARNING") == 1
    assert "ProxyError" in out


def test_many_threads_share_one_decision(tmp_path: Path, black_hole: str) -> None:
    """Threads that use a new counter at once agree on its name, and one warning is logged."""
    out = run(
        """
        import logging
        from concurrent.futures import ThreadPoolExecutor
        logging.basicConfig()
        from arc_common.tokens.counters import TiktokenCounter
        counter = TiktokenCounter("r50k_base", timeout=0.3)
        with ThreadPoolExecutor(8) as pool:
            print(set(pool.map(lambda _: counter.name, range(32))))
        """,
        HTTPS_PROXY=black_hole,
        TIKTOKEN_CACHE_DIR=str(tmp_path),
    )
    assert "{'calibrated/2'}" in out
    assert out.count("WARNING") == 1
