// SPDX-License-Identifier: Apache-2.0
// Prints what is new in a topic, one line of JSON each. Arguments: brokers, topic, consumer group.

import { Kafka as CloudEvents } from "cloudevents";
import { Kafka, logLevel } from "kafkajs";
import { isNew } from "./versions.js";

const [brokers, topic, groupId] = process.argv.slice(2);
const kafka = new Kafka({ brokers: brokers.split(","), logLevel: logLevel.WARN });
const consumer = kafka.consumer({ groupId });
await consumer.connect();
await consumer.subscribe({ topic, fromBeginning: true });
await consumer.run({
  // Offsets are committed now and then, of the messages for which this has returned.
  eachMessage: async ({ message }) => {
    const key = message.key.toString();
    if (message.value === null) { // a tombstone: whatever has this key is gone
      console.log(JSON.stringify({ gone: key }));
      return;
    }
    const headers = Object.fromEntries(Object.entries(message.headers).map(([name, value]) => [name, value.toString()]));
    const event = CloudEvents.toEvent({ key, headers, value: message.value.toString() });
    if (isNew(event)) {
      console.log(JSON.stringify(event));
    }
  },
});
