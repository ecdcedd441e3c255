"""The entry point of `judged`."""

import sys

NEEDED = frozenset({"click"})


def main() -> None:
    """Run the command line and exit."""
    try:
        # Imported here, since the base install lacks what it needs.
        from judged.cli.app import run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        sys.stderr.write(
            "judged: the command line is not installed; run: pip install 'judged[cli]'\n"
        )
        sys.exit(2)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
