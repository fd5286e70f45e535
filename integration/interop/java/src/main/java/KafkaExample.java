// SPDX-License-Identifier: Apache-2.0

import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.cloudevents.CloudEvent;
import io.cloudevents.core.provider.EventFormatProvider;
import io.cloudevents.jackson.JsonFormat;
import io.cloudevents.kafka.CloudEventDeserializer;
import java.io.PrintStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Prints what is new in a topic, one line of JSON each. Arguments: brokers, topic, consumer group. */
public final class KafkaExample {
  public static void main(String[] args) throws Exception {
    var out = new PrintStream(System.out, true, UTF_8);
    var json = EventFormatProvider.getInstance().resolveFormat(JsonFormat.CONTENT_TYPE);
    var versions = new Versions();
    Map<String, Object> config =
        Map.of("bootstrap.servers", args[0], "group.id", args[2], "auto.offset.reset", "earliest");
    try (var consumer =
        new KafkaConsumer<String, CloudEvent>(config, new StringDeserializer(), new CloudEventDeserializer())) {
      consumer.subscribe(List.of(args[1]));
      while (true) {
        // Each poll commits, now and then, what the polls before it returned, and so what was handled.
        for (var record : consumer.poll(Duration.ofSeconds(1))) {
          if (record.value() == null) { // a tombstone: whatever has this key is gone
            out.println(new ObjectMapper().writeValueAsString(Map.of("gone", record.key())));
          } else if (versions.isNew(record.value())) {
            out.println(new String(json.serialize(record.value()), UTF_8));
          }
        }
      }
    }
  }
}
