// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
	"github.com/kube-eventbridge/kube-eventbridge/sink/sinktest"
)

// variant is a way to prove who one is, with a client that can and one that cannot.
type variant struct {
	server    func(*server.Options)
	right     natsclient.Config
	wrong     natsclient.Config
	userinfo  string // before the address, for wrong
	complaint string
}

// secrets are what nothing may say: hunter2, and the lines of the files of a.
func secrets(t *testing.T, a natsclient.Auth) []string {
	t.Helper()
	all := []string{"hunter2"}
	for _, name := range []string{a.NKeyFile, a.CredsFile} {
		if name == "" {
			continue
		}
		for line := range strings.Lines(string(must.Get(os.ReadFile(name))(t))) {
			if line = strings.TrimSpace(line); line != "" {
				all = append(all, line)
			}
		}
	}
	return all
}

func TestSink_proves_who_it_is(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T) variant{
		"token": func(*testing.T) variant {
			return variant{
				server:    func(o *server.Options) { o.Authorization = "secret" },
				right:     natsclient.Config{Auth: natsclient.Auth{Token: "secret"}},
				wrong:     natsclient.Config{Auth: natsclient.Auth{Token: "hunter2"}},
				complaint: "the broker refuses the credentials",
			}
		},
		"nothing where something is asked for": func(*testing.T) variant {
			return variant{
				server:    func(o *server.Options) { o.Authorization = "secret" },
				right:     natsclient.Config{Auth: natsclient.Auth{Token: "secret"}},
				complaint: "the broker refuses the credentials",
			}
		},
		"user": func(*testing.T) variant {
			return variant{
				server:    func(o *server.Options) { o.Username, o.Password = "bridge", "secret" },
				right:     natsclient.Config{Auth: natsclient.Auth{User: "bridge", Password: "secret"}},
				wrong:     natsclient.Config{Auth: natsclient.Auth{User: "bridge", Password: "hunter2"}},
				complaint: "the broker refuses the credentials",
			}
		},
		"user in the URL": func(*testing.T) variant {
			return variant{
				server:    func(o *server.Options) { o.Username, o.Password = "bridge", "secret" },
				right:     natsclient.Config{Auth: natsclient.Auth{User: "bridge", Password: "secret"}},
				userinfo:  "nats://bridge:hunter2@",
				complaint: "the broker refuses the credentials",
			}
		},
		"nkey":         nkeyVariant,
		"creds":        credsVariant,
		"TLS":          tlsVariant,
		"mutual TLS":   mutualTLSVariant,
		"TLS required": tlsRequiredVariant,
		"TLS unknown":  tlsUnknownVariant,
	} {
		t.Run(name, func(t *testing.T) {
			v := make(t)
			b := newBroker(t, v.server)
			v.right.Servers, v.wrong.Servers = []string{b.addr()}, []string{v.userinfo + b.addr()}
			s := newSink(t, nats.Config{Client: v.right, Stream: stream, Subjects: []string{"k8s.>"}})
			end := ready(t, s)
			assert.NoError(t, publish(t, s, message("k8s.a", "a.1")).err)
			require.NoError(t, end())
			s, said := newTalkingSink(t, nats.Config{Client: v.wrong, Stream: stream, Subjects: []string{"k8s.>"}})
			end = run(t, s)
			sayEventually(t, s, v.complaint)
			text := s.Ready().Error()
			assert.NoError(t, end(), "what could be put right ended Run")
			text += said()
			assert.Contains(t, text, "waiting for the broker", "nothing was logged")
			for _, secret := range secrets(t, v.wrong.Auth) {
				assert.NotContains(t, text, secret, "a secret")
			}
		})
	}
}

func file(t *testing.T, name string, content []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(p, content, 0o600))
	return p
}

// keyPair returns a key pair, its public key and its seed.
func keyPair(t *testing.T, create func() (nkeys.KeyPair, error)) (kp nkeys.KeyPair, public string, seed []byte) {
	t.Helper()
	kp = must.Get(create())(t)
	return kp, must.Get(kp.PublicKey())(t), must.Get(kp.Seed())(t)
}

func nkeyVariant(t *testing.T) variant {
	_, public, seed := keyPair(t, nkeys.CreateUser)
	_, _, other := keyPair(t, nkeys.CreateUser)
	return variant{
		server:    func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} },
		right:     natsclient.Config{Auth: natsclient.Auth{NKeyFile: file(t, "user.nk", seed)}},
		wrong:     natsclient.Config{Auth: natsclient.Auth{NKeyFile: file(t, "other.nk", other)}},
		complaint: "the broker refuses the credentials",
	}
}

func credsVariant(t *testing.T) variant {
	operator, operatorPublic, _ := keyPair(t, nkeys.CreateOperator)
	account, accountPublic, _ := keyPair(t, nkeys.CreateAccount)
	_, system, _ := keyPair(t, nkeys.CreateAccount)
	stranger, _, _ := keyPair(t, nkeys.CreateAccount)

	ac := jwt.NewAccountClaims(accountPublic)
	ac.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1}
	resolver := &server.MemAccResolver{}
	require.NoError(t, resolver.Store(accountPublic, must.Get(ac.Encode(operator))(t)))
	require.NoError(t, resolver.Store(system, must.Get(jwt.NewAccountClaims(system).Encode(operator))(t)))
	oc := jwt.NewOperatorClaims(operatorPublic)
	oc.SystemAccount = system
	claims := must.Get(jwt.DecodeOperatorClaims(must.Get(oc.Encode(operator))(t)))(t)
	creds := func(by nkeys.KeyPair) string {
		_, public, seed := keyPair(t, nkeys.CreateUser)
		token := must.Get(jwt.NewUserClaims(public).Encode(by))(t)
		return file(t, "user.creds", must.Get(jwt.FormatUserConfig(token, seed))(t))
	}
	return variant{
		server: func(o *server.Options) {
			o.TrustedOperators, o.AccountResolver, o.SystemAccount = []*jwt.OperatorClaims{claims}, resolver, system
		},
		right:     natsclient.Config{Auth: natsclient.Auth{CredsFile: creds(account)}},
		wrong:     natsclient.Config{Auth: natsclient.Auth{CredsFile: creds(stranger)}},
		complaint: "the broker refuses the credentials",
	}
}

// serveTLS makes a server speak TLS.
func serveTLS(t *testing.T, a *testcert.Authority, change func(*tls.Config)) func(*server.Options) {
	t.Helper()
	cfg := a.Serve(t, change)
	return func(o *server.Options) {
		o.TLS, o.TLSConfig, o.TLSTimeout = true, cfg, 5
	}
}

func tlsVariant(t *testing.T) variant {
	a := testcert.ForTest(t, "test")
	return variant{
		server:    serveTLS(t, a, nil),
		right:     natsclient.Config{TLS: natsclient.TLS{CAFile: a.File, ServerName: "broker.test"}},
		wrong:     natsclient.Config{TLS: natsclient.TLS{CAFile: a.File, ServerName: "other.test"}},
		complaint: "certificate is valid for broker.test, not other.test",
	}
}

func mutualTLSVariant(t *testing.T) variant {
	a, other := testcert.ForTest(t, "test"), testcert.ForTest(t, "test")
	cert, key := a.Issue(t, "bridge", time.Now().Add(time.Hour))
	otherCert, otherKey := other.Issue(t, "bridge", time.Now().Add(time.Hour))
	return variant{
		server:    serveTLS(t, a, a.VerifyClients),
		right:     natsclient.Config{TLS: natsclient.TLS{CAFile: a.File, CertFile: cert, KeyFile: key}},
		wrong:     natsclient.Config{TLS: natsclient.TLS{CAFile: a.File, CertFile: otherCert, KeyFile: otherKey}},
		complaint: "tls: unknown certificate authority",
	}
}

func tlsRequiredVariant(t *testing.T) variant {
	a := testcert.ForTest(t, "test")
	return variant{
		server: serveTLS(t, a, nil),
		right:  natsclient.Config{TLS: natsclient.TLS{CAFile: a.File}},
		// The client speaks TLS whenever the server asks for it.
		complaint: "certificate signed by unknown authority",
	}
}

func tlsUnknownVariant(t *testing.T) variant {
	a := testcert.ForTest(t, "test")
	return variant{
		server:    func(*server.Options) {},
		wrong:     natsclient.Config{TLS: natsclient.TLS{CAFile: a.File}},
		complaint: "TLS is configured here and not on the server",
	}
}

// Credentials that are put right on the server are used without a restart of the bridge.
func TestSink_does_not_give_up_on_refused_credentials(t *testing.T) {
	b := newBroker(t, func(o *server.Options) { o.Authorization = "secret" })
	cfg := config(sinktest.NewProxy(t, b.addr).Addr())
	cfg.Client.Auth.Token = "secret"
	s := readySink(t, cfg)
	b.stop(t)
	b.opts.Authorization = "other"
	b.start(t)
	sayEventually(t, s, "credentials")
	b.stop(t)
	b.opts.Authorization = "secret"
	b.start(t)
	must.Succeed(t, "ready", s.Ready)
}

func TestDial_is_refused_in_the_words_of_the_sink_and_without_its_secrets(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*testing.T) variant{
		"nkey": nkeyVariant, "creds": credsVariant,
		"TLS": tlsVariant,
	} {
		t.Run(name, func(t *testing.T) {
			v := make(t)
			b := newBroker(t, v.server)
			v.right.Servers, v.wrong.Servers = []string{b.addr()}, []string{b.addr()}
			nc, err := natsclient.Dial(v.right)
			require.NoError(t, err)
			if err := nc.FlushTimeout(time.Minute); err != nil || nc.Opts.Name != "kube-eventbridge" {
				t.Errorf("connected as %q it cannot speak: %v", nc.Opts.Name, err)
			}
			nc.Close()
			_, err = natsclient.Dial(v.wrong)
			require.ErrorContains(t, err, v.complaint)
			for _, secret := range secrets(t, v.wrong.Auth) {
				assert.NotContains(t, err.Error(), secret, "a secret is in: %v", err)
			}
		})
	}
}

func TestNew_names_everything_that_is_wrong(t *testing.T) {
	_, err := nats.New(nats.Config{
		Client: natsclient.Config{
			Servers: []string{"http://x", "nats://user:hunter2@:4222", "nats://a:hunter2@b:x"},
			Auth:    natsclient.Auth{Token: "hunter2", User: "u"},
			TLS:     natsclient.TLS{CertFile: "x"},
		},
		Stream: "a.b", Subjects: []string{"a..b"}, Window: 1 << 20, Wait: -1, Limits: nats.Limits{MaxAge: time.Second},
	}, nil)
	require.Error(t, err, "accepted")
	for _, want := range []string{
		`servers[0]: scheme "http"`, "servers[1]: no host", "servers[2]: not a URL", `stream: "a.b"`, `subjects[0]: "a..b"`,
		"window: 1048576", "wait: -1ns", "ids must be remembered",
		"more than one of token, user", "a certificate and its key",
	} {
		assert.Contains(t, err.Error(), want, "not said in:\n%v", err)
	}
	assert.NotContains(t, err.Error(), "hunter2", "a secret is in:\n%v", err)
	got := fmt.Sprintf("%v %+v %#v", natsclient.Config{Auth: natsclient.Auth{Token: "hunter2"}},
		natsclient.Config{Auth: natsclient.Auth{Token: "hunter2"}}, natsclient.Auth{Token: "hunter2"})
	assert.NotContains(t, got, "hunter2", "a configuration prints its secret")
	junk := file(t, "junk", []byte("-----BEGIN NATS USER JWT-----\nhunter2\n------END NATS USER JWT------\nSUhunter2\n"))
	for _, a := range []natsclient.Auth{
		{NKeyFile: "/nowhere/nk"},
		{NKeyFile: junk},
		{Password: "hunter2"},
		{CredsFile: "/nowhere/creds"},
		{CredsFile: file(t, "empty", nil)},
		{CredsFile: junk},
	} {
		cfg := config("127.0.0.1:1")
		cfg.Client.Auth = a
		if _, err := nats.New(cfg, nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("nkey %q, creds %q: %v", a.NKeyFile, a.CredsFile, err)
		}
	}
	for _, ca := range []string{"/nowhere/ca", file(t, "ca", []byte("no PEM"))} {
		cfg := config("127.0.0.1:1")
		cfg.Client.TLS.CAFile = ca
		_, err := nats.New(cfg, nil)
		assert.True(t, err != nil && strings.Contains(err.Error(), ca), "CA %s: %v", ca, err)
	}
	if _, err := nats.New(nats.Config{}, nil); errors.Unwrap(err) == nil ||
		!strings.Contains(err.Error(), "servers: none given") {
		t.Errorf("nothing at all: %v", err)
	}
}
