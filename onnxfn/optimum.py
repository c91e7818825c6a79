"""Questions that Optimum's TasksManager and its configurations answer."""

from typing import TYPE_CHECKING

from onnxfn.specs.algebra.public_names import public_names

if TYPE_CHECKING:
    from onnxfn import dummy_inputs as dummy_inputs
    from onnxfn import inputs as inputs
    from onnxfn import outputs as outputs
    from onnxfn import tasks_for as tasks_for
    from onnxfn.export.find.model_for import model_for as model_for
    from onnxfn.export.load.class_tasks import task_of as task_of
    from onnxfn.specs.tasks.tasks import SYNONYMS as SYNONYMS
    from onnxfn.specs.tasks.tasks import TASKS as TASKS
    from onnxfn.specs.tasks.tasks import canonical as canonical

__all__, __getattr__, __dir__ = public_names(__name__)
