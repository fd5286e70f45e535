// SPDX-License-Identifier: Apache-2.0
// What a consumer keeps: where it is in the log, and of each object the sequence of the event that it applied last.

import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";

const started = "io.kube-eventbridge.stream.resync-started.v1";
const completed = "io.kube-eventbridge.stream.resync-completed.v1";

/** State in a file. A real consumer keeps it in its database, and changes it together with what it makes of events. */
export class State {
  constructor(file) {
    this.file = file;
    this.next = {}; // by partition, the place of the first message that was not handled
    this.logs = {}; // by partition, what tells the log from another one of its name
    this.objects = {}; // by pipeline and partitionkey, the sequence, partition and place of what was told last
    this.resyncs = {}; // by partition, scope and number, the place of the first marker
    if (existsSync(file)) {
      Object.assign(this, JSON.parse(readFileSync(file, "utf8")));
    }
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
    return (this.next[partition] = Math.max(place, first));
  }

  /** Returns whether an event applies, and the keys of the objects that a resync shows to be gone. */
  handle(event, partition, place) {
    if (place < (this.next[partition] ?? 0)) {
      return { applies: false, gone: [] }; // the client has read it again
    }
    this.next[partition] = place + 1;
    if (event.type === started || event.type === completed) {
      return { applies: true, gone: this.#resync(event, partition, place) };
    }
    if (event.sequence === undefined) {
      return { applies: true, gone: [] }; // another marker; from Kafka it comes once from every partition
    }
    const key = `${event.pipeline} ${event.partitionkey}`;
    const remembered = this.objects[key]?.sequence ?? "";
    const applies = event.sequence > remembered; // the one rule
    if (applies && event.sequence.endsWith(".1")) {
      delete this.objects[key]; // an end: nothing that was published before it is read again
    } else {
      this.objects[key] = { sequence: applies ? event.sequence : remembered, partition, place };
    }
    return { applies, gone: [] };
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
      return key.startsWith(prefix) && told.partition === partition && told.place < begun;
    });
    gone.forEach((key) => delete this.objects[key]);
    return gone.map((key) => key.slice(pipeline.length + 1));
  }
}
