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
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"%s, as the fault suite wants it","code":%d}`,
		http.StatusText(code), code)
	res := &http.Response{
		StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:  http.Header{"Content-Type": {"application/json"}},
		Body:    io.NopCloser(bytes.NewReader([]byte(text))),
		Request: r, ContentLength: int64(len(text)),
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
	broken bool // guarded by the proxy's mu
}

var errCut = errors.New("the connection was cut")

// Read implements [io.Reader].
func (b *body) Read(into []byte) (int, error) {
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
	return n, err
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
