# SPDX-License-Identifier: Apache-2.0
"""Prints what is new in a topic, one line of JSON each. Arguments: brokers, topic, consumer group."""

import json
import sys

from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka_event
from cloudevents.core.formats.json import JSONFormat
from kafka import KafkaConsumer

from versions import is_new

brokers, topic, group = sys.argv[1:]
# Offsets are committed now and then, of what the loop has gone past.
consumer = KafkaConsumer(topic, bootstrap_servers=brokers, group_id=group, auto_offset_reset="earliest")
for record in consumer:
    if record.value is None:  # a tombstone: whatever has this key is gone
        print(json.dumps({"gone": record.key.decode()}), flush=True)
        continue
    event = from_kafka_event(KafkaMessage(dict(record.headers), record.key, record.value))
    if is_new(event):
        print(JSONFormat().write(event).decode(), flush=True)
