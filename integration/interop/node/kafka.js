// SPDX-License-Identifier: Apache-2.0
// Prints what applies in a topic, one line of JSON each. Arguments: brokers, topic, consumer group, file of the state.

import { Kafka as CloudEvents } from "cloudevents";
import { Kafka, logLevel } from "kafkajs";
import { State } from "./state.js";

const [brokers, topic, groupId, file] = process.argv.slice(2);
const state = new State(file);
const kafka = new Kafka({ brokers: brokers.split(","), logLevel: logLevel.WARN });
const admin = kafka.admin();
const consumer = kafka.consumer({ groupId });
await Promise.all([admin.connect(), consumer.connect()]);
await consumer.subscribe({ topic, fromBeginning: true });

/** Looks which part of the topic is there, and returns where to read on in each partition. */
async function resume() {
  const partitions = await admin.fetchTopicOffsets(topic);
  return partitions.map(({ partition, low, high }) => ({
    topic, partition, offset: String(state.resume(partition, Number(low), Number(high))),
  }));
}

const places = await resume();
// It seeks whenever it has joined the group. Before that it may read what was handled, and passes over it.
consumer.on(consumer.events.GROUP_JOIN, () => {
  places.forEach(({ partition, offset }) => {
    consumer.seek({ topic, partition, offset: String(state.next[partition] ?? offset) });
  });
});
await consumer.run({
  autoCommit: false, // places are kept with the state
  eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
    if (!(Number(batch.firstOffset()) <= state.next[batch.partition])) {
      await resume(); // a partition was added, or the topic begins here by now
    }
    for (const message of batch.messages) {
      if (message.value === null) { // a null record, for Kafka's cleaner
        state.passes(batch.partition, Number(message.offset));
      } else {
        const { applies, gone } = state.handle(read(message), batch.partition, Number(message.offset));
        gone.forEach((key) => console.log(JSON.stringify({ gone: key })));
        if (applies) {
          console.log(JSON.stringify(read(message)));
        }
      }
      resolveOffset(message.offset);
      await heartbeat();
    }
    state.save();
  },
});

function read({ key, value, headers }) {
  const texts = Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, text.toString()]));
  return CloudEvents.toEvent({ key: key.toString(), headers: texts, value: value.toString() });
}
