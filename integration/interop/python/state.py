# SPDX-License-Identifier: Apache-2.0
"""What a consumer keeps: where it is in the log, and of each object the sequence of the event that it applied last."""

import json
import os
import sys

STARTED = "io.kube-eventbridge.stream.resync-started.v1"
COMPLETED = "io.kube-eventbridge.stream.resync-completed.v1"
REJECTED = "io.kube-eventbridge.resource.rejected.v1"


class State:
    """State in a file. A real consumer keeps it in its database, and changes it together with what it makes of events."""

    def __init__(self, file):
        self.file = file
        self.next = {}  # by partition, the place of the first message that was not handled
        self.logs = {}  # by partition, what tells the log from another one of its name
        self.objects = {}  # by pipeline and partitionkey, what was told last; unknown: the broker refused the state
        self.resyncs = {}  # by partition, scope and number, the place of the first marker
        if os.path.exists(file):
            with open(file) as f:
                self.__dict__.update(json.load(f))
        self.ends = {}  # by partition, where it ended when it was last begun; not in the file
        self.deleted = {key for key, told in self.objects.items() if told["sequence"].endswith(".1")}

    def save(self):
        """Replaces the file as a whole, so that a crash leaves the old one or the new one."""
        with open(self.file + ".new", "w") as f:
            json.dump({name: self.__dict__[name] for name in ("next", "logs", "objects", "resyncs")}, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(self.file + ".new", self.file)

    def resume(self, partition, first, end, log=""):
        """Returns where to read on in a log that has the places from first to before end."""
        place, known = self.next.get(str(partition)), self.logs.get(str(partition), log)
        if place is not None and (place > end or known != log):
            print("the log was made again or put back: it is read from its beginning", file=sys.stderr)
            for told in self.objects.values():
                told["place"] = -1 if told["partition"] == str(partition) else told["place"]
            place, self.resyncs = None, {}
        if place is None:
            place = min(first, 1 if log else 0)  # NATS counts from 1
        if place < first:
            print(f"partition {partition}: the log begins at {first}, and {place} was to be read next. Deletions may be "
                  "missing, and objects. Publish all again, with: kube-eventbridge resync", file=sys.stderr)
        self.next[str(partition)], self.logs[str(partition)] = max(place, first), log
        self.ends[str(partition)] = end
        return max(place, first)

    def passes(self, partition, place):
        """Takes note of a message, and returns whether it was not handled before: clients may read one again."""
        if place < self.next.get(str(partition), 0):
            return False
        self.next[str(partition)] = place + 1
        return True

    def handle(self, event, partition, place):
        """Returns whether an event applies, and the keys of the objects that a resync shows to be gone."""
        if not self.passes(partition, place):
            return False, []
        a, partition = event.get_attributes(), str(partition)
        if a["type"] in (STARTED, COMPLETED):
            return True, self.resync(a, event.get_data(), partition, place)
        if "sequence" not in a:
            return True, []  # another marker; from Kafka it comes once from every partition
        key = a["pipeline"] + " " + a["partitionkey"]
        told = self.objects.get(key, {"sequence": "", "unknown": False})
        whole = a.get("payload") in ("object", "metadata", "change") and "datasize" not in a
        applies = a["sequence"] > told["sequence"] or told["unknown"] and whole and a["sequence"] == told["sequence"]
        if applies:  # by the one rule
            told = {"sequence": a["sequence"], "unknown": a["type"] == REJECTED}
        self.objects[key] = {**told, "partition": partition, "place": place}
        if told["sequence"].endswith(".1"):
            self.deleted.add(key)
        self.forget()
        return applies, []

    def forget(self):
        """Forgets deleted objects when each partition has been read up to where it ended when it was begun. Before that
        another one may have older events of them: a topic that gets more partitions spreads its keys again."""
        if self.deleted and all(self.next[partition] >= end for partition, end in self.ends.items()):
            for key in self.deleted:
                if self.objects.get(key, {"sequence": ""})["sequence"].endswith(".1"):
                    del self.objects[key]
            self.deleted.clear()

    def resync(self, a, data, partition, place):
        """Returns, at the second marker of a complete resync, what nothing has told of since the first one."""
        scope = [data["namespace"], data["labelSelector"], data["fieldSelector"]]
        resync = json.dumps([partition, a["pipeline"], a["partitionkey"], *scope, data["n"]])
        if a["type"] == STARTED:
            self.resyncs[resync] = place
            return []
        begun = self.resyncs.pop(resync, None)
        if begun is None or not data["complete"]:
            return []
        # A marker's key ends in _/_resync, where that of an object has its namespace and name.
        prefix = a["pipeline"] + " " + a["partitionkey"].removesuffix("_/_resync")
        prefix += data["namespace"] + "/" if data["namespace"] else ""
        gone = [key for key, told in self.objects.items()
                if key.startswith(prefix) and told["partition"] == partition and told["place"] < begun
                and not told["sequence"].endswith(".1")]
        for key in gone:
            del self.objects[key]
        return [key.split(" ", 1)[1] for key in gone]
