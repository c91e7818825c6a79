"""Calls in other threads."""

from concurrent.futures import ThreadPoolExecutor


def in_another_thread(function, *arguments):
    """What a function returns in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()
