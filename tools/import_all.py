"""Import every module of the installed distribution and check that each lies in site-packages."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

DISTRIBUTION = "quarterline"


def main() -> int:
    packages = sorted(name for name, owners in packages_distributions().items() if DISTRIBUTION in owners)
    strays = []
    count = 0
    for package in packages:
        top = importlib.import_module(package)
        names = [found.name for found in pkgutil.walk_packages(top.__path__, package + ".")]
        for name in [package, *names]:
            if name.endswith("__main__"):
                continue
            where = Path(importlib.import_module(name).__file__ or "")
            count += 1
            if "site-packages" not in where.parts:
                strays.append(f"{name} is loaded from {where}")
    sys.stdout.write(f"{count} modules of {', '.join(packages) or 'no package'} import from the wheel\n")
    sys.stderr.writelines(line + "\n" for line in strays)
    return 1 if strays or not packages else 0


if __name__ == "__main__":
    sys.exit(main())
