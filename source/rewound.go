// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// RewoundError says that the API server's history is not the one that was shown before: its etcd was restored from a backup, or
// is another one. Versions of the two do not compare, and a watch from a version that the API server has not reached yet is
// accepted, and silent until it is passed.
type RewoundError struct {
	// Stream is the stream's name.
	Stream string
	// Position is a version that was shown before: of the stream, or of Object.
	Position string
	// Object is the key of the object that gave it away; empty where the API server's own version did.
	Object string
	// At is the version at which the object was read; empty where a list showed it.
	At string
	// Server is the version at which the API server is, or at which it has Object; empty if it does not have it.
	Server string
	// Replaced says that what the API server has under Object's key is another object: its uid differs.
	Replaced bool
}

// Error implements error.
func (e *RewoundError) Error() string {
	if e.Object == "" {
		return fmt.Sprintf("stream %s was at resourceVersion %s and the API server is at %s: its etcd was restored",
			e.Stream, e.Position, e.Server)
	}
	now := "nothing"
	switch {
	case e.Server == "":
	case e.Replaced:
		now = "another object of that name, at " + e.Server
	default:
		now = "it at " + e.Server
	}
	if e.At != "" {
		now += ", read as of " + e.At
	}
	return fmt.Sprintf("stream %s: object %s was at resourceVersion %s and the API server has %s: its etcd was restored",
		e.Stream, e.Object, e.Position, now)
}

// checkServer asks the API server for its version, before a watch from one that it has shown earlier. If its own is older, the
// stream ends for good.
func (w *wire) checkServer(ctx context.Context, shown string) error {
	meta, err := w.client.readPage(ctx, w.stream, pageQuery{limit: 1}, func([]byte) error { return nil })
	if err != nil {
		return err
	}
	return w.checkVersion(shown, meta.ResourceVersion)
}

// checkAgain is checkServer, and looks at what was published, as it is known by now.
func (w *wire) checkAgain(ctx context.Context, shown string) error {
	if err := w.checkServer(ctx, shown); err != nil {
		return err
	}
	position, known, ok := w.history.Resume()
	if !ok {
		return nil
	}
	return w.checkObjects(ctx, position, known)
}

// checkVersion ends the stream for good where the API server went back from the version that it has shown. Versions that
// are not numbers have no order.
func (w *wire) checkVersion(shown, now string) error {
	if order, err := resourceversion.CompareResourceVersion(now, shown); err != nil || order >= 0 {
		return nil
	}
	return w.refuse(&RewoundError{Stream: w.stream.Name(), Position: shown, Server: now})
}

// refuse ends the stream for good.
func (w *wire) refuse(err error) error {
	w.refused = err
	w.cancel()
	return err
}

// checkObjects reads what was published last as it was at position. An etcd that was restored and has passed the position since
// has had something else there, or nothing. If so, the stream ends for good. Where the API server cannot say, nothing is concluded.
func (w *wire) checkObjects(ctx context.Context, position string, known iter.Seq[Ident]) error {
	for _, id := range newest(position, known) {
		err := w.checkObject(ctx, position, id)
		if err != nil && (ctx.Err() != nil || !answered(err)) {
			return err
		}
	}
	return nil
}

// newest returns the two that were published last, of what had its present state at position already.
func newest(position string, known iter.Seq[Ident]) []Ident {
	limit, ok := number(position)
	if !ok {
		return nil
	}
	var first, second Ident
	var n, m uint64
	for id := range known {
		switch v, ok := number(id.ResourceVersion); {
		case !ok || v > limit:
		case v > n:
			first, n, second, m = id, v, first, n
		case v > m:
			second, m = id, v
		}
	}
	switch {
	case n == 0:
		return nil
	case m == 0:
		return []Ident{first}
	default:
		return []Ident{first, second}
	}
}

func (w *wire) checkObject(ctx context.Context, position string, id Ident) error {
	found, there, err := w.stateAt(ctx, id, position)
	if err == nil && there && found.UID == id.UID && later(id.ResourceVersion, found.ResourceVersion) != id.ResourceVersion {
		// That may be a change which was folded into a later one, and not published yet. What was published is beyond doubt.
		position = id.ResourceVersion
		found, there, err = w.stateAt(ctx, id, position)
	}
	if err != nil || there && found.UID == id.UID && found.ResourceVersion == id.ResourceVersion {
		return err
	}
	return w.refuse(&RewoundError{
		Stream: w.stream.Name(), Object: id.Key(), Position: id.ResourceVersion, At: position,
		Server: found.ResourceVersion, Replaced: there && found.UID != id.UID,
	})
}

// stateAt reads an object as it was at a version. The error is answered where the API server does not tell: the version may be gone, and
// not every API server knows such requests.
func (w *wire) stateAt(ctx context.Context, id Ident, version string) (found Ident, there bool, err error) {
	var p patience
	giveUp := func(err error) bool { return p.spent(err) || !answered(err) }
	err = w.retried(ctx, giveUp, func() (err error) {
		found, there, err = ReadAt(ctx, w.client, w.stream, id.Namespace, id.Name, version)
		return err
	})
	return found, there, err
}
