"""Write the tables of tests/contract/coming_from.json: all into tests/contract/README.md, the first into README.md.

python tests/tools/optimum_names.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "contract"))

import coming_from

if __name__ == "__main__":
    coming_from.write_tables()
