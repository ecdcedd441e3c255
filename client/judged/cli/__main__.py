"""The entry point of `judged`."""

import signal
import sys

NEEDED = frozenset({"click"})


def main() -> None:
    """Run the command line and exit."""
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if raises:  # while we import, Ctrl-C ends the process without a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)
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
    except KeyboardInterrupt:
        sys.exit(130)
    try:
        if raises:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


if __name__ == "__main__":
    main()
