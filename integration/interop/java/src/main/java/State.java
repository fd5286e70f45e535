// SPDX-License-Identifier: Apache-2.0
import static java.nio.file.StandardCopyOption.ATOMIC_MOVE;

import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.JsonAutoDetect.Visibility;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.cloudevents.CloudEvent;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What a consumer keeps: where it is in the log, and of each object the sequence of the event that it applied last. A real
 * consumer keeps it in its database, and changes it together with what it makes of events.
 */
@JsonAutoDetect(fieldVisibility = Visibility.NON_PRIVATE, getterVisibility = Visibility.NONE)
final class State {
  private static final String STARTED = "io.kube-eventbridge.stream.resync-started.v1";
  private static final String COMPLETED = "io.kube-eventbridge.stream.resync-completed.v1";
  private static final String REJECTED = "io.kube-eventbridge.resource.rejected.v1";
  private static final ObjectMapper JSON = new ObjectMapper();

  /** What was told last of an object. Unknown: the broker refused its state. */
  record Told(String sequence, boolean unknown, String partition, long place) {
    boolean deleted() {
      return sequence.endsWith(".1");
    }
  }

  /** By partition, the place of the first message that was not handled. */
  Map<String, Long> next = new HashMap<>();
  /** By partition, what tells the log from another one of its name. */
  Map<String, String> logs = new HashMap<>();
  /** By pipeline and partitionkey. */
  Map<String, Told> objects = new HashMap<>();
  /** By partition, scope and number of a resync, the place of its first marker. */
  Map<String, Long> resyncs = new HashMap<>();

  /** By partition, where it ended when it was last begun. */
  private final Map<String, Long> ends = new HashMap<>();
  /** The keys of objects that have ended. */
  private final Set<String> deleted = new HashSet<>();

  static State load(Path file) throws IOException {
    var state = Files.exists(file) ? JSON.readValue(file.toFile(), State.class) : new State();
    state.objects.forEach((key, told) -> {
      if (told.deleted()) {
        state.deleted.add(key);
      }
    });
    return state;
  }

  /** Replaces the file as a whole, so that a crash leaves the old one or the new one. */
  void save(Path file) throws IOException {
    var written = Path.of(file + ".new");
    Files.write(written, JSON.writeValueAsBytes(this));
    try (var channel = FileChannel.open(written, StandardOpenOption.WRITE)) {
      channel.force(true);
    }
    Files.move(written, file, ATOMIC_MOVE);
  }

  /** Returns where to read on in a log that has the places from first to before end. */
  long resume(String partition, long first, long end, String log) {
    var place = next.get(partition);
    if (place != null && (place > end || !log.equals(logs.get(partition)))) {
      System.err.println("the log was made again or put back: it is read from its beginning");
      objects.replaceAll((key, o) -> o.partition.equals(partition) ? new Told(o.sequence, o.unknown, partition, -1) : o);
      resyncs.clear();
      place = null;
    }
    if (place == null) {
      place = Math.min(first, log.isEmpty() ? 0L : 1L); // NATS counts from 1
    }
    if (place < first) {
      System.err.printf("partition %s: the log begins at %d, and %d was to be read next. "
          + "Deletions may be missing, and objects. Publish all again, with: kube-eventbridge resync%n", partition, first, place);
    }
    logs.put(partition, log);
    next.put(partition, Math.max(place, first));
    ends.put(partition, end);
    return next.get(partition);
  }

  /** Takes note of a message, and returns whether it was not handled before: clients may read one again. */
  boolean passes(String partition, long place) {
    if (place < next.getOrDefault(partition, 0L)) {
      return false;
    }
    next.put(partition, place + 1);
    return true;
  }

  /** Whether an event applies, and the keys of the objects that a resync shows to be gone. */
  record Handled(boolean applies, List<String> gone) {}

  Handled handle(CloudEvent event, String partition, long place) throws IOException {
    if (!passes(partition, place)) {
      return new Handled(false, List.of());
    }
    if (event.getType().equals(STARTED) || event.getType().equals(COMPLETED)) {
      return new Handled(true, resync(event, partition, place));
    }
    var sequence = (String) event.getExtension("sequence");
    if (sequence == null) {
      return new Handled(true, List.of()); // another marker; from Kafka it comes once from every partition
    }
    var key = event.getExtension("pipeline") + " " + event.getExtension("partitionkey");
    var told = objects.getOrDefault(key, new Told("", false, partition, place));
    var newer = sequence.compareTo(told.sequence);
    var applies = newer > 0 || newer == 0 && told.unknown && whole(event); // the one rule
    told = applies
        ? new Told(sequence, event.getType().equals(REJECTED), partition, place)
        : new Told(told.sequence, told.unknown, partition, place);
    objects.put(key, told);
    if (told.deleted()) {
      deleted.add(key);
    }
    forget();
    return new Handled(applies, List.of());
  }

  /** Returns whether an event has all that is published of the object. */
  private static boolean whole(CloudEvent event) {
    return event.getExtension("payload") instanceof String payload && event.getExtension("datasize") == null
        && List.of("object", "metadata", "change").contains(payload);
  }

  /**
   * Forgets deleted objects when each partition has been read up to where it ended when it was begun. Before that another
   * one may have older events of them: a topic that gets more partitions spreads its keys again.
   */
  private void forget() {
    if (ends.entrySet().stream().allMatch(e -> next.get(e.getKey()) >= e.getValue())) {
      deleted.forEach(key -> objects.computeIfPresent(key, (k, told) -> told.deleted() ? null : told));
      deleted.clear();
    }
  }

  /** Returns, at the second marker of a complete resync, what nothing has told of since the first one. */
  private List<String> resync(CloudEvent event, String partition, long place) throws IOException {
    JsonNode data = JSON.readTree(event.getData().toBytes());
    var pipeline = event.getExtension("pipeline").toString();
    var marker = event.getExtension("partitionkey").toString();
    var namespace = data.path("namespace").asText();
    var resync = String.join("|", partition, pipeline, marker, namespace,
        data.path("labelSelector").asText(), data.path("fieldSelector").asText(), data.path("n").asText());
    if (event.getType().equals(STARTED)) {
      resyncs.put(resync, place);
      return List.of();
    }
    var begun = resyncs.remove(resync);
    if (begun == null || !data.path("complete").asBoolean()) {
      return List.of();
    }
    // A marker's key ends in _/_resync, where that of an object has its namespace and name.
    var prefix = pipeline + " " + marker.replaceFirst("_/_resync$", "") + (namespace.isEmpty() ? "" : namespace + "/");
    var gone = new ArrayList<String>();
    objects.entrySet().removeIf(o -> {
      var told = o.getValue();
      if (!o.getKey().startsWith(prefix) || !told.partition.equals(partition) || told.place >= begun || told.deleted()) {
        return false;
      }
      return gone.add(o.getKey().substring(pipeline.length() + 1));
    });
    return gone;
  }
}
