// SPDX-License-Identifier: Apache-2.0
// Prints what is new in a JetStream stream, one line of JSON each. Arguments: server, stream, name of a durable consumer.

import { AckPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { HTTP } from "cloudevents";
import { isNew } from "./versions.js";

const [servers, stream, durable] = process.argv.slice(2);
const connection = await connect({ servers });
const manager = await jetstreamManager(connection);
await manager.consumers.add(stream, { durable_name: durable, ack_policy: AckPolicy.Explicit });
const consumer = await jetstream(connection).consumers.get(stream, durable);
for await (const message of await consumer.consume()) {
  // The SDK has no reader for NATS. Its reader for HTTP does, once percent-encoding is off.
  const headers = Object.fromEntries(
    message.headers.keys().map((name) => [name.toLowerCase(), decodeURIComponent(message.headers.get(name))]),
  );
  const event = HTTP.toEvent({ headers, body: message.string() });
  if (isNew(event)) {
    console.log(JSON.stringify(event));
  }
  message.ack();
}
