"""Write the tables of the sweeps: tests/sweeps/README.md and HEADS.md and PARTS.md, and the summary in README.md.

python tests/tools/coverage.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))

import coverage_tables

if __name__ == "__main__":
    coverage_tables.write_tables()
