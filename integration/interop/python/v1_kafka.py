# SPDX-License-Identifier: Apache-2.0
"""Prints what applies in a topic, one line of JSON each. Arguments: brokers, topic, consumer group, file of the state."""

import json
import sys

from cloudevents.conversion import to_json
from cloudevents.kafka import KafkaMessage, from_binary, from_structured
from confluent_kafka import Consumer, KafkaException

from state import State


def read(message):
    headers, key = dict(message.headers()), message.key().decode()
    if headers["content-type"].startswith(b"application/cloudevents"):
        # Without headers: from_structured would take the content type of the event for that of its data.
        return from_structured(KafkaMessage({}, key, message.value()))
    return from_binary(KafkaMessage(headers, key, message.value()))


def resume(consumer, assigned):
    for p in assigned:
        p.offset = state.resume(p.partition, *consumer.get_watermark_offsets(p))
    consumer.assign(assigned)


brokers, topic, group, file = sys.argv[1:]
state = State(file)
consumer = Consumer({
    "bootstrap.servers": brokers,
    "group.id": group,
    # Places are kept with the state. What lies outside the log is an error: the next start says what that means.
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
})
consumer.subscribe([topic], on_assign=resume)
while True:
    batch = consumer.consume(100, timeout=1)
    for message in batch:
        if message.error():
            raise KafkaException(message.error())
        if message.value() is None:  # a null record, for Kafka's cleaner
            state.passes(message.partition(), message.offset())
            continue
        event = read(message)
        applies, gone = state.handle(event, message.partition(), message.offset())
        for key in gone:
            print(json.dumps({"gone": key}), flush=True)
        if applies:
            print(to_json(event).decode(), flush=True)
    if batch:
        state.save()
