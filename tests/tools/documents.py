"""The pages that are written from the code, the web site, and the notes of a release.

python tests/tools/documents.py write              # onnxfn/guide/names.md and onnxfn/export/rooms.svg
python tests/tools/documents.py site [FOLDER]      # the web site: FOLDER/html, or site/html
python tests/tools/documents.py notes VERSION      # prints what CHANGELOG.md says of a version
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))


def notes(version):
    """The section of a version in CHANGELOG.md, without its title."""
    _, start, rest = (ROOT / "CHANGELOG.md").read_text().partition(f"\n## {version}")
    if not start:
        sys.exit(f"CHANGELOG.md has no version {version}")
    return rest.partition("\n")[2].partition("\n## ")[0].strip()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            import names_page
            import rooms_picture

            names_page.PAGE.write_text(names_page.page())
            rooms_picture.PICTURE.write_text(rooms_picture.picture())
        case ["site", *folder]:
            import site_pages

            target = Path(*folder or [ROOT / "site"]).resolve()
            site_pages.write(target)
            command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
            sys.exit(subprocess.run([*command, "--config-file", str(target / "mkdocs.yml")], check=False).returncode)
        case ["notes", version]:
            print(notes(version))
        case _:
            sys.exit(__doc__)
