// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// change makes a valid configuration another one, valid or not.
type change func(*config.NATS)

// What validate calls good must not fail at the start, and what the sink refuses validate must refuse: of each family
// of configurations the sink has to take all that the configuration takes, and to refuse some, so that there is
// something to compare.
func TestSink_takes_every_configuration_that_is_valid(t *testing.T) {
	for name, family := range map[string][]change{
		"servers": servers(), "streams": streamNames(), "durations": durations(), "subjects": subjects(),
		"auth": identities(t), "tls": trust(t),
	} {
		t.Run(name, func(t *testing.T) {
			var found agreement
			for _, apply := range family {
				cfg := parsed(t, "{nats: {}}")
				n := cfg.Pipelines[0].Sink.NATS
				apply(n)
				found.check(t, cfg, n)
			}
			found.atLeast(t, 1, 1)
		})
	}
}

// agreement counts the configurations that are valid, and those that a sink refuses.
type agreement struct{ valid, refused int }

// check fails the test if cfg is valid and its sink refuses it.
func (a *agreement) check(t *testing.T, cfg *config.Config, shown any) {
	t.Helper()
	invalid, err := cfg.Validate(), converted(cfg)
	if invalid == nil {
		a.valid++
	}
	if err != nil {
		a.refused++
	}
	assert.True(t, invalid != nil || err == nil, "%+v is valid, and the sink says: %v", shown, err)
}

func (a *agreement) atLeast(t *testing.T, valid, refused int) {
	t.Helper()
	assert.True(t, a.valid >= valid && a.refused >= refused,
		"%d are valid and the sink refuses %d, want %d and %d at least", a.valid, a.refused, valid, refused)
}

func TestKafka_sink_takes_every_configuration_that_is_valid(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("secret"), 0o600))
	family := []func(*config.Kafka){
		func(k *config.Kafka) { k.Brokers = nil },
		func(k *config.Kafka) { k.TLS = &config.TLS{} },
		func(k *config.Kafka) { k.TLS = &config.TLS{ServerName: "kafka", CertFile: password} },
		func(k *config.Kafka) {
			k.Create = &config.KafkaTopic{Partitions: 3, Settings: map[string]string{"retention.ms": "1"}}
		},
	}
	for _, topic := range []string{
		"a", "a.b-c_d", "{cluster}.{pipeline}", "{group}.{version}.{resource}", "x{resource}",
		"", ".", "..", "a b", "{name}", strings.Repeat("a", 249), strings.Repeat("a", 250),
	} {
		family = append(family, func(k *config.Kafka) { k.Topic = topic })
	}
	for _, c := range []config.Compression{"none", "gzip", "snappy", "lz4", "zstd", "", "GZIP"} {
		family = append(family, func(k *config.Kafka) { k.Compression = c })
	}
	for _, m := range []config.Mechanism{"plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "", "PLAIN"} {
		family = append(family, func(k *config.Kafka) {
			k.SASL = &config.SASL{
				Mechanism: m, User: "u",
				PasswordFile: password,
			}
		},
			func(k *config.Kafka) { k.SASL = &config.SASL{Mechanism: m, TokenFile: password} },
			func(k *config.Kafka) {
				k.SASL = &config.SASL{
					Mechanism: m, TokenURL: "https://login", ClientID: "c", ClientSecretFile: password,
					Scopes: []string{"s"},
				}
			})
	}
	var found agreement
	for _, apply := range family {
		cfg := parsed(t, `{kafka: {brokers: ["k:9092"]}}`)
		k := cfg.Pipelines[0].Sink.Kafka
		apply(k)
		found.check(t, cfg, k)
	}
	found.atLeast(t, 15, 5)
}

func TestEmbedded_server_takes_every_address_that_is_valid(t *testing.T) {
	var found agreement
	for _, address := range []string{
		"127.0.0.1:4222", ":4222", "[::1]:0", "localhost:65535", "localhost:65536", "localhost:-1", "localhost:+1",
		"localhost:-0",
		"localhost:0x10", "localhost:1_0", "localhost: 1", "localhost:", "localhost", "::1", "a:b:c", "",
	} {
		cfg := parsed(t, "{embedded: {}}")
		cfg.Pipelines[0].Sink.Embedded.Listen = address
		found.check(t, cfg, address)
	}
	found.atLeast(t, 4, 4)
}

func parsed(t *testing.T, sink string) *config.Config {
	t.Helper()
	cfg, _, err := config.Parse("f",
		[]byte("{dataDir: /data, pipelines: [{name: a, resources: [{resource: pods}], sink: "+sink+"}]}"))
	require.NoError(t, err)
	return cfg
}

// converted makes the sink of the one pipeline as run does.
func converted(cfg *config.Config) error {
	p := &process{builder: builder{cfg: cfg, out: io.Discard, log: slog.New(slog.DiscardHandler)}}
	broker, err := p.embedded(cfg)
	if err != nil {
		return err
	}
	_, subject, err := p.wiring().Streams(&cfg.Pipelines[0], checkpoint.Identity{Cluster: "c"})
	if err != nil {
		return err
	}
	id := checkpoint.Identity{Cluster: "c", Pipeline: "p"}
	_, err = p.wiring().Sink(&cfg.Pipelines[0], id, broker.embedded(), subject, nil, nil)
	return err
}

func servers() []change {
	all := []change{
		func(n *config.NATS) { n.Servers = nil },
		func(n *config.NATS) { n.Servers = []string{"nats://a", "http://b"} },
		func(n *config.NATS) { n.Servers = []string{"nats://a", "ws://b"} },
	}
	for _, s := range []string{
		"localhost:4222", "a", "nats://a", "NATS://a", "tls://a:1", "ws://a/path", "wss://a", "[::1]:4222", "nats://a:",
		"::1", "", "nats://", "nats://:4222", "nats:a", "nats:///a", "//a", "a/b", "http://a", "nats://a b", "nats://a:port",
		"nats://%zz", "nats://u:p@a", "://a", "nats://[::1", "nats://[]:1",
	} {
		all = append(all, func(n *config.NATS) { n.Servers = []string{s} })
	}
	return all
}

func streamNames() []change {
	names := []string{"KUBERNETES", "", "é", "a\u00a0b", "a\u2003b", strings.Repeat("x", 255), strings.Repeat("x", 256)}
	for c := range 0x80 {
		names = append(names, "a"+string(rune(c)))
	}
	var all []change
	for _, name := range names {
		all = append(all, func(n *config.NATS) { n.Stream = name })
	}
	return all
}

func durations() []change {
	values := []time.Duration{
		-time.Hour, -1, 0, 1, time.Second, 10*time.Second - 1, 10 * time.Second, 2 * time.Minute,
		72 * time.Hour,
	}
	var all []change
	for _, age := range values {
		for _, window := range values {
			all = append(all, func(n *config.NATS) { n.MaxAge, n.DuplicateWindow = age, window })
		}
	}
	return all
}

func subjects() []change {
	words := []string{
		"", "k8s", "{name}", "{pipeline}", "{cluster}", "{uid}", "a-{group}", "{resource}{namespace}",
		"*", ">", "$X", "_INBOX", "a b", "{", "}", "é", "\t",
	}
	var all []change
	for _, first := range words {
		for _, second := range words {
			all = append(all, func(n *config.NATS) { n.Subject = first + "." + second })
		}
	}
	return all
}

// identities are all sets of what says who we are. Everything that they name exists.
func identities(t *testing.T) []change {
	t.Helper()
	t.Setenv("BRIDGE_SECRET", "hunter2")
	user := must.Get(nkeys.CreateUser())(t)
	seed := must.Get(user.Seed())(t)
	secret, nkey := written(t, []byte("hunter2\n")), written(t, seed)
	creds := written(t, []byte("-----BEGIN NATS USER JWT-----\ne30.e30.e30\n------END NATS USER JWT------\n\n"+
		"-----BEGIN USER NKEY SEED-----\n"+string(seed)+"\n------END USER NKEY SEED------\n"))
	return subsets(
		func(n *config.NATS) { n.TokenFile = secret },
		func(n *config.NATS) { n.TokenEnv = "BRIDGE_SECRET" },
		func(n *config.NATS) { n.User = "bridge" },
		func(n *config.NATS) { n.PasswordFile = secret },
		func(n *config.NATS) { n.PasswordEnv = "BRIDGE_SECRET" },
		func(n *config.NATS) { n.NKeyFile = nkey },
		func(n *config.NATS) { n.CredsFile = creds },
	)
}

// trust are all sets of what TLS may be told. Everything that they name exists.
func trust(t *testing.T) []change {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	server.Close()
	private := must.Get(x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey))(t)
	cert := written(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	key := written(t, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	tls := func(set func(*config.TLS)) change {
		return func(n *config.NATS) {
			if n.TLS == nil {
				n.TLS = new(config.TLS)
			}
			set(n.TLS)
		}
	}
	return subsets(
		tls(func(*config.TLS) {}),
		tls(func(c *config.TLS) { c.CAFile = cert }),
		tls(func(c *config.TLS) { c.CertFile = cert }),
		tls(func(c *config.TLS) { c.KeyFile = key }),
		tls(func(c *config.TLS) { c.ServerName = "nats" }),
	)
}

func subsets(of ...change) []change {
	all := make([]change, 1<<len(of))
	for bits := range all {
		all[bits] = func(n *config.NATS) {
			for i, apply := range of {
				if bits>>i&1 == 1 {
					apply(n)
				}
			}
		}
	}
	return all
}

func written(t *testing.T, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return file
}
