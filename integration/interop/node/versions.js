// SPDX-License-Identifier: Apache-2.0

// The version that was handled last of each object. A real consumer keeps it where it keeps what it makes of the events.
const last = new Map();

/** Says whether an event is newer than what was handled, and takes it for handled. */
export function isNew(event) {
  if (event.sequence === undefined) {
    return true; // a marker; from Kafka it comes once from every partition
  }
  // As text, so that it sorts: a history has at most ten digits, a sequence always twenty.
  const deleted = event.type.endsWith(".deleted.v1") ? "1" : "0";
  const version = String(event.history ?? 0).padStart(10, "0") + event.sequence + deleted;
  if (version <= (last.get(event.partitionkey) ?? "")) {
    return false;
  }
  last.set(event.partitionkey, version);
  return true;
}
