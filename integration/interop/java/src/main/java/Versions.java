// SPDX-License-Identifier: Apache-2.0

import io.cloudevents.CloudEvent;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;

/** The version that was handled last of each object. A real consumer keeps it where it keeps what it makes of the events. */
final class Versions {
  private record Version(int history, String sequence, boolean deleted) {}

  private static final Comparator<Version> ORDER =
      Comparator.comparingInt(Version::history).thenComparing(Version::sequence).thenComparing(Version::deleted);

  private final Map<String, Version> last = new HashMap<>();

  /** Says whether an event is newer than what was handled, and takes it for handled. */
  boolean isNew(CloudEvent event) {
    var sequence = (String) event.getExtension("sequence");
    if (sequence == null) {
      return true; // a marker; from Kafka it comes once from every partition
    }
    var history = event.getExtension("history");
    var version = new Version(
        history == null ? 0 : Integer.parseInt(history.toString()), sequence, event.getType().endsWith(".deleted.v1"));
    var key = (String) event.getExtension("partitionkey");
    if (last.containsKey(key) && ORDER.compare(version, last.get(key)) <= 0) {
      return false;
    }
    last.put(key, version);
    return true;
  }
}
