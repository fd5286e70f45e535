// SPDX-License-Identifier: Apache-2.0
import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.cloudevents.CloudEvent;
import io.cloudevents.core.provider.EventFormatProvider;
import io.cloudevents.http.HttpMessageFactory;
import io.cloudevents.jackson.JsonFormat;
import io.nats.client.FetchConsumeOptions;
import io.nats.client.Message;
import io.nats.client.Nats;
import io.nats.client.api.DeliverPolicy;
import io.nats.client.api.OrderedConsumerConfiguration;
import io.nats.client.api.StreamInfo;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** Prints what applies in a JetStream stream, one line of JSON each. Arguments: server, stream, file of the state. */
public final class NatsExample {
  private static final FetchConsumeOptions BATCH =
      FetchConsumeOptions.builder().maxMessages(1000).expiresIn(5000).build();

  public static void main(String[] args) throws Exception {
    var out = new PrintStream(System.out, true, UTF_8);
    var json = EventFormatProvider.getInstance().resolveFormat(JsonFormat.CONTENT_TYPE);
    var file = Path.of(args[2]);
    var state = State.load(file);
    try (var connection = Nats.connect(args[0])) {
      var stream = connection.getStreamContext(args[1]);
      while (true) {
        // Each batch has a consumer of its own, which begins where the state is. So nothing needs to be acknowledged.
        var from = new OrderedConsumerConfiguration()
            .deliverPolicy(DeliverPolicy.ByStartSequence)
            .startSequence(resume(state, stream.getStreamInfo()));
        try (var messages = stream.createOrderedConsumer(from).fetch(BATCH)) {
          for (var message = messages.nextMessage(); message != null; message = messages.nextMessage()) {
            var event = read(message);
            var handled = state.handle(event, "0", message.metaData().streamSequence());
            for (var key : handled.gone()) {
              out.println(new ObjectMapper().writeValueAsString(Map.of("gone", key)));
            }
            if (handled.applies()) {
              out.println(new String(json.serialize(event), UTF_8));
            }
          }
        }
        state.save(file);
      }
    }
  }

  private static long resume(State state, StreamInfo info) {
    // What later messages of a subject have replaced is not missing.
    var replaced = info.getConfiguration().getMaxMsgsPerSubject() == 1;
    var first = replaced ? 1 : Math.max(info.getStreamState().getFirstSequence(), 1);
    return state.resume("0", first, info.getStreamState().getLastSequence() + 1, info.getCreateTime().toString());
  }

  /** The SDK has no reader for NATS. Its reader for HTTP does, once percent-encoding is off. */
  private static CloudEvent read(Message message) {
    var headers = new HashMap<String, String>();
    message.getHeaders().forEach((name, values) ->
        headers.put(name, URLDecoder.decode(values.get(0).replace("+", "%2B"), UTF_8))); // else + became a space
    return HttpMessageFactory.createReader(headers, message.getData()).toEvent();
  }
}
