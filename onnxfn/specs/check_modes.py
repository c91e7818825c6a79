"""How the files of an export are compared with PyTorch, as a word."""

from __future__ import annotations

from typing import Literal, get_args

from onnxfn.specs.errors import InvalidSpec, unknown

CheckMode = Literal["whole", "sections", "none"]
"""`whole`: each file as it is. `sections`: one layer at a time, for models larger than memory. `none`: not at all."""


def check_mode(check: bool | CheckMode) -> CheckMode:  # noqa: FBT001 - the only argument
    """The word for a check; True is `whole`, and False is `none`. UnknownName for another word.

    >>> check_mode(True), check_mode("sections"), check_mode(False)
    ('whole', 'sections', 'none')
    """
    if isinstance(check, bool):
        return "whole" if check else "none"
    if check not in get_args(CheckMode):
        raise unknown("check", check, get_args(CheckMode))
    return check


def comparing_mode(check: bool | CheckMode) -> CheckMode:  # noqa: FBT001 - the only argument
    """The word for a check of files that are there. InvalidSpec for `none`, which compares nothing.

    >>> comparing_mode("sections")
    'sections'
    """
    mode = check_mode(check)
    if mode == "none":
        raise InvalidSpec(f"validate compares files, and check={check!r} compares none; known are 'whole', 'sections'")
    return mode
