// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/transport"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// readBuffer is what one read from a watch's connection can take: several frames of a busy watch.
const readBuffer = 128 << 10

// maxRefusal is how much is read of an answer that is an error.
const maxRefusal = 64 << 10

const (
	acceptObjects = "application/json"
	// acceptIdentities has the API server leave out all but apiVersion, kind and metadata; one that cannot sends whole
	// objects.
	acceptIdentities = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

// Client talks to one API server. It is safe for concurrent use.
type Client struct {
	cfg    *rest.Config
	base   url.URL
	http   atomic.Pointer[http.Client]
	places *places
}

// NewClient returns a client with the credentials of cfg. Limits on requests per second in cfg are not used: the
// client has four lists, checks and reads of single objects under way at a time, in the order in which they are asked
// for. Some do not count: a list that takes longer than a second, for other resources; a check or a read that does, at
// all; and a list whose objects are not taken.
//
// Requests go over HTTP/1.1: a watch then has a connection, and so a reader, of its own, which costs less per
// event than sharing one. A peer that vanished is noticed by TCP keep-alives.
//
// Files of client certificates are read for each connection, and those of tokens at least every minute. The file of the
// authority that has signed the API server's certificate is read again when it does not verify. What cfg has as data is
// never read again.
func NewClient(cfg *rest.Config) (*Client, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	hc, err := httpClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("credentials for the API server: %w", err)
	}
	c := &Client{cfg: rest.CopyConfig(cfg), base: *base, places: newPlaces()}
	c.http.Store(hc)
	return c, nil
}

// Config returns what clients of client-go are made of that use this one's connections and credentials. Those of
// client-go go on with a connection whose client certificate the API server does not take any more, for five minutes.
func (c *Client) Config() *rest.Config {
	return &rest.Config{
		Host: c.base.String(), Transport: connections{c}, UserAgent: c.cfg.UserAgent, QPS: c.cfg.QPS, Burst: c.cfg.Burst,
		RateLimiter: c.cfg.RateLimiter, Timeout: c.cfg.Timeout,
	}
}

// connections is a client as other clients see it.
type connections struct{ client *Client }

// RoundTrip implements [http.RoundTripper].
func (c connections) RoundTrip(req *http.Request) (*http.Response, error) {
	return c.client.send(func(hc *http.Client) (*http.Response, error) { return hc.Transport.RoundTrip(req) })
}

// do makes a request.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	return c.send(func(hc *http.Client) (*http.Response, error) { return hc.Do(req) })
}

// send makes a request. What an API server does not take any more is not used again: a connection with an old client
// certificate, and the roots with which its certificate does not verify.
func (c *Client) send(request func(*http.Client) (*http.Response, error)) (*http.Response, error) {
	hc := c.http.Load()
	resp, err := request(hc)
	var unverified *tls.CertificateVerificationError
	switch {
	case err == nil && resp.StatusCode == http.StatusUnauthorized:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // its connection is idle then, or closed
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		closeIdle(hc)
	case errors.As(err, &unverified):
		if renewed, err := httpClient(c.cfg); err == nil && c.http.CompareAndSwap(hc, renewed) {
			closeIdle(hc)
		}
	}
	return resp, err
}

func httpClient(cfg *rest.Config) (*http.Client, error) {
	tc, err := cfg.TransportConfig()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := transport.TLSConfigFor(tc)
	if err != nil {
		return nil, err
	}
	if tlsConfig != nil {
		tlsConfig.NextProtos = []string{"http/1.1"}
	}
	dial := (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	if cfg.Dial != nil {
		dial = cfg.Dial
	}
	proxy := http.ProxyFromEnvironment
	if cfg.Proxy != nil {
		proxy = cfg.Proxy
	}
	rt, err := transport.HTTPWrappersForConfig(tc, &http.Transport{
		Proxy:               proxy,
		DialContext:         dial,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: 10 * time.Second,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     90 * time.Second,
		ReadBufferSize:      readBuffer,
		// An API server gives up on a list after 60 s, and answers a watch before its first event.
		ResponseHeaderTimeout: 90 * time.Second,
		// Lists and, on newer servers, watches would come gzipped: more CPU on both sides than the network saves.
		DisableCompression: true,
	})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: rt}, nil
}

// CloseIdleConnections closes connections that no request uses.
func (c *Client) CloseIdleConnections() { closeIdle(c.http.Load()) }

// closeIdle closes what no request uses. The method of http.Client sees no transport behind those of client-go that add
// headers.
func closeIdle(c *http.Client) { utilnet.CloseIdleConnectionsFor(c.Transport) }

// ClusterUID returns the uid of the namespace kube-system, which identifies a cluster for as long as it lives.
func (c *Client) ClusterUID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	u := c.base
	u.Path = joinPath(u.Path, "/api/v1/namespaces/kube-system")
	body, err := c.get(ctx, u, acceptObjects, schema.GroupResource{Resource: "namespaces"})
	if err != nil {
		return "", fmt.Errorf("identify the cluster by the namespace kube-system: %w", err)
	}
	defer func() { _ = body.Close() }()
	var ns metav1.PartialObjectMetadata
	if err := json.NewDecoder(body).Decode(&ns); err != nil {
		return "", fmt.Errorf("identify the cluster by the namespace kube-system: %w", err)
	}
	if ns.UID == "" {
		return "", errors.New("identify the cluster by the namespace kube-system: it has no uid")
	}
	return string(ns.UID), nil
}

// PageQuery says which page of a list is asked for.
type PageQuery struct {
	// Limit is how many objects the page has at most.
	Limit int
	// Token is that of a later page. Exact is the version of a first page; both are empty for the first of a consistent
	// list.
	Token, Exact string
	// Identities asks for the objects' metadata only.
	Identities bool
	// Placed says that who asks has a place already.
	Placed bool
	// Prompt says that whoever takes the objects waits for no pipeline.
	Prompt bool
}

// listPage asks for one page.
func (c *Client) listPage(ctx context.Context, s source.Stream, page PageQuery) (io.ReadCloser, error) {
	q := selectors(s)
	q.Set("limit", strconv.Itoa(page.Limit))
	if page.Token != "" {
		q.Set("continue", page.Token)
	}
	if page.Exact != "" {
		q.Set("resourceVersion", page.Exact)
		q.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	}
	accept := acceptObjects
	if page.Identities {
		accept = acceptIdentities
	}
	return c.get(ctx, c.url(s, q), accept, s.GroupResource())
}

const (
	// A watch is asked to end after five to ten minutes, so that the watches of many bridges and streams spread
	// over the API servers again after one of them was away.
	watchAtLeast, watchSpread = 5 * time.Minute, 5 * time.Minute
	// WatchGrace is how long after that an open watch is taken for dead.
	WatchGrace = 30 * time.Second
)

// WatchTime returns for how long a watch is to be asked for.
func WatchTime() time.Duration { return watchAtLeast + rand.N(watchSpread) }

// Watch opens a watch for everything after version, with bookmarks, and asks the API server to end it after timeout.
// The error is the API server's own where it sent one. The caller closes the answer.
func (c *Client) Watch(
	ctx context.Context, s source.Stream, version string, timeout time.Duration,
) (io.ReadCloser, error) {
	q := selectors(s)
	q.Set("watch", "true")
	q.Set("allowWatchBookmarks", "true")
	q.Set("resourceVersion", version)
	q.Set("timeoutSeconds", strconv.Itoa(int(timeout.Seconds())))
	return c.get(ctx, c.url(s, q), acceptObjects, s.GroupResource())
}

func (c *Client) url(s source.Stream, q url.Values) url.URL {
	u := c.base
	path := "/apis/" + s.Group + "/" + s.Version
	if s.Group == "" {
		path = "/api/" + s.Version
	}
	if s.Namespace != "" {
		path += "/namespaces/" + s.Namespace
	}
	u.Path = joinPath(u.Path, path+"/"+s.Resource.Resource)
	u.RawQuery = q.Encode()
	return u
}

// Get answers a GET of a path that begins with a slash. Accept is the media type that is asked for, and what an error
// is about. The error is the API server's own where it sent one. The caller closes the answer.
func (c *Client) Get(ctx context.Context, path, accept string, what schema.GroupResource) (io.ReadCloser, error) {
	u := c.base
	u.Path = joinPath(u.Path, path)
	return c.get(ctx, u, accept, what)
}

func (c *Client) get(ctx context.Context, u url.URL, accept string, what schema.GroupResource) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	began := time.Now()
	resp, err := c.do(req)
	if err != nil {
		metrics.RequestResult.Increment(ctx, "<error>", http.MethodGet, u.Host)
		return nil, err
	}
	metrics.RequestResult.Increment(ctx, strconv.Itoa(resp.StatusCode), http.MethodGet, u.Host)
	metrics.RequestLatency.Observe(ctx, http.MethodGet, u, time.Since(began))
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, refused(resp, what)
}

// refused turns an answer other than 200 into the API server's own error where it sent one.
func refused(resp *http.Response, what schema.GroupResource) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	// Retry-After may also be a date: no API server sends that.
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" && status.Status != metav1.StatusSuccess {
		status.Code = int32(resp.StatusCode)
		if status.Details == nil {
			status.Details = &metav1.StatusDetails{}
		}
		status.Details.RetryAfterSeconds = max(status.Details.RetryAfterSeconds, int32(min(after, math.MaxInt32)))
		return &apierrors.StatusError{ErrStatus: status}
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, http.MethodGet, what, "", string(body), after, true)
}

func selectors(s source.Stream) url.Values {
	q := url.Values{}
	if s.LabelSelector != "" {
		q.Set("labelSelector", s.LabelSelector)
	}
	if s.FieldSelector != "" {
		q.Set("fieldSelector", s.FieldSelector)
	}
	return q
}

func joinPath(base, path string) string {
	for len(base) > 0 && base[len(base)-1] == '/' {
		base = base[:len(base)-1]
	}
	return base + path
}
