// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// isGone says whether what a watch says is that its version is too old.
func isGone(frame []byte) bool {
	return bytes.Contains(frame, []byte(`{"type":"ERROR"`)) && bytes.Contains(frame, []byte(`"code":410`))
}

// refusal is an answer like the API server's own. A retryAfter of 0 seconds is left out.
func refusal(r *http.Request, code, retryAfter int) *http.Response {
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"%s, as the `+
		`fault suite wants it","code":%d}`,
		http.StatusText(code), code)
	res := &http.Response{
		StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader([]byte(text))),
		Request:    r, ContentLength: int64(len(text)),
	}
	if retryAfter > 0 {
		res.Header.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	return res
}

// body is an answer on its way to the bridge.
type body struct {
	io.ReadCloser
	proxy  *apiProxy
	ctx    context.Context
	watch  bool
	asked  string // the version that the watch began at
	broken bool   // guarded by the proxy's mu

	// between says that what was read so far ends with a frame, and rest is what is still to be read instead of what
	// the API server says; only Read uses them.
	between, ended bool
	rest           []byte
}

var errCut = errors.New("the connection was cut")

// Read implements [io.Reader].
func (b *body) Read(into []byte) (int, error) {
	if b.ended {
		return b.end(into)
	}
	n, err := b.ReadCloser.Read(into)
	if err := b.await(); err != nil {
		return 0, err
	}
	p := b.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.broken {
		return 0, errCut
	}
	if n > 1 && p.halve > 0 {
		p.halve--
		p.stats.Halved++
		b.broken = true
		return n / 2, errCut
	}
	if b.watch && isGone(into[:n]) {
		p.stats.Gone++
	}
	if b.watch && n > 0 && p.expiring > 0 {
		if cut, ok := b.frameEnd(into[:n]); ok {
			p.expiring--
			p.stats.Expired++
			b.ended, b.rest = true, append(bytes.Clone(into[:cut]), expiry(b.asked, p.expired)...)
			return b.end(into)
		}
	}
	if n > 0 {
		b.between = into[n-1] == '\n'
	}
	return n, err
}

// frameEnd finds where the frame ends that the last read has begun: at once if there is none.
func (b *body) frameEnd(read []byte) (at int, ok bool) {
	if b.between {
		return 0, true
	}
	at = bytes.IndexByte(read, '\n') + 1
	return at, at > 0
}

// end reads what is left of an answer that ends before the API server's.
func (b *body) end(into []byte) (int, error) {
	n := copy(into, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// expiry is the frame in which an API server says in an open watch that its version is too old. Oldest is the version
// that it says can still be watched; 0 is the one after the one that the watch began at.
func expiry(asked string, oldest int64) []byte {
	from, _ := strconv.ParseInt(asked, 10, 64)
	if oldest == 0 {
		oldest = from + 1
	}
	return fmt.Appendf(nil,
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
			`"message":"too old resource version: %d (%d)","reason":"Expired","code":410}}`+"\n", from, oldest)
}

// await waits while watches are stopped.
func (b *body) await() error {
	p := b.proxy
	p.mu.Lock()
	stopped := p.stopped
	if !b.watch {
		stopped = nil
	}
	if stopped != nil {
		p.stats.Delayed++
	}
	p.mu.Unlock()
	if stopped == nil {
		return nil
	}
	select {
	case <-stopped:
		return nil
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
}

// Close implements [io.Closer].
func (b *body) Close() error {
	b.proxy.mu.Lock()
	delete(b.proxy.bodies, b)
	b.proxy.mu.Unlock()
	return b.ReadCloser.Close()
}
