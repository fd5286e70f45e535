// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
)

// cause asks a broker something, and returns what the library makes of its answer, or of its silence.
func cause(t *testing.T, c Config) (*Client, error) {
	t.Helper()
	client, err := NewClient(c)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = client.client.Metadata(ctx, &kafkago.MetadataRequest{})
	return client, err
}

func diagnosed(t *testing.T, c Config) error {
	t.Helper()
	client, err := cause(t, c)
	return newDoctor(c, client.transport.TLS).explain(t.Context(), err, "")
}

func TestDoctor_says_which_mistake_it_is(t *testing.T) {
	a, other := testcert.New(t), testcert.New(t)
	secure := func(change ...func(*tls.Config)) func(*fake) {
		return func(f *fake) {
			f.tls = a.Server(t, func(c *tls.Config) {
				for _, change := range change {
					change(c)
				}
			})
		}
	}
	old := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }
	guarded := func(f *fake) { f.mechanisms = []string{ScramSHA512, OAuthBearer} }
	cert, key := other.Issue(t, "stranger", time.Now().Add(time.Hour))
	expiredCert, expiredKey := a.Issue(t, "late", time.Now().Add(-time.Minute))
	file := writeFile(t, "token", "secret")
	as := func(mechanism string) Auth {
		if mechanism == OAuthBearer {
			return Auth{Mechanism: mechanism, TokenFile: file}
		}
		return Auth{Mechanism: mechanism, User: "bridge", Password: "hunter2"}
	}
	trusting := TLS{CAFile: a.File}
	const (
		wantsTLS   = "broker ADDR expects TLS on this port, and none is configured: "
		noTLS      = "broker ADDR has no TLS on this port, and TLS is configured: EOF"
		wantsSASL  = "broker ADDR expects SASL on this port, and none is configured; it offers OAUTHBEARER, SCRAM-SHA-512: unexpected EOF"
		mechanism  = "broker ADDR does not offer the SASL mechanism PLAIN; it offers OAUTHBEARER, SCRAM-SHA-512: error 33"
		noSASL     = "SASL is configured, and the broker has none on this port: error 34"
		nobody     = "the broker's certificate is signed by nobody known here; name its CA: tls: failed to verify certificate: x509: certificate signed by unknown authority"
		certWanted = "the broker asks for a client certificate, and none is configured: remote error: tls: certificate required"
		refused    = "the broker refuses the client's certificate: remote error: tls: "
	)
	for name, c := range map[string]struct {
		broker func(*fake)
		auth   Auth
		tls    TLS
		want   []string // any of these
	}{
		"plaintext to TLS":            {secure(), Auth{}, TLS{}, []string{wantsTLS + "unexpected EOF: broker appears to be expecting TLS", wantsTLS + "unexpected EOF"}},
		"plaintext to TLS with certs": {secure(a.VerifyClients, old), Auth{}, TLS{}, []string{wantsTLS + "unexpected EOF"}},
		"TLS to plaintext":            {nil, Auth{}, trusting, []string{noTLS}},
		"TLS to plaintext with SASL":  {guarded, as(Plain), trusting, []string{noTLS}},
		"no SASL":                     {guarded, Auth{}, TLS{}, []string{wantsSASL}},
		"no SASL over TLS":            {func(f *fake) { secure()(f); guarded(f) }, Auth{}, trusting, []string{wantsSASL}},
		"mechanism":                   {guarded, as(Plain), TLS{}, []string{mechanism}},
		"mechanism over TLS":          {func(f *fake) { secure()(f); guarded(f) }, as(Plain), trusting, []string{mechanism}},
		"SASL to none":                {nil, as(ScramSHA256), TLS{}, []string{noSASL}},
		"SASL to none over TLS":       {secure(), as(OAuthBearer), trusting, []string{noSASL}},
		"authority":                   {secure(), Auth{}, TLS{CAFile: other.File}, []string{nobody}},
		"authority of the system":     {secure(), Auth{}, TLS{Enabled: true}, []string{nobody}},
		"name": {secure(), Auth{}, TLS{CAFile: a.File, ServerName: "other.test"}, []string{
			"the broker's certificate is for another name; connect by one that it has, or give that as the server's name: " +
				"tls: failed to verify certificate: x509: certificate is valid for broker.test, not other.test",
		}},
		"no certificate":              {secure(a.VerifyClients), Auth{}, trusting, []string{certWanted}},
		"no certificate, TLS 1.2":     {secure(a.VerifyClients, old), Auth{}, trusting, []string{"broker ADDR asks for a client certificate, and none is configured: remote error: tls: handshake failure"}},
		"another's certificate":       {secure(a.VerifyClients), Auth{}, TLS{CAFile: a.File, CertFile: cert, KeyFile: key}, []string{refused + "unknown certificate authority"}},
		"another's certificate, 1.2":  {secure(a.VerifyClients, old), Auth{}, TLS{CAFile: a.File, CertFile: cert, KeyFile: key}, []string{refused + "unknown certificate authority"}},
		"an expired certificate":      {secure(a.VerifyClients), Auth{}, TLS{CAFile: a.File, CertFile: expiredCert, KeyFile: expiredKey}, []string{refused + "expired certificate"}},
		"an expired certificate, 1.2": {secure(a.VerifyClients, old), Auth{}, TLS{CAFile: a.File, CertFile: expiredCert, KeyFile: expiredKey}, []string{refused + "expired certificate"}},
		"password": {
			func(f *fake) {
				f.mechanisms = []string{Plain}
				f.prove = func([]byte) *saslauthenticate.Response {
					return &saslauthenticate.Response{ErrorCode: 58, ErrorMessage: "Authentication failed: Invalid username or password"}
				}
			},
			as(Plain),
			TLS{},
			[]string{"the broker refuses the credentials: error 58: Authentication failed: Invalid username or password"},
		},
		"token": {
			func(f *fake) {
				guarded(f)
				f.prove = func([]byte) *saslauthenticate.Response {
					return &saslauthenticate.Response{AuthBytes: []byte(`{"status":"invalid_token"}`)}
				}
			},
			as(OAuthBearer),
			TLS{},
			[]string{`the broker refuses the token: {"status":"invalid_token"}`},
		},
		"nothing": {secure(), Auth{}, trusting, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, c.broker)
			got := errorText(diagnosed(t, Config{Brokers: []string{f.addr()}, Auth: c.auth, TLS: c.tls}))
			for _, want := range c.want {
				if got == strings.ReplaceAll(want, "ADDR", f.addr()) {
					return
				}
			}
			t.Errorf("got  %s\nwant %s", got, strings.Join(c.want, "\n  or "))
		})
	}
}

// serveAll serves each connection of a listener with f, until the test ends.
func serveAll(t *testing.T, f func(net.Conn)) (addr string) {
	t.Helper()
	var lc net.ListenConfig
	l := must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(5 * time.Second))
				f(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

func TestDoctor_says_nothing_that_was_not_proven(t *testing.T) {
	t.Parallel()
	a := testcert.New(t)
	cert, key := a.Issue(t, "bridge", time.Now().Add(time.Hour))
	closed := newFake(t, nil)
	_ = closed.l.Close()
	for name, addr := range map[string]string{
		"closes at once": serveAll(t, func(net.Conn) {}),
		"closes after a request": serveAll(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1024))
		}),
		"speaks HTTP": serveAll(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1024))
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
		}),
		"promises a lot": serveAll(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1024))
			_, _ = c.Write([]byte("\x7f\xff\xff\xffkeb1"))
		}),
		"says nothing": serveAll(t, func(c net.Conn) {
			_, _ = io.Copy(io.Discard, c)
		}),
		"is away": closed.addr(),
	} {
		for kind, with := range map[string]Config{
			"": {}, " with TLS": {TLS: TLS{CAFile: a.File}}, " with a certificate": {TLS: TLS{CAFile: a.File, CertFile: cert, KeyFile: key}},
			" with SASL": {Auth: Auth{Mechanism: Plain, User: "u", Password: "p"}},
		} {
			t.Run(name+kind, func(t *testing.T) {
				t.Parallel()
				with.Brokers = []string{addr}
				config := must.Get(with.TLS.config())(t)
				d := newDoctor(with, config)
				must.Prompt(t, "asking", askTimeout+prompt, func() time.Duration {
					begin := time.Now()
					if got := d.explain(t.Context(), io.ErrUnexpectedEOF, ""); !errors.Is(got, io.ErrUnexpectedEOF) || got.Error() != "unexpected EOF" {
						t.Errorf("got %v", got)
					}
					return time.Since(begin)
				})
			})
		}
	}
}

// pipes counts connections and serves them as a broker that asks for SASL.
func pipes(t *testing.T, count *atomic.Int64, change func(*fake)) func(ctx context.Context, network, address string) (net.Conn, error) {
	f := &fake{t: t, mechanisms: []string{Plain}}
	if change != nil {
		change(f)
	}
	return func(context.Context, string, string) (net.Conn, error) {
		count.Add(1)
		client, server := net.Pipe()
		go func() {
			f.serve(server)
			_ = server.Close()
		}()
		return client, nil
	}
}

func TestDoctor_asks_rarely_and_one_at_a_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		d := newDoctor(Config{Brokers: []string{"b:9092"}}, nil)
		d.dial = pipes(t, &asked, nil)
		const want = "broker b:9092 expects SASL on this port, and none is configured; it offers PLAIN: EOF"
		expect := func(text string, connections int64) {
			t.Helper()
			if got := d.explain(t.Context(), io.EOF, "").Error(); got != text || asked.Load() != connections {
				t.Errorf("after %d connections, want %d: %s", asked.Load(), connections, got)
			}
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				assert.Equal(t, want, d.explain(t.Context(), io.EOF, "").Error(), "one of many was told")
			})
		}
		all.Wait()
		expect(want, 1)
		<-time.After(askEvery - 1)
		expect(want, 1)
		<-time.After(time.Nanosecond)
		expect(want, 2)
		for _, other := range []error{context.DeadlineExceeded, kafkago.SASLAuthenticationFailed, kafkago.NotLeaderForPartition, errors.New("x")} {
			<-time.After(askEvery)
			_ = d.explain(t.Context(), other, "")
			assert.EqualValues(t, 2, asked.Load(), "%v is asked about", other)
		}
	})
}

func TestDoctor_leaves_alone_a_connection_that_worked_before_and_forgets_what_was_wrong_then(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		d := newDoctor(Config{Brokers: []string{"b:9092"}}, nil)
		d.dial = pipes(t, &asked, nil)
		first := d.explain(t.Context(), io.EOF, "").Error()
		require.NotEqual(t, "EOF", first, "nothing was found")
		d.worked()
		for i, want := range []string{"EOF", "EOF", "EOF"} { // the first is not asked about, the others have to wait
			if got := d.explain(t.Context(), io.EOF, "").Error(); got != want || asked.Load() != 1 {
				t.Errorf("failure %d, %d connections: %s", i, asked.Load(), got)
			}
		}
		<-time.After(askEvery)
		if got := d.explain(t.Context(), io.EOF, "").Error(); got != first || asked.Load() != 2 {
			t.Errorf("later, %d connections: %s", asked.Load(), got)
		}
	})
}

func TestDoctor_is_bounded_in_time_and_by_its_caller(t *testing.T) {
	for name, c := range map[string]struct {
		patience, want time.Duration
		brokers        int
	}{
		"one broker": {time.Hour, askTimeout, 1}, "three": {time.Hour, askTimeout, 3}, "many": {time.Hour, askTimeout, 9}, "in a hurry": {time.Second, time.Second, 1},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			var asked atomic.Int64
			d := newDoctor(Config{Brokers: make([]string, c.brokers)}, nil)
			d.dial = pipes(t, &asked, func(f *fake) { f.frozen.Store(int32(versions)) })
			ctx, cancel := context.WithTimeout(t.Context(), c.patience)
			defer cancel()
			begin := time.Now()
			if got := d.explain(ctx, io.EOF, ""); got.Error() != "EOF" || time.Since(begin) > c.want {
				t.Errorf("after %v: %v", time.Since(begin), got)
			}
		})
	}
}

func TestDoctor_asks_the_next_broker_where_one_is_away(t *testing.T) {
	gone := newFake(t, nil)
	_ = gone.l.Close()
	f := newFake(t, func(f *fake) { f.mechanisms = []string{Plain} })
	d := newDoctor(Config{Brokers: []string{gone.addr(), f.addr()}}, nil)
	want := "broker " + f.addr() + " expects SASL on this port, and none is configured; it offers PLAIN: EOF"
	assert.Equal(t, want, d.explain(t.Context(), io.EOF, "").Error())
}
