// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

const (
	// checkTime is how long the reading of what was published may take, of all objects together: meanwhile there is no
	// watch.
	checkTime = 10 * time.Second
	// checkTries is how often each object is asked for.
	checkTries = 2
)

// checker looks whether the API server's history is the one that was published.
type checker struct {
	*requests
	*ending
	history source.History
	reached func() string
	// broken counts the checks of objects in a row that the connection did not survive.
	broken int
}

// check looks whether the API server's history is the one that was published: at its version, and at known, if not nil.
func (c *checker) check(ctx context.Context, version string, known iter.Seq2[source.Ident, bool]) error {
	p, err := c.client.Place(ctx, c.stream)
	if err != nil {
		return err
	}
	defer p.Leave()
	if err := c.checkServer(ctx, version); err != nil || known == nil {
		return err
	}
	return c.checkObjects(ctx, p, newest(version, known))
}

// checkServer asks the API server for its version, before a watch from one that it has shown earlier. If its own is
// older than that, or than what was published, the stream ends for good. The caller has a place.
func (c *checker) checkServer(ctx context.Context, shown string) error {
	if c.reached != nil {
		shown = source.Later(shown, c.reached())
	}
	meta, err := c.client.ReadPage(ctx, c.stream, kube.PageQuery{Limit: 1, Placed: true},
		func([]byte) error { return nil })
	if err != nil {
		return err
	}
	return c.checkVersion(shown, meta.ResourceVersion)
}

// checkAgain is checkServer, and looks at what was published, as it is known by now, and at what a watch has shown
// last.
func (c *checker) checkAgain(ctx context.Context, version string, shown source.Ident) error {
	p, err := c.client.Place(ctx, c.stream)
	if err != nil {
		return err
	}
	defer p.Leave()
	if err := c.checkServer(ctx, version); err != nil {
		return err
	}
	var witnesses []witness
	if _, ok := source.Number(shown.ResourceVersion); ok {
		witnesses = append(witnesses, witness{shown, shown.ResourceVersion})
	}
	if position, known, ok := c.history.Resume(); ok {
		witnesses = append(witnesses, newest(position, known)...)
	}
	return c.checkObjects(ctx, p, witnesses)
}

// checkVersion ends the stream for good where the API server went back from the version that it has shown. Versions
// that are not numbers have no order.
func (c *checker) checkVersion(shown, now string) error {
	if order, err := resourceversion.CompareResourceVersion(now, shown); err != nil || order >= 0 {
		return nil
	}
	return c.refuse(&source.RewoundError{Stream: c.stream.Name(), Position: shown, Server: now})
}

// checkObjects reads objects as they were. An etcd that was restored and has passed those versions since
// has had something else there, or nothing. If so, the stream ends for good. Where the API server cannot say, or not
// within checkTime, nothing is concluded. Where another check of the resource had no answer, this one has a second.
//
// The error is ctx's, or says that the connection broke: the API server may be another one since, and all has to be
// asked again. If that happens again and again, it is because of what is asked.
func (c *checker) checkObjects(ctx context.Context, p *kube.Place, witnesses []witness) error {
	broken := c.broken
	c.broken = 0
	if broken >= checkTries {
		return nil
	}
	timed, cancel := context.WithTimeout(ctx, p.Time(checkTime))
	defer cancel()
	for _, object := range witnesses {
		err := c.checkObject(timed, object)
		switch {
		case err == nil:
			p.Answer()
		case ctx.Err() != nil:
			return err
		case timed.Err() != nil:
			p.Hang()
			return nil
		case !kube.Answered(err):
			c.broken = broken + 1
			return err
		}
	}
	return nil
}

// witness is an object that was so at a version.
type witness struct {
	source.Ident
	at string
}

// newest returns the two that were published last, as of position, or where they are ahead of it, because something
// holds it back, as of their own versions.
func newest(position string, known iter.Seq2[source.Ident, bool]) []witness {
	if _, ok := source.Number(position); !ok {
		return nil
	}
	var first, second source.Ident
	var n, m uint64
	for id, current := range known {
		switch v, ok := source.Number(id.ResourceVersion); {
		case !ok, !current:
		case v > n:
			first, n, second, m = id, v, first, n
		case v > m:
			second, m = id, v
		}
	}
	var all []witness
	for _, id := range []source.Ident{first, second} {
		if id.Name != "" {
			all = append(all, witness{id, source.Later(position, id.ResourceVersion)})
		}
	}
	return all
}

func (c *checker) checkObject(ctx context.Context, object witness) error {
	id, at := object.Ident, object.at
	found, there, err := c.stateAt(ctx, id, at)
	if err == nil && there && found.UID == id.UID && source.Later(id.ResourceVersion,
		found.ResourceVersion) != id.ResourceVersion {
		// That may be a change which was folded into a later one, and not published yet. What was published is beyond
		// doubt.
		at = id.ResourceVersion
		found, there, err = c.stateAt(ctx, id, at)
	}
	if err != nil || there && found.UID == id.UID && found.ResourceVersion == id.ResourceVersion {
		return err
	}
	return c.refuse(&source.RewoundError{
		Stream: c.stream.Name(), Object: id.Key(), Position: id.ResourceVersion, At: at,
		Server: found.ResourceVersion, Replaced: there && found.UID != id.UID,
	})
}
