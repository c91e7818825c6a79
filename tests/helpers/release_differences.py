"""What differs between the facts of two versions of a package: what is gone, renamed or new, most frequent first."""

from collections import defaultdict
from difflib import SequenceMatcher

GONE, RENAMED, ADDED = "gone", "renamed", "new"


def changed_items(before, after):
    """The items that are gone, renamed or new; as many items at the place of as many others are renamed.

    >>> changed_items(["self", "x", "past"], ["self", "x", "cache", "y"])
    [('renamed', 'past -> cache'), ('new', 'y')]
    """
    found = []
    for _, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        old = [item for item in before[start:end] if item not in after]
        new = [item for item in after[new_start:new_end] if item not in before]
        pairs = pairs_of(old, new)
        found += [(RENAMED, f"{item} -> {pairs[item]}") for item in pairs]
        found += [(GONE, item) for item in old if item not in pairs]
        found += [(ADDED, item) for item in new if item not in pairs.values()]
    return found


def pairs_of(old, new):
    """{old item: new item} in their order if there are as many; else each with the one that is spelled most alike.

    >>> pairs_of(["image_states", "audio_states"], ["image_outputs", "video_outputs", "audio_outputs"])
    {'image_states': 'image_outputs', 'audio_states': 'audio_outputs'}
    """
    if len(old) == len(new):
        return dict(zip(old, new, strict=True))
    pairs = {}
    for item in old:
        left = [other for other in new if other not in pairs.values()]
        if left:
            pairs[item] = max(left, key=lambda other: SequenceMatcher(None, item, other).ratio())
    return pairs


def renamed(before, after):
    """{old name: new name} of names with one owner whose items are equal, if only one has gone and one is new."""
    gone, new = defaultdict(list), defaultdict(list)
    for names, facts, other in ((gone, before, after), (new, after, before)):
        for name in facts.keys() - other.keys():
            names[name.rpartition(".")[0], *facts[name]].append(name)
    return {gone[key][0]: new[key][0] for key in gone if len(key) > 2 and len(gone[key]) == len(new[key]) == 1}


def group_difference(before, after):
    """{(kind, what): names} of one group: whole names, then items of the names that both versions have."""
    found = defaultdict(list)
    names = renamed(before, after)
    for name in sorted(before.keys() & after.keys()):
        for change in changed_items(before[name], after[name]):
            found[change].append(name)
    whole = {
        (RENAMED, "name"): sorted(f"{old} -> {new}" for old, new in names.items()),
        (GONE, "name"): sorted(before.keys() - after.keys() - names.keys()),
        (ADDED, "name"): sorted(after.keys() - before.keys() - set(names.values())),
    }
    by_count = sorted(found.items(), key=lambda each: (-len(each[1]), each[0]))
    return {change: listed for change, listed in whole.items() if listed} | dict(by_count)


def difference(before, after):
    """{group: {(kind, what): names}} of two versions; a group without changes has none."""
    return {group: group_difference(before.get(group, {}), after.get(group, {})) for group in before | after}


def row(group, change, names, examples):
    kind, what = change
    listed = ", ".join(f"`{name}`" for name in names[:examples]) + (", ..." if len(names) > examples else "")
    return f"| {group} | {kind} | {'' if what == 'name' else f'`{what}`'} | {len(names):,} | {listed} |"


def table(changes, *, longest=12, examples=3, all_of=()):
    """The lines of a table of changes; groups in `all_of` have all their rows and names, others the most frequent."""
    lines = ["| group | change | what | in | for example |", "| --- | --- | --- | --- | --- |"]
    for group, found in changes.items():
        kept = len(found) if group in all_of else longest
        shown = 1000 if group in all_of else examples
        lines += [row(group, change, names, shown) for change, names in list(found.items())[:kept]]
        if not found:
            lines.append(f"| {group} | none | | 0 | |")
        if len(found) > kept:
            lines.append(f"| {group} | {len(found) - kept} others | | | |")
    return lines
