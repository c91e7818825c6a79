"""The results of the sweeps in words.

python tests/tools/coverage.py              # prints the summary
python tests/tools/coverage.py FOLDER       # writes it and a page for each sweep into a folder
python tests/tools/coverage.py --readme     # writes the numbers of model types into README.md
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clients"))

import sweep_pages

if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            print(f"{sweep_pages.summary()}\n\n{sweep_pages.seconds_summary()}")
        case ["--readme"]:
            sweep_pages.write_root_summary()
        case [folder]:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for name, text in sweep_pages.pages().items():
                (Path(folder) / name).write_text(text)
        case _:
            sys.exit(__doc__)
