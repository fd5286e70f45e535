# SPDX-License-Identifier: Apache-2.0

# The version that was handled last of each object. A real consumer keeps it where it keeps what it makes of the events.
last = {}


def is_new(event):
    """Says whether an event is newer than what was handled, and takes it for handled."""
    a = event.get_attributes()
    if "sequence" not in a:
        return True  # a marker; from Kafka it comes once from every partition
    version = (int(a.get("history", 0)), a["sequence"], a["type"].endswith(".deleted.v1"))
    if version <= last.get(a["partitionkey"], ()):
        return False
    last[a["partitionkey"]] = version
    return True
