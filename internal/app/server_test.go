// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pipe is a listener whose connections are dialled by a test.
type pipe chan net.Conn

// Accept implements net.Listener.
func (p pipe) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (p pipe) Close() error {
	close(p)
	return nil
}

// Addr implements net.Listener.
func (pipe) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipe) dial() net.Conn {
	here, there := net.Pipe()
	p <- there
	return here
}

// Whoever reaches the address could use up all descriptors, and the probes would fail.
func TestServer_closes_connections_that_nothing_happens_on(t *testing.T) {
	for name, c := range map[string]struct {
		asks string
		size int
		took time.Duration
	}{
		"nothing is asked":           {"", 0, readTime},
		"a request is cut short":     {"GET / HTTP/1.1\r\nHost: a\r\n", 0, readTime},
		"a body is cut short":        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", 0, readTime},
		"nothing is asked once more": {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0, idleTime},
		"the answer is not read":     {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1 << 20, writeTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				at := make(pipe)
				server := endpointServer{at, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(w, strings.Repeat("a", c.size))
				})}
				var running sync.WaitGroup
				running.Go(func() { assert.NoError(t, server.serve(ctx)) })
				began, conn := time.Now(), at.dial()
				_, err := io.WriteString(conn, c.asks)
				require.NoError(t, err)
				if c.size > 0 {
					<-time.After(time.Hour)
				} else {
					_, err = io.Copy(io.Discard, bufio.NewReader(conn))
					require.NoError(t, err)
					assert.InDelta(t, c.took, time.Since(began), float64(5*time.Second))
				}
				rest, err := io.ReadAll(conn)
				require.NoError(t, err)
				assert.Less(t, len(rest), 1<<20)
				cancel()
				running.Wait()
			})
		})
	}
}
