// SPDX-License-Identifier: Apache-2.0
// Prints what applies in a JetStream stream, one line of JSON each. Arguments: server, stream, file of the state.

import { DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { HTTP } from "cloudevents";
import { State } from "./state.js";

const [servers, stream, file] = process.argv.slice(2);
const state = new State(file);
const connection = await connect({ servers });
const manager = await jetstreamManager(connection);
for (;;) {
  const info = await manager.streams.info(stream);
  // What later messages of a subject have replaced is not missing.
  const first = info.config.max_msgs_per_subject === 1 ? 1 : Math.max(info.state.first_seq, 1);
  const start = state.resume("0", first, info.state.last_seq + 1, info.created);
  // Each batch has a consumer of its own, which begins where the state is. So nothing needs to be acknowledged.
  const from = { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: start };
  const consumer = await jetstream(connection).consumers.get(stream, from);
  for await (const message of await consumer.fetch({ max_messages: 1000, expires: 5000 })) {
    // The SDK has no reader for NATS. Its reader for HTTP does, once percent-encoding is off.
    const headers = Object.fromEntries(
      message.headers.keys().map((name) => [name.toLowerCase(), decodeURIComponent(message.headers.get(name))]),
    );
    const event = HTTP.toEvent({ headers, body: message.string() });
    const { applies, gone } = state.handle(event, "0", message.seq);
    gone.forEach((key) => console.log(JSON.stringify({ gone: key })));
    if (applies) {
      console.log(JSON.stringify(event));
    }
  }
  state.save();
}
