# SPDX-License-Identifier: Apache-2.0
"""Prints what is new in a JetStream stream, one line of JSON each. Arguments: server, stream, name of a durable consumer."""

import asyncio
import sys

import nats
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.formats.json import JSONFormat

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
            # The SDK has no reader for NATS. Its reader for HTTP does, and takes percent-encoding off.
            event = from_http_event(HTTPMessage(message.headers, message.data))
            if is_new(event):
                print(JSONFormat().write(event).decode(), flush=True)
            await message.ack()


asyncio.run(main(*sys.argv[1:]))
