# SPDX-License-Identifier: Apache-2.0
"""Prints what applies in a JetStream stream, one line of JSON each. Arguments: server, stream, file of the state."""

import asyncio
import json
import sys
from urllib.parse import unquote

import nats
from cloudevents.conversion import to_json
from cloudevents.http import from_http
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from state import State


async def main(server, stream, file):
    state, jetstream = State(file), (await nats.connect(server)).jetstream()
    while True:
        info = await jetstream.stream_info(stream)
        # What later messages of a subject have replaced is not missing.
        first = 1 if info.config.max_msgs_per_subject == 1 else max(info.state.first_seq, 1)
        start = state.resume(0, first, info.state.last_seq + 1, str(info.created))
        # Each batch has a consumer of its own, which begins where the state is. So nothing needs to be acknowledged.
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=start,
            ack_policy=AckPolicy.NONE, inactive_threshold=30)
        subscription = await jetstream.pull_subscribe("", stream=stream, config=config)
        try:
            messages = await subscription.fetch(1000, timeout=5)
        except nats.errors.TimeoutError:
            messages = []
        for message in messages:
            # The SDK has no reader for NATS. Its reader for HTTP does, once percent-encoding is off.
            event = from_http({name: unquote(value) for name, value in message.headers.items()}, message.data)
            applies, gone = state.handle(event, 0, message.metadata.sequence.stream)
            for key in gone:
                print(json.dumps({"gone": key}), flush=True)
            if applies:
                print(to_json(event).decode(), flush=True)
        state.save()
        await subscription.unsubscribe()


asyncio.run(main(*sys.argv[1:]))
