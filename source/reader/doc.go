// SPDX-License-Identifier: Apache-2.0

// Package reader reads a stream with a client-go informer, whose cache holds nothing of what exists.
//
// A watch that ends, fails or is refused is resumed where it stopped. Only when the API server can no longer show what
// came then (410 Gone) does a stream list again, and it says so (see [source.Progress]). It lists at the oldest version
// that can still be watched, where the API server names one, after reading back object by object what lies before (see
// [Recovery]); so what cannot be known is what was created and deleted in between, and what etcd has compacted.
//
// Before a watch is resumed, the API server's version is compared with the last one shown, and the two objects that
// were published last are read as they were then: a history that is not the one that was published ends the stream (see
// [source.RewoundError]).
//
// # Rules that are easy to break
//
//   - The informer's LastSyncResourceVersion is not a position. It names what was queued, not what was delivered.
//   - A version is complete only when a later version or a bookmark was seen, because several deletions can share
//     one (an etcd lease that expires). So a watch is resumed one version back. The ledger drops what is repeated.
//   - The informer's buffers have no bound. So a frame's bytes are reserved from the budget before it is copied, and
//     Feed.Deliver must never block.
//   - Expired is the only error that the reflector sees. Any other error would make it list, and a list folds
//     history.
//   - Objects take turns in a few places of the informer's cache, whatever their names. So its old states, and what it
//     concludes from a list, mean nothing. The handler goes by the change that an object has with it, and takes it
//     once.
//   - The first page of a list has one object. Custom resource lists put their metadata behind their items, and the
//     version must be known before anything is published.
//   - A stream that shall end is asked to: closing End has everything delivered first. A context that ends leaves
//     tickets that are never settled.
package reader
