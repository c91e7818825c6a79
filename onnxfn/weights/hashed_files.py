"""Files whose SHA-256 is computed while they are written."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from attrs import field, frozen


@frozen(eq=False)
class HashedFile:
    """A file that is written. Another thread computes the SHA-256 of a chunk while this one writes it."""

    file: BinaryIO
    pool: ThreadPoolExecutor
    digest: Any = field(factory=sha256)

    def write(self, chunk: Any) -> None:
        """Writes a chunk: bytes, or an array."""
        hashed = self.pool.submit(self.digest.update, chunk)
        self.file.write(chunk)
        hashed.result()

    def sha256(self) -> str:
        """The SHA-256 of what was written, in hexadecimal digits."""
        return str(self.digest.hexdigest())


@contextmanager
def hashed_file(path: Path) -> Iterator[HashedFile]:
    """A context with a new file at a path, in place of any that was there, which may be a hard link."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file, ThreadPoolExecutor(1) as pool:
        yield HashedFile(file, pool)
