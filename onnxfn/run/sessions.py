"""Opens ONNX files with ONNX Runtime on the CPU."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.errors import CaptureFailed, ModelNotFound, OnnxfnError, errors_as, first_line, listed
from onnxfn.specs.stored.reports import CPU, CheckFailed, Tick, no_tick
from onnxfn.weights.chunks import watched
from onnxfn.weights.digests import foreign_data
from onnxfn.weights.journal import half_replaced
from onnxfn.weights.onnx_files import data_fault, external_data_names, stored_tensors, with_weights_in_place

LARGE_HALF_BYTES = 1 << 29
"""Bytes of 16-bit weights from which on they are not converted all at once."""

LARGE_FILE_BYTES, IN_PLACE_BYTES = 1 << 28, 1 << 16
"""Bytes. In an ONNX file of at least the first size, weights of at least the second size are mapped, not read."""


def open_session(
    file: str | Path, options: Any = None, providers: Sequence[Any] = CPU, content: bytes | None = None
) -> Any:
    """An `onnxruntime.InferenceSession` of an ONNX file; without `options`, with ONNX Runtime's defaults and no log.

    `content` replaces the bytes of the file. ModelNotFound if there is no such file. CheckFailed if ONNX Runtime cannot
    load it, or if its folder mixes two exports.
    """
    import onnxruntime

    path = Path(file)
    if not path.is_file():
        raise ModelNotFound(f"no file {path}; name an ONNX file, or the folder of an export")
    if half_replaced(path):
        raise CheckFailed(f"{path.parent} holds files of two exports: replacing the earlier one stopped; export again")
    if fault := data_fault(path):
        raise CheckFailed(f"{path} is not loaded: {fault}")
    if names := foreign_data(path):
        raise CheckFailed(f"{listed(names)} in {path.parent} is of another export than {path.name}; export again")
    with errors_as(lambda error: CheckFailed(f"ONNX Runtime cannot load {path.name}: {runtime_message(error)}")):
        return onnxruntime.InferenceSession(content or str(path), options or silent_options(), providers=[*providers])


def silent_options(kind: Literal["SessionOptions", "RunOptions"] = "SessionOptions") -> Any:
    """The default options of ONNX Runtime, without a log. A run ends when `terminate` of its options is set."""
    import onnxruntime

    options = getattr(onnxruntime, kind)()
    options.log_severity_level = 4  # fatal: nothing else is logged, since each error is raised, too
    return options


def run_session(
    session: Any, names: Sequence[str] | None, feeds: Mapping[str, Array], what: str, run_options: Any = None
) -> tuple[Array, ...]:
    """The outputs of these names, or all outputs for None. CheckFailed if ONNX Runtime cannot run `what`."""
    with errors_as(lambda error: CheckFailed(f"ONNX Runtime cannot run {what}: {runtime_message(error)}")):
        return tuple(session.run(names, dict(feeds), run_options or silent_options("RunOptions")))


def open_check_session(file: Path, tick: Tick = no_tick, content: bytes | None = None) -> Any:
    """A session of an ONNX file that is compared with PyTorch in this process: see `check_options`.

    `content` replaces the bytes of the file; its weights lie in the file, or in its folder. `tick`: see `watched`.
    """
    options, content = check_options(file), content or _content(file)
    # The scales of the blocks of codes are 16-bit weights, too.
    if content is not None and (
        _weight_bytes(file, CODES, IN_PLACE_BYTES) or _weight_bytes(file, HALF) > LARGE_HALF_BYTES
    ):
        convert_on_use(options)
    return watched_session(file, options, content, tick)


def watched_session(file: Path, options: Any, content: bytes | None, tick: Tick) -> Any:
    """`open_session` in another thread, while `tick` is called; loading is cancelled if that raises."""
    opened = partial(open_session, file, options, content=content)
    return watched(opened, tick, partial(options.set_load_cancellation_flag, True))


def kept_session(sessions: dict[Path, Any], tick: Tick, file: Path, own_tick: Tick | None = None) -> Any:
    """The session of a file among `sessions`; if it is not there, it is opened, with `own_tick` in place of `tick`."""
    if file not in sessions:
        sessions[file] = open_check_session(file, own_tick or tick)
    return sessions[file]


def _content(file: Path) -> bytes | None:
    """The bytes of a large ONNX file, with its large weights as external data in the file itself; else None.

    Otherwise ONNX Runtime has two copies of them in memory: as read, and as packed for its kernels.
    """
    if not file.is_file() or file.stat().st_size < LARGE_FILE_BYTES:
        return None
    with suppress(ValueError, IndexError):  # ONNX Runtime says that it is no ONNX file
        return with_weights_in_place(file, IN_PLACE_BYTES)
    return None


def check_options(file: Path) -> Any:
    """The `onnxruntime.SessionOptions` of a check of an ONNX file."""
    import torch

    options = silent_options()
    # PyTorch and ONNX Runtime compute in turns. Threads that wait without spinning leave the cores to the other.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(file.parent))
    options.enable_cpu_mem_arena = False  # it would keep the memory of a case, and the next one has other sizes
    if external_data_names(file):
        # External data is mapped from the file. Prepacking would copy it into memory.
        options.add_session_config_entry("session.disable_prepacking", "1")
        if _weight_bytes(file, HALF) > LARGE_HALF_BYTES:
            convert_on_use(options)
    return options


def convert_on_use(options: Any) -> None:
    """Makes ONNX Runtime convert each 16-bit weight when a node reads it, instead of all of them at the start.

    Its CPU multiplies float32, so it puts a Cast after each weight. Its optimizations replace these by weights of twice
    the size. Its default order runs all of them first: the order by priority runs each right before its reader.
    """
    import onnxruntime

    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED


def runtime_message(error: Exception) -> str:
    """The first line of an error of ONNX Runtime, with advice if the cause is an unsupported dtype."""
    line = first_line(error)
    advice = (
        '; its CPU kernels lack this type: export in float32, by with_dtypes(spec, float="float32") or model.float(), '
        "or with check=False for another device"
    )
    return line + (advice if "Could not find an implementation" in line else "")


CODES, HALF = ("UINT8", "INT8"), ("FLOAT16", "BFLOAT16")
"""The types of the codes of a quantizer, and those of 16 bits."""


def _weight_bytes(file: Path, types: Sequence[str], least: int = 0) -> int:
    """The bytes of the weights of these types, of at least `least` bytes each; 0 for a file that is damaged."""
    with suppress(ValueError):
        return sum(each.length for each in stored_tensors(file) if each.dtype in types and each.length >= least)
    return 0


@contextmanager
def file_errors(what: str) -> Iterator[None]:
    """Turns errors of the files into CheckFailed with the text `what`; those of PyTorch and MemoryError pass."""
    try:
        with errors_as(lambda error: CheckFailed(f"{what}: {type(error).__name__}: {runtime_message(error)}")):
            yield
    except (CheckFailed, CaptureFailed):
        raise
    except OnnxfnError as error:
        raise CheckFailed(f"{what}: {error}") from error
