"""Slow tests, and what the default run keeps of them and of the sweeps.

`slow_tests.txt` has the tests that took more than 0.7 s, without the rules of the house and the pages. `pytest`
without a path runs some of them, chosen by the commit, so that over some commits all of them run; with a path it runs
all. The slow tests of a run are added to the list; a fixture that several tests share counts for the first of them:

    python -m pytest -q -n 2 --durations 0 --durations-min 0.3 > log; python tests/helpers/slow_tests.py log
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

FILE = Path(__file__).with_suffix(".txt")
LEAST_SECONDS = 0.7
ALWAYS = ("house/", "guide/")
"""Rules of the house and the code of pages: each run has all of them."""

SLOW = frozenset(FILE.read_text().splitlines())

KEPT: Mapping[str, tuple[str, ...]] = {
    "architectures/test_rows.py::test_a_model_agrees_with_pytorch": (
        *("albert-text-classification", "canine-feature-extraction", "clip-zero-shot-image-classification"),
        *("convnext-feature-extraction", "depth_anything-depth-estimation", "patchtsmixer-time-series-forecasting"),
        *("vit-image-classification", "wav2vec2-automatic-speech-recognition", "yolos-object-detection"),
    ),
    "architectures/test_decoders.py::test_a_decoder_agrees_with_pytorch": (
        *(f"{name}-text-generation-with-past" for name in ("deepseek_v3", "lfm2", "llama", "mamba2")),
        *("gemma2-feature-extraction-with-past", "gpt2-token-classification"),
    ),
    "architectures/test_every_head.py::test_a_head_that_no_row_names_agrees_with_pytorch": (
        *("bert-next-sentence-prediction", "kyutai_speech_to_text-feature-extraction", "swinv2-backbone"),
        *("patchtst-time-series-regression", "prophetnet-text-generation", "t5-text-classification"),
    ),
    "architectures/test_every_part.py::test_each_part_agrees_with_pytorch": (
        "llava-image-text-to-text-with-past",
        "qwen3_vl-image-text-to-text-with-past",
        "voxtral-audio-text-to-text-with-past",
    ),
}
"""From a test of a sample to the parameters that the default run keeps: a few of each kind. The sweep has all pairs."""


def is_left_to_sweeps(test: str) -> bool:
    """Whether a test of a large sample, by its name below `tests`, runs in the sweep alone."""
    name, _, parameters = test.partition("[")
    return name in KEPT and parameters.removesuffix("]") not in KEPT[name]


def slow_tests(lines: Iterable[str]) -> list[str]:
    """The slow tests in the log of a run, without `ALWAYS`: the seconds of setup, call and teardown count together."""
    seconds: Counter[str] = Counter()
    for line in lines:
        if match := re.match(r"([\d.]+)s (?:call|setup|teardown)\s+tests/(.+)", line):
            seconds[match[2].strip()] += float(match[1])
    return sorted(test for test, taken in seconds.items() if taken >= LEAST_SECONDS and not test.startswith(ALWAYS))


if __name__ == "__main__":
    known = SLOW.union(slow_tests(Path(sys.argv[1]).read_text().splitlines()))
    FILE.write_text("".join(f"{test}\n" for test in sorted(known)))
