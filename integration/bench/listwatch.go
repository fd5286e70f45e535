// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// chunk is how many bytes are written at once while a client keeps up.
const chunk = 64 << 10

// serveList answers with a page of objects. An error means that nothing was written.
func (s *apiServer) serveList(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	first, emitted, err := s.page(q)
	if err != nil {
		return err
	}
	end := s.objects
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 {
		end = min(end, first+limit)
	}
	version := s.listVersion(emitted)
	w.Header().Set("Content-Type", "application/json")
	buf := make([]byte, 0, chunk+8<<10)
	buf = fmt.Appendf(buf, `{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":"%d"`, s.template.kind, version)
	if end < s.objects {
		buf = fmt.Appendf(buf, `,"continue":"%d.%d","remainingItemCount":%d`, emitted, end, s.objects-end)
	}
	buf = append(buf, `},"items":[`...)
	for i := first; i < end; i++ {
		if i > first {
			buf = append(buf, ',')
		}
		buf = s.template.appendListed(buf, i, s.objectVersion(i, emitted))
		if len(buf) >= chunk {
			if _, err := w.Write(buf); err != nil {
				return nil // the client is gone
			}
			buf = buf[:0]
		}
	}
	_, _ = w.Write(append(buf, "]}\n"...))
	return nil
}

// page returns the index with which a list begins, and the number of events it is to show.
func (s *apiServer) page(q url.Values) (first int, emitted uint64, err error) {
	emitted, _, _ = s.state()
	if token := q.Get("continue"); token != "" {
		at, from, _ := strings.Cut(token, ".")
		var err1, err2 error
		emitted, err1 = strconv.ParseUint(at, 10, 64)
		first, err2 = strconv.Atoi(from)
		if err1 != nil || err2 != nil || first > s.objects {
			return 0, 0, fmt.Errorf("continue token %q is not one of ours", token)
		}
		return first, emitted, nil
	}
	if q.Get("resourceVersionMatch") == "Exact" {
		if emitted, err = s.eventOf(q.Get("resourceVersion")); err != nil {
			return 0, 0, err
		}
	}
	return 0, emitted, nil
}

// eventOf returns how many events there were at a version, which has not expired.
func (s *apiServer) eventOf(version string) (uint64, error) {
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil || v < s.listVersion(0) {
		return 0, fmt.Errorf("resourceVersion %q is not one a list had", version)
	}
	n := v - s.listVersion(0)
	_, oldest, _ := s.state()
	return n, s.expired(n, oldest)
}

// expired returns an error if a watch cannot go on after n events.
func (s *apiServer) expired(n, oldest uint64) error {
	if n < oldest {
		return &expiredError{s.listVersion(n), s.listVersion(oldest)}
	}
	return nil
}

// serveWatch streams events until the client leaves or its timeout is over. An error means that nothing was written.
func (s *apiServer) serveWatch(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	initial := q.Get("sendInitialEvents") == "true" || q.Get("resourceVersion") == "" || q.Get("resourceVersion") == "0"
	seen, _, _ := s.state()
	if !initial {
		var err error
		if seen, err = s.eventOf(q.Get("resourceVersion")); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "application/json")
	out := &watchWriter{server: s, w: w, control: http.NewResponseController(w)}
	if initial {
		for i := range s.objects {
			out.object("ADDED", i, s.objectVersion(i, seen))
		}
		if q.Get("sendInitialEvents") == "true" {
			out.bookmark(s.listVersion(seen), `,"annotations":{"k8s.io/initial-events-end":"true"}`)
		}
	}
	s.follow(r, out, seen)
	return nil
}

// follow writes the events after the seen ones as they come.
func (s *apiServer) follow(r *http.Request, out *watchWriter, seen uint64) {
	q := r.URL.Query()
	var timeout, silence <-chan time.Time
	if n, _ := strconv.Atoi(q.Get("timeoutSeconds")); n > 0 {
		timeout = time.After(time.Duration(n) * time.Second)
	}
	if q.Get("allowWatchBookmarks") == "true" {
		tick := time.NewTicker(s.bookmark)
		defer tick.Stop()
		silence = tick.C
	}
	for out.err == nil {
		emitted, oldest, changed := s.state()
		if err := s.expired(seen, oldest); err != nil {
			out.failed(err)
			return
		}
		for ; seen < emitted && out.err == nil; seen++ {
			out.object("MODIFIED", int(seen%uint64(s.objects)), s.listVersion(seen+1))
		}
		out.flush()
		select {
		case <-r.Context().Done():
			return
		case <-timeout:
			return
		case <-changed:
		case <-silence:
			out.bookmark(s.listVersion(seen), "")
		}
	}
}

// watchWriter collects the frames of a watch and writes them a chunk at a time. After an error it does nothing.
type watchWriter struct {
	server  *apiServer
	w       http.ResponseWriter
	control *http.ResponseController
	buf     []byte
	err     error
}

func (o *watchWriter) object(kind string, index int, version uint64) {
	o.buf = append(o.buf, `{"type":"`...)
	o.buf = append(o.buf, kind...)
	o.buf = append(o.buf, `","object":`...)
	o.buf = o.server.template.appendWatched(o.buf, index, version)
	o.buf = append(o.buf, "}\n"...)
	if len(o.buf) >= chunk {
		o.write()
	}
}

func (o *watchWriter) bookmark(version uint64, more string) {
	o.buf = fmt.Appendf(o.buf,
		`{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"v1","metadata":{"resourceVersion":"%d",`+
			`"creationTimestamp":null%s}}}`+"\n", o.server.template.kind, version, more)
}

// failed says why the watch ends.
func (o *watchWriter) failed(err error) {
	o.buf = append(append(append(o.buf, `{"type":"ERROR","object":`...), status(http.StatusGone, "Expired", err.Error())...),
		"}\n"...)
	o.flush()
}

func (o *watchWriter) write() {
	if o.err == nil {
		_, o.err = o.w.Write(o.buf)
	}
	o.buf = o.buf[:0]
}

// flush sends what was collected, also if that is nothing: a client waits for the head of the answer.
func (o *watchWriter) flush() {
	if len(o.buf) > 0 {
		o.write()
	}
	if o.err == nil {
		o.err = o.control.Flush()
	}
}
