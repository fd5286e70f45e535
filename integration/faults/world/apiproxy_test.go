// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const (
	watchPath = "/api/v1/configmaps?watch=1"
	pagePath  = "/api/v1/configmaps?limit=500&continue=x"
	gone      = `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}` + "\n"
)

// behindAPIProxy returns a proxy in front of a server whose watches say what is put into frames, and a client behind
// it.
func behindAPIProxy(t *testing.T) (p *apiProxy, client *http.Client, frames chan string) {
	t.Helper()
	frames = make(chan string)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !isWatch(r) {
			_, _ = fmt.Fprint(rw, "page")
			return
		}
		_ = http.NewResponseController(rw).Flush()
		for {
			select {
			case f, ok := <-frames:
				if !ok {
					return
				}
				_, _ = fmt.Fprint(rw, f)
				_ = http.NewResponseController(rw).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	p, err := newAPIProxy(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}},
		server.TLS.Certificates[0])
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.close()) })
	config := must.Get(rest.TLSConfigFor(p.config()))(t)
	config.MinVersion = tls.VersionTLS12
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return p, &http.Client{Transport: transport}, frames
}

// reply is an answer whose body is closed when the test ends.
type reply struct {
	code, major int
	header      http.Header
	body        io.Reader
}

func ask(t *testing.T, p *apiProxy, c *http.Client, path string) reply {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, p.config().Host+path, nil))(t)
	res, err := c.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return reply{res.StatusCode, res.ProtoMajor, res.Header, res.Body}
}

func TestAPIProxy_passes_frames_on_at_once_and_counts_what_matters(t *testing.T) {
	p, c, frames := behindAPIProxy(t)
	res := ask(t, p, c, watchPath)
	r := bufio.NewReader(res.body)
	for _, f := range []string{"{}\n", gone} {
		frames <- f
		got, err := r.ReadString('\n')
		require.True(t, got == f && err == nil, "read %q, %v; want %q", got, err, f)
	}
	close(frames)
	rest, err := io.ReadAll(r)
	assert.True(t, len(rest) == 0 && err == nil, "an end became %q, %v", rest, err)
	page, err := io.ReadAll(ask(t, p, c, pagePath).body)
	assert.True(t, string(page) == "page" && err == nil, "read %q, %v", page, err)
	if s := p.now(); res.major != 2 || s.Watches != 1 || s.Lists != 1 || s.Gone != 1 || s.Status[http.StatusOK] != 2 ||
		s.Cut+s.Halved > 0 {
		t.Errorf("HTTP/%d, %+v", res.major, s)
	}
}

func TestAPIProxy_makes_watches_wait_and_lists_not(t *testing.T) {
	p, c, frames := behindAPIProxy(t)
	r := bufio.NewReader(ask(t, p, c, watchPath).body)
	p.stop()
	frames <- "{}\n"
	line := make(chan string, 1)
	go func() {
		got, _ := r.ReadString('\n')
		line <- got
	}()
	require.NoError(t, poll(t.Context(), patience, "the frame to wait", func() bool { return p.now().Delayed == 1 }))
	page, err := io.ReadAll(ask(t, p, c, pagePath).body)
	assert.True(t, string(page) == "page" && err == nil, "read %q, %v", page, err)
	assert.Empty(t, line, "the frame did not wait")
	p.let()
	assert.Equal(t, "{}\n", <-line, "read")
}

func TestAPIProxy_breaks_answers_off(t *testing.T) {
	p, c, frames := behindAPIProxy(t)
	res := ask(t, p, c, watchPath)
	assert.Equal(t, 1, p.cut(), "answers were cut, want 1")
	got, err := io.ReadAll(res.body)
	assert.True(t, len(got) == 0 && err != nil, "a cut answer is %q, %v", got, err)
	p.cutInFrames(1)
	res = ask(t, p, c, watchPath)
	frames <- "{12345}\n"
	got, err = io.ReadAll(res.body)
	assert.True(t, string(got) == "{123" && err != nil, "an answer cut in a frame is %q, %v", got, err)
	s := p.now()
	assert.True(t, s.Cut == 1 && s.Halved == 1, "%+v", s)
}

// Whatever the reads of a watch begin and end with, the frame that says 410 is a whole one between others, and the
// last.
func TestAPIProxy_expires_watches_between_two_frames(t *testing.T) {
	const said = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
		`"message":"too old resource version: 7 (9)","reason":"Expired","code":410}}` + "\n"
	for name, c := range map[string]struct {
		before, after string // what the watch says before it expires, and next
		want          string
	}{
		"a new watch":           {"", "{1}\n", ""},
		"between frames":        {"{1}\n", "{2}\n{3}\n", "{1}\n"},
		"in the middle of one":  {"{1}\n{2", "}\n{3}\n", "{1}\n{2}\n"},
		"the end alone is read": {"{1}\n{2}", "\n", "{1}\n{2}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p, client, frames := behindAPIProxy(t)
			body := ask(t, p, client, watchPath+"&resourceVersion=7").body
			if c.before != "" {
				frames <- c.before
				require.NoError(t, must.Err(io.ReadFull(body, make([]byte, len(c.before)))))
			}
			p.expire(1, 9)
			frames <- c.after
			if rest, err := io.ReadAll(body); c.before+string(rest) != c.want+said || err != nil {
				t.Errorf("the watch said %q, %v; want %q", c.before+string(rest), err, c.want+said)
			}
			s := p.now()
			assert.True(t, s.Expired == 1 && s.Gone == 0, "%+v", s)
		})
	}
}

func TestAPIProxy_refuses_as_the_API_server_does(t *testing.T) {
	p, c, _ := behindAPIProxy(t)
	p.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if isLaterPage(r) {
			return refusal(r, http.StatusTooManyRequests, 3), nil
		}
		return next.RoundTrip(r)
	})
	res := ask(t, p, c, pagePath)
	assert.True(t, res.code == http.StatusTooManyRequests && res.header.Get("Retry-After") == "3" &&
		p.now().Status[http.StatusTooManyRequests] == 1, "%d, %v", res.code, res.header)
	p.set(nil)
	assert.Equal(t, http.StatusOK, ask(t, p, c, pagePath).code, "afterwards")
}

// An API server that is away must not look like one that answers.
func TestAPIProxy_turns_a_server_that_is_away_into_a_broken_connection(t *testing.T) {
	p, c, _ := behindAPIProxy(t)
	p.set(func(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errCut })
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, p.config().Host+pagePath, nil))(t)
	c.Timeout = 10 * time.Second
	if res, err := c.Do(req); err == nil {
		_ = res.Body.Close()
		t.Errorf("it answers %s", res.Status)
	}
}
