// SPDX-License-Identifier: Apache-2.0
// What a consumer keeps: where it is in the log, and of each object the sequence of the event that it applied last.

import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";

const started = "io.kube-eventbridge.stream.resync-started.v1";
const completed = "io.kube-eventbridge.stream.resync-completed.v1";
const rejected = "io.kube-eventbridge.resource.rejected.v1";

/** State in a file. A real consumer keeps it in its database, and changes it together with what it makes of events. */
export class State {
  constructor(file) {
    this.file = file;
    this.next = {}; // by partition, the place of the first message that was not handled
    this.logs = {}; // by partition, what tells the log from another one of its name
    this.objects = {}; // by pipeline and partitionkey, what was told last; unknown: the broker refused the state
    this.resyncs = {}; // by partition, scope and number, the place of the first marker
    if (existsSync(file)) {
      Object.assign(this, JSON.parse(readFileSync(file, "utf8")));
    }
    this.ends = {}; // by partition, where it ended when it was last begun; not in the file
    this.deleted = new Set(Object.keys(this.objects).filter((key) => this.objects[key].sequence.endsWith(".1")));
  }

  /** Replaces the file as a whole, so that a crash leaves the old one or the new one. */
  save() {
    const { next, logs, objects, resyncs } = this;
    const fd = openSync(`${this.file}.new`, "w");
    writeSync(fd, JSON.stringify({ next, logs, objects, resyncs }));
    fsyncSync(fd);
    closeSync(fd);
    renameSync(`${this.file}.new`, this.file);
  }

  /** Returns where to read on in a log that has the places from first to before end. */
  resume(partition, first, end, log = "") {
    let place = this.next[partition];
    if (place !== undefined && (place > end || this.logs[partition] !== log)) {
      console.error("the log was made again or put back: it is read from its beginning");
      for (const told of Object.values(this.objects).filter((o) => o.partition === partition)) {
        told.place = -1;
      }
      [place, this.resyncs] = [undefined, {}];
    }
    place ??= Math.min(first, log ? 1 : 0); // NATS counts from 1
    if (place < first) {
      console.error(
        `partition ${partition}: the log begins at ${first}, and ${place} was to be read next. Deletions may be ` +
          "missing, and objects. Publish all again, with: kube-eventbridge resync",
      );
    }
    this.logs[partition] = log;
    this.ends[partition] = end;
    return (this.next[partition] = Math.max(place, first));
  }

  /** Takes note of a message, and returns whether it was not handled before: clients may read one again. */
  passes(partition, place) {
    if (place < (this.next[partition] ?? 0)) {
      return false;
    }
    this.next[partition] = place + 1;
    return true;
  }

  /** Returns whether an event applies, and the keys of the objects that a resync shows to be gone. */
  handle(event, partition, place) {
    if (!this.passes(partition, place)) {
      return { applies: false, gone: [] };
    }
    if (event.type === started || event.type === completed) {
      return { applies: true, gone: this.#resync(event, partition, place) };
    }
    if (event.sequence === undefined) {
      return { applies: true, gone: [] }; // another marker; from Kafka it comes once from every partition
    }
    const key = `${event.pipeline} ${event.partitionkey}`;
    let { sequence, unknown } = this.objects[key] ?? { sequence: "", unknown: false };
    const whole = ["object", "metadata", "change"].includes(event.payload) && event.datasize === undefined;
    const applies = event.sequence > sequence || (unknown && whole && event.sequence === sequence);
    if (applies) { // by the one rule
      [sequence, unknown] = [event.sequence, event.type === rejected];
    }
    this.objects[key] = { sequence, unknown, partition, place };
    if (sequence.endsWith(".1")) {
      this.deleted.add(key);
    }
    this.#forget();
    return { applies, gone: [] };
  }

  /**
   * Forgets deleted objects when each partition has been read up to where it ended when it was begun. Before that another
   * one may have older events of them: a topic that gets more partitions spreads its keys again.
   */
  #forget() {
    if (Object.keys(this.ends).some((partition) => this.next[partition] < this.ends[partition])) {
      return;
    }
    for (const key of this.deleted) {
      if (this.objects[key]?.sequence.endsWith(".1")) {
        delete this.objects[key];
      }
    }
    this.deleted.clear();
  }

  /** Returns, at the second marker of a complete resync, what nothing has told of since the first one. */
  #resync({ type, pipeline, partitionkey, data }, partition, place) {
    const scope = [data.namespace, data.labelSelector, data.fieldSelector];
    const resync = JSON.stringify([partition, pipeline, partitionkey, ...scope, data.n]);
    if (type === started) {
      this.resyncs[resync] = place;
      return [];
    }
    const begun = this.resyncs[resync];
    delete this.resyncs[resync];
    if (begun === undefined || !data.complete) {
      return [];
    }
    // A marker's key ends in _/_resync, where that of an object has its namespace and name.
    const prefix = `${pipeline} ${partitionkey.replace(/_\/_resync$/, "")}${data.namespace ? `${data.namespace}/` : ""}`;
    const gone = Object.keys(this.objects).filter((key) => {
      const told = this.objects[key];
      const known = key.startsWith(prefix) && told.partition === partition && !told.sequence.endsWith(".1");
      return known && told.place < begun;
    });
    gone.forEach((key) => delete this.objects[key]);
    return gone.map((key) => key.slice(pipeline.length + 1));
  }
}
