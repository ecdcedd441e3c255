"""Say record, or compare.

python -m tests.goldens record            record all that there is to ask
python -m tests.goldens record PATTERN    record the cases of such names anew
python -m tests.goldens compare           tell what differs; status 1 where something does
python -m tests.goldens show PATTERN      print cases, and what they got
"""

from __future__ import annotations

import os
import re
import sys

from tests.goldens.canonical import dumped
from tests.goldens.cases import METHODS, Call, Case, Http, read_message, unpack
from tests.goldens.recording import asked, compare, record, recorded


def main(command: str = "", pattern: str = "") -> int:
    for name in [name for name in os.environ if name.startswith("JUDGED_")]:
        del os.environ[name]  # whoever runs this may have settings for other servers
    match command:
        case "record":
            if pattern:
                cases = asked()
            else:
                from tests.goldens.drawn import drawn  # which may be gone by then

                cases = list(drawn())
            record(cases, only=pattern)
            print(f"{len(cases)} recorded")
            return 0
        case "compare":
            unmeant, meant = compare()
            counts = [f"{n} meant: {why}" for why, n in meant.items()]
            print(*unmeant, *counts, f"{len(unmeant)} differences that nobody meant", sep="\n")
            return 1 if unmeant else 0
        case "show" if pattern:
            results = recorded()
            for case in asked():
                if re.search(pattern, case.name):
                    print(case.name, _shown(case), dumped(results[case.name]), "", sep="\n")
            return 0
    print(__doc__, file=sys.stderr)
    return 2


def _shown(case: Case) -> str:
    match case:
        case Call():
            kind = METHODS[case.method].input_type
            return "\n".join(str(read_message(kind, raw))[:2000] for raw in case.requests())
        case Http():
            return unpack(case.sent)[:2000].decode(errors="replace")
    return "\n".join(f"{name}:\n{content[:2000]}" for name, content in case.files.items())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
