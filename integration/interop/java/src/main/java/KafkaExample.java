// SPDX-License-Identifier: Apache-2.0
import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.cloudevents.CloudEvent;
import io.cloudevents.core.provider.EventFormatProvider;
import io.cloudevents.jackson.JsonFormat;
import io.cloudevents.kafka.CloudEventDeserializer;
import java.io.PrintStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Prints what applies in a topic, one line of JSON each. Arguments: brokers, topic, consumer group, file of the state. */
public final class KafkaExample {
  public static void main(String[] args) throws Exception {
    var out = new PrintStream(System.out, true, UTF_8);
    var json = EventFormatProvider.getInstance().resolveFormat(JsonFormat.CONTENT_TYPE);
    var file = Path.of(args[3]);
    var state = State.load(file);
    // Places are kept with the state. What lies outside the log is an error: the next start says what that means.
    Map<String, Object> config = Map.of(
        "bootstrap.servers", args[0], "group.id", args[2], "enable.auto.commit", false, "auto.offset.reset", "none");
    try (var consumer =
        new KafkaConsumer<String, CloudEvent>(config, new StringDeserializer(), new CloudEventDeserializer())) {
      consumer.subscribe(List.of(args[1]), new Resume(consumer, state));
      while (true) {
        var records = consumer.poll(Duration.ofSeconds(1));
        for (var record : records) {
          var partition = String.valueOf(record.partition());
          if (record.value() == null) { // a null record, for Kafka's cleaner
            state.passes(partition, record.offset());
            continue;
          }
          var handled = state.handle(record.value(), partition, record.offset());
          for (var key : handled.gone()) {
            out.println(new ObjectMapper().writeValueAsString(Map.of("gone", key)));
          }
          if (handled.applies()) {
            out.println(new String(json.serialize(record.value()), UTF_8));
          }
        }
        if (!records.isEmpty()) {
          state.save(file);
        }
      }
    }
  }

  /** Begins to read partitions where the state is. */
  private record Resume(KafkaConsumer<?, ?> consumer, State state) implements ConsumerRebalanceListener {
    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
      var first = consumer.beginningOffsets(assigned);
      var end = consumer.endOffsets(assigned);
      for (var p : assigned) {
        consumer.seek(p, state.resume(String.valueOf(p.partition()), first.get(p), end.get(p), ""));
      }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> revoked) {}
  }
}
