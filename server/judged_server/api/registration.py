"""The services of a server, and how those that take calls, gRPC and HTTP, come to know them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH
from judged.v1 import judge_service_pb2, statistics_service_pb2
from judged.v1.judge_service_pb2_grpc import add_JudgeServiceServicer_to_server
from judged.v1.statistics_service_pb2_grpc import add_StatisticsServiceServicer_to_server

from judged_server.api.authentication import Authenticator
from judged_server.api.health_service import Health
from judged_server.api.interceptor import CallInterceptor, HandlerFinder, or_bytes
from judged_server.api.judge_service import JudgeService
from judged_server.api.listening.fields import count_fields
from judged_server.api.listening.receiving import lenient
from judged_server.api.statistics_service import StatisticsService

CONTRACT = tuple(
    service
    for file in (judge_service_pb2.DESCRIPTOR, statistics_service_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
)
NAMES = tuple(service.full_name for service in CONTRACT)


class Registry(Protocol):
    """Takes what finds handlers, as a server of gRPC does."""

    def add_generic_rpc_handlers(self, finders: Iterable[grpc.GenericRpcHandler], /) -> None:
        """Look for handlers with these too."""
        ...


class InterceptingRegistrar:
    """Stands in for a server where generated code registers handlers, and wraps each of them."""

    def __init__(
        self,
        server: Registry,
        interceptor: CallInterceptor,
        *,
        limited: bool = True,
        authenticator: Authenticator | None = None,
    ) -> None:
        self._server = server
        self._interceptor = interceptor
        self._limited = limited
        self._authenticator = authenticator

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Ignore the unwrapped handlers; the next call brings the same ones by name."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Register every handler of a service, wrapped."""
        wrapped = self._wrapped(service, handlers)
        self._server.add_generic_rpc_handlers(
            (HandlerFinder(service, wrapped, self._authenticator),)
        )

    def _wrapped(self, service: str, handlers: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self._wrap(f"/{service}/{name}", handler) for name, handler in handlers.items()
        }

    def _wrap(self, method: str, handler: Any) -> Any:  # noqa: ANN401 - grpc's named tuple
        make: Callable[..., Any]
        how: dict[str, Any] = {"limited": self._limited, "authenticator": self._authenticator}
        if handler.unary_unary is not None:
            make = grpc.stream_unary_rpc_method_handler
            call = self._interceptor.unary(method, handler.unary_unary, **how)
        else:
            make = grpc.stream_stream_rpc_method_handler
            many = handler.unary_stream is None
            inner = handler.stream_stream if many else handler.unary_stream
            call = self._interceptor.stream(method, inner, many=many, **how)
        parse = handler.request_deserializer  # a method of the message's class
        count = partial(count_fields, kind=parse.__self__.DESCRIPTOR)
        return make(call, lenient(parse, count), or_bytes(handler.response_serializer))


class HealthRegistrar(InterceptingRegistrar):
    """Registers handlers whose calls wait for no others, have no limit of ours and serve everybody.

    gRPC hands over one call at a time, in the order in which they came, of all the methods that it
    finds handlers for when they are called. Those of a method that it knows beforehand stand in a
    line of their own.
    """

    def __init__(self, server: grpc.aio.Server, interceptor: CallInterceptor) -> None:
        super().__init__(server, interceptor, limited=False)
        self._known_beforehand = server.add_registered_method_handlers

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Register every handler of a service, wrapped."""
        self._known_beforehand(service, self._wrapped(service, handlers))


@dataclass(frozen=True, slots=True)
class Services:
    """What answers calls, all through one interceptor."""

    judge: JudgeService
    statistics: StatisticsService
    health: Health
    interceptor: CallInterceptor

    def register_contract(self, server: Registry, callers: Authenticator | None) -> None:
        """Add the handlers of the contract to a server, whose callers have to show who they are."""
        guarded: Any = InterceptingRegistrar(server, self.interceptor, authenticator=callers)
        add_JudgeServiceServicer_to_server(self.judge, guarded)
        add_StatisticsServiceServicer_to_server(self.statistics, guarded)

    def register_health(self, server: grpc.aio.Server) -> None:
        """Add the health service to a server of gRPC.

        Whether a server runs is no secret, and those who ask have no credential.
        """
        registrar = HealthRegistrar(server, self.interceptor)
        health_pb2_grpc.add_HealthServicer_to_server(self.health, registrar)

    def register_reflection(self, server: grpc.aio.Server, callers: Authenticator | None) -> None:
        """Add the reflection service to a server of gRPC, whose callers may watch too."""
        # Imported here: reflection is off by default and its import costs start-up time.
        from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc  # noqa: PLC0415

        names = (*NAMES, HEALTH, reflection.SERVICE_NAME)
        known: Any = InterceptingRegistrar(
            server, self.interceptor, limited=False, authenticator=callers
        )
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            reflection.aio.ReflectionServicer(names), known
        )
