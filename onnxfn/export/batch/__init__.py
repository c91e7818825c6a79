"""Exports of many checkpoints: each in a process of its own, with limits, retries and a log to go on from."""
