"""A channel over TLS whose files may be replaced: a new one of gRPC's stands behind it then.

gRPC for Python fixes the certificates of a channel. So calls, and what is sent again of those under
way, go over a channel of the files that are there now; the one of before ends the calls it has.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import grpc

from judged import errors
from judged._transport.access import channel_credentials, tls_state
from judged.credentials import Tls

LOOKED_AT_EVERY_S = 1.0
"""How often the files are looked at, while there are calls."""

AnyChannel = TypeVar("AnyChannel")

_log = logging.getLogger("judged")


class TlsChannel(Generic[AnyChannel]):
    """Makes the calls of a channel, by the certificates of the moment. Safe to share by threads.

    `opened` has gRPC's channels that are to be closed: the one of before, which may have calls
    under way, and the present one. Those before are let go.
    """

    def __init__(self, tls: Tls, open_: Callable[[grpc.ChannelCredentials], AnyChannel]) -> None:
        """Open a channel; raises InvalidArgument for files that can't be used."""
        self._tls = tls
        self._open = open_
        self._lock = threading.Lock()
        self._state = tls_state(tls)
        self._refused: object = None
        self._looked_at = time.monotonic()
        _refuse_mismatch(tls)
        self.opened = [open_(channel_credentials(tls))]

    def current(self) -> AnyChannel:
        """Return the channel of the files as they are."""
        now = time.monotonic()
        if now - self._looked_at >= LOOKED_AT_EVERY_S and self._lock.acquire(blocking=False):
            try:
                self._looked_at = now
                self._renew()
            finally:
                self._lock.release()
        return self.opened[-1]

    def _renew(self) -> None:
        """Open another channel where the files have changed and can be used."""
        state = tls_state(self._tls)
        if state == self._state:
            return
        try:
            _refuse_mismatch(self._tls)
            credentials = channel_credentials(self._tls)
        except errors.InvalidArgument as error:
            # They may be half written. If they stay so, it is told once, at the second look.
            if state == self._refused:
                self._state = state
                _log.warning("%s; the certificate of before is shown on", error.message)
            self._refused = state
            return
        if tls_state(self._tls) != state:
            return  # they are being written; the next look finds them whole
        self._state = state
        self.opened = [self.opened[-1], self._open(credentials)]

    def unary_unary(self, *given: Any, **named: Any) -> _Method:  # noqa: ANN401 - as gRPC's
        """Return a call, as a channel of gRPC does; so do the others."""
        return _Method(self.current, "unary_unary", given, named)

    def unary_stream(self, *given: Any, **named: Any) -> _Method:  # noqa: ANN401 - as gRPC's
        return _Method(self.current, "unary_stream", given, named)

    def stream_stream(self, *given: Any, **named: Any) -> _Method:  # noqa: ANN401 - as gRPC's
        return _Method(self.current, "stream_stream", given, named)

    def stream_unary(self, *given: Any, **named: Any) -> _Method:  # noqa: ANN401 - as gRPC's
        return _Method(self.current, "stream_unary", given, named)


class _Method:
    """A call that is made over the channel of the moment."""

    def __init__(
        self,
        channel: Callable[[], object],
        kind: str,
        given: tuple[Any, ...],
        named: Mapping[str, Any],
    ) -> None:
        self._channel = channel
        self._make: Callable[[object], Any] = lambda of: getattr(of, kind)(*given, **named)
        self._made: tuple[object, Any] = (None, None)

    def _of_now(self) -> Any:  # noqa: ANN401 - as gRPC's
        channel = self._channel()
        made = self._made
        if made[0] is not channel:
            made = self._made = (channel, self._make(channel))
        return made[1]

    def __call__(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - as gRPC's
        return self._of_now()(*given, **named)

    def future(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - as gRPC's
        """Begin the call without waiting for its end."""
        return self._of_now().future(*given, **named)


def _refuse_mismatch(tls: Tls) -> None:
    """Raise InvalidArgument for a certificate and a key that don't belong together.

    gRPC would fail every handshake with them, and not say why.
    """
    if tls.certificate is None or tls.key is None:
        return
    try:
        # A key with a password is refused rather than asked for at a terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(tls.certificate, tls.key, "")
    except ssl.SSLError:
        raise errors.InvalidArgument.of_field(
            "credentials",
            f"{tls.certificate} and {tls.key} are no certificate and its key, without a password",
        ) from None
    except OSError:
        return  # reading them says which can't be read
