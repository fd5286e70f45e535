// SPDX-License-Identifier: Apache-2.0

import static java.nio.charset.StandardCharsets.UTF_8;

import io.cloudevents.CloudEvent;
import io.cloudevents.core.provider.EventFormatProvider;
import io.cloudevents.http.HttpMessageFactory;
import io.cloudevents.jackson.JsonFormat;
import io.nats.client.Message;
import io.nats.client.Nats;
import io.nats.client.api.ConsumerConfiguration;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.util.HashMap;

/** Prints what is new in a JetStream stream, one line of JSON each. Arguments: server, stream, name of a durable consumer. */
public final class NatsExample {
  public static void main(String[] args) throws Exception {
    var out = new PrintStream(System.out, true, UTF_8);
    var json = EventFormatProvider.getInstance().resolveFormat(JsonFormat.CONTENT_TYPE);
    var versions = new Versions();
    try (var connection = Nats.connect(args[0])) {
      var config = ConsumerConfiguration.builder().durable(args[2]).build();
      var consumer = connection.getStreamContext(args[1]).createOrUpdateConsumer(config);
      try (var messages = consumer.iterate()) {
        while (true) {
          var message = messages.nextMessage(1000);
          if (message == null) {
            continue;
          }
          var event = read(message);
          if (versions.isNew(event)) {
            out.println(new String(json.serialize(event), UTF_8));
          }
          message.ack();
        }
      }
    }
  }

  /** The SDK has no reader for NATS. Its reader for HTTP does, once percent-encoding is off. */
  private static CloudEvent read(Message message) {
    var headers = new HashMap<String, String>();
    message.getHeaders().forEach((name, values) ->
        headers.put(name, URLDecoder.decode(values.get(0).replace("+", "%2B"), UTF_8))); // else + became a space
    return HttpMessageFactory.createReader(headers, message.getData()).toEvent();
  }
}
