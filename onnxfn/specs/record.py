"""`record`: the decorator of every record."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

__all__ = ("record",)

if TYPE_CHECKING:  # type checkers know the classes of attrs, and no function that makes them
    from attrs import frozen as record
else:
    from attrs import frozen

    from onnxfn.specs.field_types import typed_fields
    from onnxfn.specs.short_repr import short_repr

    def record(decorated: Any = None, **options: Any) -> Any:
        """A frozen class of attrs whose fields refuse values of other types, and whose `repr` is short.

        A class with a `__repr__` of its own keeps it. `options` are those of `attrs.frozen`.

        >>> from onnxfn.specs.records import Link
        >>> Link("encoder_hidden_states", "encoder_model", "last_hidden_state")
        Link(input='encoder_hidden_states', part='encoder_model', output='last_hidden_state')
        """
        if decorated is None:
            return partial(record, **options)
        if "__repr__" not in vars(decorated):
            decorated.__repr__ = short_repr
        return frozen(decorated, field_transformer=typed_fields, **options)
