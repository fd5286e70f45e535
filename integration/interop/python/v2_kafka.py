# SPDX-License-Identifier: Apache-2.0
"""Prints what applies in a topic, one line of JSON each. Arguments: brokers, topic, consumer group, file of the state."""

import json
import sys

from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka_event
from cloudevents.core.formats.json import JSONFormat
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

from state import State

brokers, topic, group, file = sys.argv[1:]
state = State(file)
# Places are kept with the state. What lies outside the log is an error: the next start says what that means.
consumer = KafkaConsumer(bootstrap_servers=brokers, group_id=group, enable_auto_commit=False, auto_offset_reset="none")


def resume():
    partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
    first, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    for p in partitions:
        state.resume(p.partition, first[p], end[p])


class Resume(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned):
        for p in assigned:
            consumer.seek(p, state.next.get(str(p.partition), 0))  # 0: a partition that was added since

    def on_partitions_revoked(self, revoked):
        pass


resume()
consumer.subscribe([topic], listener=Resume())
while True:
    batch = consumer.poll(timeout_ms=1000)
    if any(str(p.partition) not in state.next for p in batch):
        resume()
    for records in batch.values():
        for record in records:
            if record.value is None:  # a null record, for Kafka's cleaner
                state.passes(record.partition, record.offset)
                continue
            event = from_kafka_event(KafkaMessage(dict(record.headers), record.key, record.value))
            applies, gone = state.handle(event, record.partition, record.offset)
            for key in gone:
                print(json.dumps({"gone": key}), flush=True)
            if applies:
                print(JSONFormat().write(event).decode(), flush=True)
    if batch:
        state.save()
