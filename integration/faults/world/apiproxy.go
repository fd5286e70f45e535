// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// bridgeUser is who the bridge is for the API server. What the API server sees of it is the proxy's certificate.
const bridgeUser = "kube-eventbridge"

// intercept answers a request of the bridge instead of the API server, or passes it on.
type intercept func(r *http.Request, next http.RoundTripper) (*http.Response, error)

// apiProxy stands between the bridge and the API server. It speaks HTTP/2 over TLS on both sides. An API server that is
// away is for the bridge a connection that breaks, never an answer.
type apiProxy struct {
	server *http.Server
	next   *http.Transport
	host   string
	ca     []byte
	served sync.WaitGroup

	mu        sync.Mutex // guards what follows
	intercept intercept
	user      []byte // the only client certificate that is taken; nil: any, and none
	bodies    map[*body]struct{}
	stopped   chan struct{} // not nil while the frames of watches wait; closed when they go on
	halve     int           // how many answers are still to be cut in the middle of what they say next
	expiring  int           // how many watches are still to be told that their version is too old
	expired   int64         // the oldest version that they are told
	stats     apiStats
}

// apiStats counts since the proxy was made.
type apiStats struct {
	// Watches and Lists are requests, Gone the frames that said 410, Cut the answers that the proxy broke off, Halved
	// those in the middle of a frame, Expired the watches that the proxy has ended with a 410 of its own.
	Watches, Lists, Gone, Cut, Halved, Expired int
	// Status counts answers by their status.
	Status map[int]int
	// Delayed counts reads of a watch that had to wait.
	Delayed int
}

// newAPIProxy stands in, with the server's certificate, for the server that user is for.
func newAPIProxy(user *rest.Config, cert tls.Certificate) (*apiProxy, error) {
	tlsConfig, err := rest.TLSConfigFor(user)
	if err != nil {
		return nil, fmt.Errorf("proxy of the API server: %w", err)
	}
	to, err := url.Parse(user.Host)
	if err != nil {
		return nil, fmt.Errorf("proxy of the API server: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy of the API server: %w", err)
	}
	p := &apiProxy{
		next: &http.Transport{
			TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, DisableCompression: true,
			IdleConnTimeout: time.Minute,
		},
		host: "https://" + l.Addr().String(), ca: user.CAData, bodies: map[*body]struct{}{},
		stats: apiStats{Status: map[int]int{}},
	}
	p.server = &http.Server{
		Handler: &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
			Transport:     p,
			FlushInterval: -1,
			ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
			ErrorLog:      log.New(io.Discard, "", 0),
		},
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert,
			MinVersion: tls.VersionTLS12,
		},
		ErrorLog:          log.New(io.Discard, "", 0),
		ReadHeaderTimeout: time.Minute,
	}
	p.served.Go(func() { _ = p.server.ServeTLS(l, "", "") }) // it ends with close, and nothing else ends it
	return p, nil
}

// config is how the bridge reaches the proxy.
func (p *apiProxy) config() *rest.Config {
	return &rest.Config{Host: p.host, TLSClientConfig: rest.TLSClientConfig{CAData: p.ca}}
}

func (p *apiProxy) close() error {
	p.set(nil)
	p.let()
	err := p.server.Close()
	p.cut()
	p.served.Wait()
	p.next.CloseIdleConnections()
	return err
}

// RoundTrip implements [http.RoundTripper].
func (p *apiProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	do := p.intercept
	if !p.knows(r.TLS) {
		p.stats.Status[http.StatusUnauthorized]++
		p.mu.Unlock()
		return refusal(r, http.StatusUnauthorized, 0), nil
	}
	switch {
	case isWatch(r):
		p.stats.Watches++
	case isList(r):
		p.stats.Lists++
	}
	p.mu.Unlock()
	var res *http.Response
	var err error
	if do != nil {
		res, err = do(r, p.next)
	} else {
		res, err = p.next.RoundTrip(r)
	}
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Status[res.StatusCode]++
	b := &body{
		ReadCloser: res.Body, proxy: p, ctx: r.Context(), watch: isWatch(r) && res.StatusCode == http.StatusOK,
		asked: r.URL.Query().Get("resourceVersion"), between: true,
	}
	p.bodies[b] = struct{}{}
	res.Body = b
	return res, nil
}

// knows reports whether requests of a connection are taken.
func (p *apiProxy) knows(of *tls.ConnectionState) bool {
	return p.user == nil || of != nil && len(of.PeerCertificates) > 0 && bytes.Equal(of.PeerCertificates[0].Raw, p.user)
}

// admit takes one client certificate from now on, in DER, and no other.
func (p *apiProxy) admit(certificate []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.user = certificate
}

func isWatch(r *http.Request) bool {
	v := r.URL.Query().Get("watch")
	return v == "1" || v == "true"
}

// isList knows the lists that the bridge makes: all are in pages.
func isList(r *http.Request) bool { return !isWatch(r) && r.URL.Query().Has("limit") }

// isLaterPage says whether it is a page of a list but the first.
func isLaterPage(r *http.Request) bool { return isList(r) && r.URL.Query().Has("continue") }

// set says who answers requests from now on; nil: the API server.
func (p *apiProxy) set(do intercept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.intercept = do
}

// now returns a copy of the counters.
func (p *apiProxy) now() apiStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Status = map[int]int{}
	for code, n := range p.stats.Status {
		s.Status[code] = n
	}
	return s
}

// stop makes the frames of all watches wait, until let. What is read of a list goes on.
func (p *apiProxy) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped == nil {
		p.stopped = make(chan struct{})
	}
}

func (p *apiProxy) let() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped != nil {
		close(p.stopped)
		p.stopped = nil
	}
}

// cut breaks off every answer that is under way.
func (p *apiProxy) cut() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := range p.bodies {
		b.broken = true
		_ = b.ReadCloser.Close() // whoever reads wakes up
		n++
	}
	p.stats.Cut += n
	return n
}

// cutInFrames breaks off the next answers in the middle of what they say next.
func (p *apiProxy) cutInFrames(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.halve = n
}

// expire tells the next watches that have something to say, between two frames, that their version is too old, and ends
// them. Oldest is the version that they are told to be the oldest that can be watched; 0 is the one after theirs.
func (p *apiProxy) expire(n int, oldest int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expiring, p.expired = n, oldest
}
