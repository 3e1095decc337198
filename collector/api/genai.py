"""The use of models, tools and agents: calls, errors, tokens, cost and times."""

from typing import Annotated

from fastapi import Query

from collector.api.parameters import (
    Bucket,
    Cursor,
    Limit,
    Reader,
    Time,
    answer_of,
    api_router,
    cost_fields,
    read_bucket,
    read_cursor,
    read_time,
    write_cursor,
)
from collector.api.parts import TheParts
from collector.items.times import time_at
from collector.prices import PriceTable
from collector.store.usage import Usage, UsageGroup, UsageQuery
from scouter.client.models.answer import Page
from scouter.client.models.traces import GenAIUsage

router = api_router("/genai", tag="genai")


@router.get("/usage")
def usage(
    parts: TheParts,
    caller: Reader,
    group_by: Annotated[
        UsageGroup,
        Query(
            description="model, provider, service, version, conversation and finish_reason put "
            "model calls together, tool and agent executions of these; operation and error "
            "every span that has such a value. Tokens of an agent are those of the model calls "
            "that name it. route puts traces together by the order of their agents and tools, "
            "without tokens."
        ),
    ] = UsageGroup.MODEL,
    bucket: Bucket | None = None,
    since: Time = None,
    until: Time = None,
    limit: Limit = 1000,
    cursor: Cursor = None,
) -> Page[GenAIUsage]:
    """Sums over the spans that began in a time, with `bucket` for each stretch of it.

    A bucket without a call of a key has no item for it. The first and the last one hold what
    began in the requested time, so they may be parts.

    All pages are of the spans that were stored when the first one was read; what retention or
    an erasure takes out meanwhile may move others by some places.
    """
    position, as_of = read_cursor(cursor)
    page = parts.store.usage(
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
    return Page[GenAIUsage](
        items=tuple(_item(each, parts.prices) for each in page.items),
        next_cursor=write_cursor(following, page.as_of),
    )


def _item(usage: Usage, prices: PriceTable) -> GenAIUsage:
    cost = prices.total(usage.tokens)
    return answer_of(
        GenAIUsage,
        usage,
        start=None if usage.start_ns is None else time_at(usage.start_ns),
        error_rate=usage.errors / usage.calls if usage.calls else None,
        input_tokens=sum(each.input_tokens for each in usage.tokens),
        output_tokens=sum(each.output_tokens for each in usage.tokens),
        cached_tokens=sum(each.cached_tokens for each in usage.tokens),
        reasoning_tokens=sum(each.reasoning_tokens for each in usage.tokens),
        cache_written_tokens=sum(each.written_tokens for each in usage.tokens),
        unpriced_calls=cost.unpriced_calls,
        **cost_fields(cost),
        quantiles="exact",
    )
