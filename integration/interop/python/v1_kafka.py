# SPDX-License-Identifier: Apache-2.0
"""Prints what is new in a topic, one line of JSON each. Arguments: brokers, topic, consumer group."""

import json
import sys

from cloudevents.conversion import to_json
from cloudevents.kafka import KafkaMessage, from_binary, from_structured
from confluent_kafka import Consumer

from versions import is_new


def read(message):
    headers, key = dict(message.headers()), message.key().decode()
    if headers["content-type"].startswith(b"application/cloudevents"):
        # Without headers: from_structured would take the content type of the event for that of its data.
        return from_structured(KafkaMessage({}, key, message.value()))
    return from_binary(KafkaMessage(headers, key, message.value()))


brokers, topic, group = sys.argv[1:]
consumer = Consumer({
    "bootstrap.servers": brokers,
    "group.id": group,
    "auto.offset.reset": "earliest",
    "enable.auto.offset.store": False,
})
consumer.subscribe([topic])
while True:
    message = consumer.poll(1)
    if message is None:
        continue
    if message.error():
        print(message.error(), file=sys.stderr)
        continue
    if message.value() is None:  # a tombstone: whatever has this key is gone
        print(json.dumps({"gone": message.key().decode()}), flush=True)
    else:
        event = read(message)
        if is_new(event):
            print(to_json(event).decode(), flush=True)
    consumer.store_offsets(message)  # it is handled, so its offset may be committed
