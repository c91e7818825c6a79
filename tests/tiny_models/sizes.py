"""The sizes of tiny models, by model type: `sizes.json`, which holds one model type in a line.

`rows` are of the types in the tables of architectures, `without a row` of others, also inside another configuration,
where the patterns of shrunk.py do not fit; `in parts` of models that see or hear and write, `defaults` what default
configurations lack: values whose defaults do not run, or show no fault. `norms` are the shapes of the noise whose
statistics norms over batches get, `sections` those of a head that turn with time, height and width, where the code has
them and no configuration does; `diffusers` are of its classes. `use` names an entry of `shared` that the rest of an
entry completes, `why` is a reason.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_DATA = json.loads((Path(__file__).parent / "sizes.json").read_text())


def whole(value: Any) -> Any:
    """A value of the file with the entries that it uses; keys that are numbers in digits are numbers."""
    if isinstance(value, list):
        return [whole(each) for each in value]
    if not isinstance(value, dict):
        return value
    used = whole(_DATA["shared"][value["use"]]) if "use" in value else {}
    own = {int(key) if key.isdigit() else key: whole(each) for key, each in value.items() if key not in ("use", "why")}
    return {**used, **own}


Table = Mapping[str, Mapping[str, Any]]

SHARED: Table = whole(_DATA["shared"])
SPECIAL: Table = whole(_DATA["rows"])
DERIVED: Table = whole(_DATA["without a row"])
PARTS: Table = whole(_DATA["in parts"])
DEFAULTS: Table = whole(_DATA["defaults"])
DIFFUSERS: Table = whole(_DATA["diffusers"])
SECTIONS: Mapping[str, list[int]] = _DATA["sections"]
NORMED: Mapping[str, list[int]] = _DATA["norms"]
SIZES: Mapping[str, Any] = SHARED["sizes"]
"""The sizes of every model whose configuration has the name, or an alias of it."""
