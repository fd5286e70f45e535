# SPDX-License-Identifier: Apache-2.0
"""Prints what is new in a JetStream stream, one line of JSON each. Arguments: server, stream, name of a durable consumer."""

import asyncio
import sys
from urllib.parse import unquote

import nats
from cloudevents.conversion import to_json
from cloudevents.http import from_http

from versions import is_new


async def main(server, stream, durable):
    connection = await nats.connect(server)
    subscription = await connection.jetstream().pull_subscribe("", durable=durable, stream=stream)
    while True:
        try:
            messages = await subscription.fetch(100, timeout=5)
        except nats.errors.TimeoutError:
            continue
        for message in messages:
            # The SDK has no reader for NATS. Its reader for HTTP does, once percent-encoding is off.
            event = from_http({name: unquote(value) for name, value in message.headers.items()}, message.data)
            if is_new(event):
                print(to_json(event).decode(), flush=True)
            await message.ack()


asyncio.run(main(*sys.argv[1:]))
