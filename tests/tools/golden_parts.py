"""Write tests/architectures/golden_parts.json: the files, inputs and outputs of models that see or hear and write."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tiny_models"))

import golden_parts

if __name__ == "__main__":
    golden_parts.write()
