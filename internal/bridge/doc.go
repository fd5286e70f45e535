// SPDX-License-Identifier: Apache-2.0

// Package bridge moves changes from streams to a sink and remembers what arrived: watch, queue, encode, publish,
// remember.
//
// Three rules carry the promises. An object has at most one unacknowledged message, so that no retry can change
// the order of its states. A stream's position moves only past tickets that are settled, so that a crash can repeat
// work but not skip it. And a change is published only if it is newer than what the ledger, or the queue, has of its
// object, so that what is repeated stays out of the log.
//
// # Rules that are easy to break
//
//   - The ledger may be behind the log by what a dead process published in its last second. So whether a change is
//     an addition, an update, or an object that took another's name is decided when it is published, after the
//     broker's check has taught the ledger (Due of stream.Publication). A deletion that a list concluded is one of
//     whatever the log has as existing under the name.
//   - A list is never behind the log. If the log has something newer than a listed object, versions do not compare
//     any more, because etcd was restored or the cluster rebuilt. Nothing more of that list is published. The stream
//     takes a new epoch, announces a gap and lists again, and tells the other streams to do the same. The same
//     happens if a listed object has the version of the log's event and its managedFields were written at another
//     time. A hash of the object would not do: an API server of another version serves other data at the same
//     version.
//   - A list is owed from the first change that is read back until the list is complete (Owes in the checkpoint).
//     Both are ahead of the position. A watch from there, which another API server may still serve, would pass over
//     what lies between.
//   - What is gone may have its objects in the checkpoint only. A stored stream that nothing serves is opened for
//     its deletions.
//   - A namespace leaves the selection once. The checkpoint says so before the first of its deletions is published
//     (Retiring). The stream begins again when it is done, whatever the labels say meanwhile. Otherwise half of its
//     objects would be deleted in the log, and unchanged.
//   - A stream that the plan drops has not ended in the log. Nothing is published for it, and the store keeps
//     everything, because a wildcard that stays may take it. So the new specs hold before the first stream is
//     stopped, and wildcards look once more when all are stopped.
//   - A session is like a process without an exec. If the sink finds that its log went back, the session ends
//     without a commit, and the next one starts from the checkpoint as after a crash (Pipeline.Run). There is no
//     second way to recover.
//   - A resync publishes what the ledger has at that moment. The version of its list says nothing of what is under
//     way. So a listed object counts only if its row is exactly that state, when it is queued and when it is
//     published. Otherwise something newer is under way, or in the log (see stream). Its
//     ticket has no version, so a list that begins waits for it, and the position does not.
//   - What is not published is known. A change that a filter leaves out moves its row, as a snapshot that is never
//     published does.
//   - An event that is too large is reduced and keeps the id of the whole event. So a broker whose limit was raised
//     between two processes still recognises the repetition.
package bridge
