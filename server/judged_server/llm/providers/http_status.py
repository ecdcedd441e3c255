"""What an HTTP status says when it is not 200: one rule for all dialects.

Never reads a body: a provider's error page may quote the prompt.
"""

from __future__ import annotations

from judged_server.llm.faults import ProviderFault, Reason

_NEXT_STEPS = {
    400: "it can't take the request; check the model's quirks in the llm configuration "
    "(schema_bounds, send_temperature, send_seed, max_tokens_parameter, structured)",
    404: "check base_url and the model's name in the llm configuration",
    413: "the texts are too long for it",
    422: "it can't take the request; check the model's quirks in the llm configuration",
    529: "it is overloaded",
}


def fault_of(status: int) -> ProviderFault:
    """Return the fault of a status other than 200."""
    says = f"it answered {status}"
    if status in {401, 403}:
        return ProviderFault(
            Reason.PROVIDER_REFUSED_KEY,
            f"{says}: it refuses the key; check key_env or key_file of the provider",
            retryable=False,
            status=status,
        )
    if status == 402:
        return ProviderFault(
            Reason.RATE_LIMITED,
            f"{says}: the account has no money or quota left",
            retryable=False,
            status=status,
        )
    if status == 429:
        return ProviderFault(
            Reason.RATE_LIMITED, f"{says}: too many requests", retryable=True, status=status
        )
    if 300 <= status < 400:
        message = f"{says}, a redirect, which is not followed; put the final address in base_url"
    else:
        message = f"{says}; {_NEXT_STEPS[status]}" if status in _NEXT_STEPS else says
    passes = status in {408, 409} or status >= 500
    return ProviderFault(Reason.PROVIDER_ERROR, message, retryable=passes, status=status)
