// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
)

func TestDoctor_finds_nothing_where_all_is_well(t *testing.T) {
	a := testcert.New(t)
	cert, key := a.Issue(t, "bridge", time.Now().Add(time.Hour))
	trusting, certified := TLS{CAFile: a.File}, TLS{CAFile: a.File, CertFile: cert, KeyFile: key}
	plain := Auth{Mechanism: Plain, User: "u", Password: "p"}
	for name, c := range map[string]struct {
		certificates, tls, sasl bool
		cfg                     Config
	}{
		"plaintext":               {cfg: Config{}},
		"TLS":                     {tls: true, cfg: Config{TLS: trusting}},
		"TLS with a certificate":  {tls: true, cfg: Config{TLS: certified}},
		"certificates":            {tls: true, certificates: true, cfg: Config{TLS: certified}},
		"SASL":                    {sasl: true, cfg: Config{Auth: plain}},
		"SASL over TLS":           {sasl: true, tls: true, cfg: Config{Auth: plain, TLS: trusting}},
		"SASL over certificates":  {sasl: true, tls: true, certificates: true, cfg: Config{Auth: plain, TLS: certified}},
		"a name that is not its":  {tls: true, cfg: Config{TLS: TLS{CAFile: a.File, ServerName: "other.test"}}},
		"a certificate on demand": {tls: true, cfg: Config{TLS: trusting}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(f *fake) {
				if c.tls {
					f.tls = a.Server(t, nil)
				}
				if c.certificates {
					a.VerifyClients(f.tls)
				}
				if name == "a certificate on demand" {
					f.tls.ClientAuth = tls.RequestClientCert
				}
				if c.sasl {
					f.mechanisms = []string{Plain}
				}
			})
			c.cfg.Brokers = []string{f.addr()}
			d := newDoctor(c.cfg, must.Get(c.cfg.TLS.config())(t))
			if got := d.explain(t.Context(), io.EOF, ""); got.Error() != "EOF" {
				t.Errorf("got %v", got)
			}
			assert.EqualValues(t, 1, f.accepted.Load(), "connections were made")
		})
	}
}

// A complaint is lost where what the client writes meanwhile makes the broker reset the connection.
func TestDoctor_finds_out_about_certificates_without_a_complaint(t *testing.T) {
	a := testcert.New(t)
	cert, key := testcert.New(t).Issue(t, "stranger", time.Now().Add(time.Hour))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		f := newFake(t, func(f *fake) {
			f.tls = a.Server(t, a.VerifyClients)
			f.tls.MaxVersion = version
		})
		for with, want := range map[TLS]string{
			{CAFile: a.File}: "broker " + f.addr() + " asks for a client certificate, and none is configured: unexpected EOF",
			{CAFile: a.File, CertFile: cert, KeyFile: key}: "broker " + f.addr() + " refuses the client's certificate (tls: unknown certificate authority): unexpected EOF",
		} {
			d := newDoctor(Config{Brokers: []string{f.addr()}}, must.Get(with.config())(t))
			assert.Equal(t, want, d.explain(t.Context(), io.ErrUnexpectedEOF, "").Error(), tls.VersionName(version))
		}
	}
}

func TestDoctor_knows_whether_there_is_a_certificate_to_refuse(t *testing.T) {
	a := testcert.New(t)
	cert, key := a.Issue(t, "bridge", time.Now().Add(time.Hour))
	for with, want := range map[TLS]string{
		{CAFile: a.File}: "the broker asks for a client certificate, and none is configured: remote error: tls: bad certificate",
		{CAFile: a.File, CertFile: cert, KeyFile: key}: "the broker refuses the client's certificate: remote error: tls: bad certificate",
	} {
		d := newDoctor(Config{}, must.Get(with.config())(t))
		assert.Equal(t, want, d.explain(t.Context(), remote("tls: bad certificate"), "").Error())
	}
}

func TestDoctor_makes_no_room_for_what_a_stranger_promises(t *testing.T) {
	addr := serveAll(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1024))
		_, _ = c.Write([]byte("\x7f\xff\xff\xffkeb1"))
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_ = newDoctor(Config{Brokers: []string{addr}}, nil).explain(t.Context(), io.EOF, "")
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<30 {
		t.Errorf("%d bytes were allocated", n)
	}
}
