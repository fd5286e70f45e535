// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

// way stands between the replicator and the target's API server. A server that is away is for the replicator a
// connection that breaks, never an answer.
type way struct {
	server *http.Server
	next   *http.Transport
	host   string
	ca     []byte
	served sync.WaitGroup

	mu        sync.Mutex // guards what follows
	intercept intercept
	under     map[*http.Request]context.CancelFunc
}

// intercept answers a request instead of the API server, or passes it on.
type intercept func(r *http.Request, next http.RoundTripper) (*http.Response, error)

var errCut = errors.New("the connection was cut")

// newWay stands in, with the server's certificate, for the server that user is for.
func newWay(user *rest.Config, cert tls.Certificate) (*way, error) {
	tlsConfig, err := rest.TLSConfigFor(user)
	if err != nil {
		return nil, fmt.Errorf("way to the target: %w", err)
	}
	to, err := url.Parse(user.Host)
	if err != nil {
		return nil, fmt.Errorf("way to the target: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("way to the target: %w", err)
	}
	w := &way{
		next: &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, DisableCompression: true},
		host: "https://" + l.Addr().String(), ca: user.CAData, under: make(map[*http.Request]context.CancelFunc),
	}
	quiet := log.New(io.Discard, "", 0)
	w.server = &http.Server{
		Handler: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(to)
				r.Out.Header.Del("Authorization")
			},
			Transport:     w,
			FlushInterval: -1,
			ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
			ErrorLog:      quiet,
		},
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		ErrorLog:          quiet,
		ReadHeaderTimeout: time.Minute,
	}
	w.served.Go(func() { _ = w.server.ServeTLS(l, "", "") }) // it ends with close, and nothing else ends it
	return w, nil
}

// config is how the replicator reaches the target. It needs no credentials, but kubectl would ask a person for some.
func (w *way) config() *rest.Config {
	return &rest.Config{Host: w.host, BearerToken: "none", TLSClientConfig: rest.TLSClientConfig{CAData: w.ca}}
}

func (w *way) close() error {
	w.set(nil)
	err := w.server.Close()
	w.cut()
	w.served.Wait()
	w.next.CloseIdleConnections()
	return err
}

// set says who answers requests from now on; nil is the API server.
func (w *way) set(do intercept) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.intercept = do
}

// cut breaks off every request that is under way.
func (w *way) cut() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cancel := range w.under {
		cancel()
		n++
	}
	return n
}

// RoundTrip implements [http.RoundTripper].
func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	r = r.WithContext(ctx)
	w.mu.Lock()
	do := w.intercept
	w.under[r] = cancel
	w.mu.Unlock()
	done := func() {
		cancel()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.under, r)
	}
	var res *http.Response
	var err error
	if do != nil {
		res, err = do(r, w.next)
	} else {
		res, err = w.next.RoundTrip(r)
	}
	if err != nil {
		done()
		return nil, err
	}
	res.Body = &answer{ReadCloser: res.Body, done: done}
	return res, nil
}

// answer is the body of an answer on its way.
type answer struct {
	io.ReadCloser
	done func()
}

// Close implements [io.Closer].
func (a *answer) Close() error {
	defer a.done()
	return a.ReadCloser.Close()
}

func isWrite(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// refusal is an answer like the API server's own. A retryAfter of 0 seconds is left out.
func refusal(r *http.Request, code, retryAfter int) *http.Response {
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
		`"message":"%s, as the campaign wants it","code":%d}`, http.StatusText(code), code)
	res := &http.Response{
		StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(text)),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)),
	}
	if retryAfter > 0 {
		res.Header.Set("Retry-After", fmt.Sprint(retryAfter))
	}
	return res
}

// slow passes requests on after a time.
func slow(after func() time.Duration) intercept {
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if err := pause.For(r.Context(), after()); err != nil {
			return nil, err
		}
		return next.RoundTrip(r)
	}
}

// unheard passes requests on, and loses the answers of some writes.
func unheard(loses func() bool) intercept {
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		res, err := next.RoundTrip(r)
		if err == nil && isWrite(r) && loses() {
			_ = res.Body.Close() // it is lost anyway
			return nil, errCut
		}
		return res, err
	}
}
