"""Folder layouts of the programs that load an export, and the configuration files next to the ONNX files."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from attrs import evolve, frozen

from onnxfn.specs.algebra.spec import ExportSpec, FloatDtype, tensor_names
from onnxfn.specs.edits.renaming import renamed
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, listed, refuse_unknown
from onnxfn.weights.names import file_fault


@frozen
class Layout:
    """The folder layout that a program expects.

    Attributes:
        name: Its name.
        subfolder: The folder that holds the ONNX files; empty for the folder of the export itself.
        external_data_suffix: The end of the names of external data files.
        weight_storage: The default of `WriteOptions.weight_storage`.
        io_dtype: The float type of inputs and outputs if weights have 16 bits; None: that of the weights.
        output_names: Names of outputs in graphs -> the names that the clients of the layout look for.
        suffixes: Whether the file of a single dtype other than float32 has its suffix, too.
        clients: The programs whose requirements a plan is compared with.
        side_files: The functions that compute files for these programs, in order: see `export/clients`.
        has_card: Whether the folder gets a `README.md` with its origin and how to load it.
    """

    name: str
    subfolder: str = ""
    external_data_suffix: str = ".onnx_data"
    weight_storage: str = "share"
    io_dtype: FloatDtype | None = None
    output_names: tuple[tuple[str, str], ...] = ()
    suffixes: bool = False
    clients: tuple[str, ...] = ()
    side_files: tuple[str, ...] = ()
    has_card: bool = False


LayoutName = Literal["optimum", "transformers.js", "hub"]
OPTIMUM: LayoutName = "optimum"
HUB: LayoutName = "hub"

# A browser fetches an ONNX file and the external data named after it. It cannot list a folder, so files cannot share
# weights. In Node.js it reads float16 outputs as integers, or refuses them.
_BROWSER = Layout(
    "transformers.js",
    subfolder="onnx",
    weight_storage="copy",
    io_dtype="float32",
    suffixes=True,
    clients=("transformers.js",),
    side_files=("external_data", "text_architecture", "text_sizes"),
)

LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        layout.name: layout
        for layout in (
            Layout(OPTIMUM),
            _BROWSER,
            # What a repository on the hub has. All programs find graphs in `onnx/`, or where a side file says.
            evolve(
                _BROWSER,
                name=HUB,
                # What sentence-transformers calls its first output.
                output_names=(("token_embeddings", "last_hidden_state"),),
                clients=("transformers.js", "onnxruntime-genai", "ORTModel", "sentence-transformers"),
                side_files=(
                    *("external_data", "default_dtype", "graph_dtype", "layer_words", "separate_heads"),
                    *("text_architecture", "text_sizes", "feature_levels"),
                    *("modules", "pooling", "tokenizer_config", "chat_template"),
                    *("preprocessor_config", "vision_processor", "genai_config"),
                ),
                has_card=True,
            ),
        )
    }
)
"""The layouts by name. ONNX Runtime loads files of either layout from a file system."""

ALIAS_FILE = "alias"
"""Written only on request: a `config.json` with a substitute model type."""


def with_alias(layout: Layout) -> Layout:
    """The layout with ALIAS_FILE: `config.json` may state a model type that clients know instead of the real one."""
    return evolve(layout, side_files=(*layout.side_files, ALIAS_FILE))


def layout_of(name: str) -> Layout:
    """The layout with a name; UnknownName if there is none."""
    refuse_unknown("layout", name, LAYOUTS)
    return LAYOUTS[name]


DTYPE_SUFFIXES: Mapping[str, str] = MappingProxyType(
    {
        "float32": "",
        "float16": "_fp16",
        "bfloat16": "_bf16",
        "float64": "_fp64",
        "q8": "_quantized",
        **{
            name: f"_{name.replace('-', '_')}"
            for name in ("int8", "uint8", "q4", "q4f16", "q4c", "q4cf16", "q4m", "bnb4", "int8-static", "uint8-static")
        },
    }
)
"""The dtype of a variant -> how the stems of its files end, in every layout. transformers.js looks for these names."""


def dtype_suffix(dtype: str | None) -> str:
    """The suffix of the stems of the files of a variant; empty for None. UnknownName for an unknown dtype."""
    if dtype is None:
        return ""
    refuse_unknown("dtype", dtype, DTYPE_SUFFIXES)
    return DTYPE_SUFFIXES[dtype]


def dtype_of_stem(stem: str) -> str:
    """The dtype of a variant from the stem of its file, `model_q4f16`; float32 for a stem without a known ending."""
    return next((dtype for dtype, suffix in DTYPE_SUFFIXES.items() if suffix and stem.endswith(suffix)), "float32")


def graphs_of_dtype(folder: Path, dtype: str | None) -> list[Path]:
    """The ONNX files in a folder, or those of a dtype. ModelNotFound if the folder has only files of other dtypes."""
    graphs = sorted(folder.glob("*.onnx"))
    if dtype is None:
        return graphs
    refuse_unknown("dtype", dtype, DTYPE_SUFFIXES)
    chosen = [graph for graph in graphs if dtype_of_stem(graph.stem) == dtype]
    if graphs and not chosen:
        known = listed(dict.fromkeys(dtype_of_stem(graph.stem) for graph in graphs))
        raise ModelNotFound(f"no name of a file in {folder} ends as those in {dtype} do; by their names: {known}")
    return chosen


def with_layout_io(spec: ExportSpec, layout: Layout) -> ExportSpec:
    """The spec with the names of inputs and outputs, and for weights of 16 bits the float type, of a layout."""
    known = tensor_names(spec)
    spec = renamed(spec, **{old: new for old, new in layout.output_names if old in known and new not in known})
    if spec.target.io_dtype is not None or spec.target.float_dtype not in ("float16", "bfloat16"):
        return spec
    return evolve(spec, target=evolve(spec.target, io_dtype=layout.io_dtype))


CONFIG_FILES = MappingProxyType({"config": "config.json", "generation_config": "generation_config.json"})
"""From an attribute of a model to the file that transformers saves it in."""


def layout_in(folder: Path) -> Layout:
    """The layout of a folder that holds ONNX files, from its name: that of a subfolder of a layout, else `optimum`."""
    subfolders = {layout.subfolder: layout for layout in LAYOUTS.values() if layout.subfolder}
    return subfolders.get(folder.name, LAYOUTS[OPTIMUM])


def no_onnx_file(path: Path) -> str:
    """The words for a path without an ONNX file, or where nothing is."""
    return f"no ONNX file at {path}" if path.exists() else f"there is no file or folder {path}"


def onnx_folder(folder: Path) -> Path:
    """The folder of the ONNX files in an export's folder, else itself. InvalidSpec for a link out of it."""
    candidates = [folder / layout.subfolder for layout in LAYOUTS.values()]
    _check_inside(candidates, folder)
    chosen = next((candidate for candidate in candidates if any(candidate.glob("*.onnx"))), folder)
    _check_inside(sorted(chosen.glob("*.onnx")), folder)
    return chosen


def _check_inside(paths: Iterable[Path], folder: Path) -> None:
    for path in paths:
        if fault := file_fault(path, folder):
            raise InvalidSpec(f"{path} {fault}; it is not opened")


def write_configs(model: Any, folder: Path) -> tuple[Path, ...]:
    """Writes those configurations of a model that can be written as JSON, as transformers does; returns their paths."""
    own: dict[str, Any] = {file: getattr(model, attribute, None) for attribute, file in CONFIG_FILES.items()}
    # diffusers keeps a dict as `config`, and `to_json_string` is the model's method
    configs = [(file, model if isinstance(config, Mapping) else config) for file, config in own.items()]
    texts = {folder / file: config.to_json_string() for file, config in configs if hasattr(config, "to_json_string")}
    for file, text in texts.items():
        file.write_text(text)
    return tuple(texts)
