// SPDX-License-Identifier: Apache-2.0

// Package reader reads a stream with a client-go informer, whose cache holds identities, never bodies.
//
// A watch that ends, fails or is refused is resumed where it stopped. Only when the API server can no longer show what
// came then (410 Gone) does a stream list again, and it says so (see [source.Progress]). It lists at the oldest version
// that can still be watched, where the API server names one, after reading back object by object what lies before (see
// [Recovery]); so what cannot be known is what was created and deleted in between, and what etcd has compacted.
//
// Before a watch is resumed, the API server's version is compared with the last one shown, and the two objects that
// were published last are read as they were then: a history that is not the one that was published ends the stream (see
// [source.RewoundError]).
package reader
