"""The use of models, tools and agents: calls, errors, tokens, cost and times."""

from functools import cache
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from collector.api.parameters import (
    Bucket,
    Cursor,
    Limit,
    Reader,
    Time,
    caught_up_router,
    read_bucket,
    read_cursor,
    read_time,
    write_cursor,
)
from collector.api.parts import ThePrices, TheStore
from collector.items.times import format_time
from collector.prices import PriceTable
from collector.store.usage import Usage, UsageGroup, UsageQuery


class UsageItem(BaseModel):
    """Spans with one value of what they are put together by."""

    model_config = ConfigDict(frozen=True)

    key: str = Field(description="Empty for model calls that do not tell it.")
    start: str | None = Field(
        description="Of the bucket; null without `bucket`. Buckets are multiples of their length "
        "since 1970, in UTC."
    )
    calls: int = Field(description="One that several spans tell counts once.")
    errors: int = Field(description="Those with the status error.")
    error_rate: float | None = Field(description="0 to 1; null without a call.")
    input_tokens: int = Field(description="Of the model calls among them; cached ones included.")
    output_tokens: int = Field(description="Reasoning tokens are included.")
    cached_tokens: int = Field(description="The part of the input that was read from a cache.")
    reasoning_tokens: int
    cost: float | None = Field(
        description="US dollars by the collector's price_file; null where no call has a price."
    )
    unpriced_calls: int = Field(description="Model calls that the cost leaves out.")
    mean_ms: float | None = Field(description="Null without a call, as the quantiles.")
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    quantiles: Literal["exact", "estimated"] = Field(
        description="Exact: the smallest duration that such a share of the calls does not exceed. "
        "Above a million calls on a page they are estimated by a t-digest."
    )


class UsageList(BaseModel):
    """Buckets by time, in each those with the most calls first, equal ones by key."""

    model_config = ConfigDict(frozen=True)

    items: list[UsageItem]
    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page.")


@cache
def genai_router() -> APIRouter:
    """Make the routes below `/api/v1/genai`."""
    router = caught_up_router(below="/genai", tag="genai")

    @router.get("/usage")
    def usage(
        store: TheStore,
        prices: ThePrices,
        caller: Reader,
        group_by: Annotated[
            UsageGroup,
            Query(
                description="model, provider, service, conversation and finish_reason put model "
                "calls together, tool and agent executions of these; operation and error every "
                "span that has such a value. Tokens of an agent are those of the model calls that "
                "name it. route puts traces together by the order of their agents and tools, "
                "without tokens."
            ),
        ] = UsageGroup.MODEL,
        bucket: Bucket | None = None,
        since: Time = None,
        until: Time = None,
        limit: Limit = 1000,
        cursor: Cursor = None,
    ) -> UsageList:
        """Sums over the spans that began in a time, with `bucket` for each stretch of it.

        A bucket without a call of a key has no item for it. The first and the last one hold what
        began in the time asked for, so they may be parts.

        All pages are of the spans that were stored when the first one was read; what retention or
        an erasure takes out meanwhile may move others by some places.
        """
        position, as_of = read_cursor(cursor)
        page = store.usage(
            UsageQuery(
                space=caller.space,
                group_by=group_by,
                bucket_ns=None if bucket is None else read_bucket(bucket),
                since_ns=read_time("since", since),
                until_ns=read_time("until", until),
                limit=limit,
                offset=0 if position is None else position[0],
                as_of=as_of,
            )
        )
        following = None if page.next_offset is None else (page.next_offset, 0)
        return UsageList(
            items=[_item(each, prices) for each in page.items],
            next_cursor=write_cursor(following, page.as_of),
        )

    return router


def _item(usage: Usage, prices: PriceTable) -> UsageItem:
    priced = [(each, prices.of(each.models)) for each in usage.tokens]
    costs = [
        price.cost(each.input_tokens, each.output_tokens)
        for each, price in priced
        if price is not None
    ]
    return UsageItem(
        key=usage.key,
        start=None if usage.start_ns is None else format_time(usage.start_ns),
        calls=usage.calls,
        errors=usage.errors,
        error_rate=usage.errors / usage.calls if usage.calls else None,
        input_tokens=sum(each.input_tokens for each in usage.tokens),
        output_tokens=sum(each.output_tokens for each in usage.tokens),
        cached_tokens=sum(each.cached_tokens for each in usage.tokens),
        reasoning_tokens=sum(each.reasoning_tokens for each in usage.tokens),
        cost=sum(costs) if costs else None,
        unpriced_calls=sum(each.calls for each, price in priced if price is None),
        mean_ms=usage.mean_ms,
        p50_ms=usage.p50_ms,
        p95_ms=usage.p95_ms,
        p99_ms=usage.p99_ms,
        quantiles="exact" if usage.is_exact else "estimated",
    )
