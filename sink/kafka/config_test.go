// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestNew_refuses_what_cannot_be(t *testing.T) {
	good := Config{Brokers: []string{"127.0.0.1:1"}, Cluster: "c", Pipeline: "p", Topic: "kubernetes"}
	for name, c := range map[string]struct {
		change func(c *Config)
		want   string
	}{
		"nothing wrong": {func(*Config) {}, ""},
		"a pattern":     {func(c *Config) { c.Topic = "k8s.{cluster}.{resource}" }, ""},
		"no broker":     {func(c *Config) { c.Brokers = nil }, "no broker is named"},
		"no pipeline": {
			func(c *Config) { c.Pipeline = "" },
			"the names of the cluster and of the pipeline are needed",
		},
		"no topic":           {func(c *Config) { c.Topic = "" }, `topic "": a name has at most 249`},
		"dots only":          {func(c *Config) { c.Topic = ".." }, `topic "..": a name has`},
		"a space":            {func(c *Config) { c.Topic = "a b" }, `topic "a b": a name has`},
		"half a placeholder": {func(c *Config) { c.Topic = "a.{resource" }, `topic "a.{resource": a name has`},
		"too long":           {func(c *Config) { c.Topic = strings.Repeat("a", 250) }, "a name has at most 249"},
		"another compression": {
			func(c *Config) { c.Compression = "brotli" },
			`compression "brotli": it is one of [none gzip snappy lz4 zstd]`,
		},
		"a codec":              {func(c *Config) { c.Compression = batch.Zstd }, ""},
		"an unknown mechanism": {func(c *Config) { c.Auth.Mechanism = "GSSAPI" }, "GSSAPI"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			c.change(&cfg)
			s, err := New(cfg)
			assert.True(t, c.want != "" || err == nil && s.Ready() != nil, "%v", err)
			assert.True(t, c.want == "" || err != nil && strings.Contains(err.Error(), c.want),
				"got %v, want %s", err, c.want)
		})
	}
}

func TestTopics_fit_their_pattern_only(t *testing.T) {
	c := Config{Topic: "k8s.{cluster}.{resource}"}
	fits, only := must.Get2(c.topics())(t)
	require.Empty(t, only)
	for name, want := range map[string]bool{
		"k8s.prod.pods": true, "k8s.a.b.c": true, "k8s.prod": false, "k8sxprod.pods": false, "k8s..pods": false,
		"x.k8s.prod.pods": false, "k8s.prod.pods ": false,
	} {
		assert.Equal(t, want, fits.MatchString(name), "%s: %v", name, !want)
	}
}

// Whoever restarts finds the partitions under the same numbers, whatever other topics there are.
func TestBase_is_the_same_for_a_name_and_leaves_room_for_partitions(t *testing.T) {
	many, one := &topics{}, &topics{only: "a"}
	assert.EqualValues(t, 0, one.base("a"), "bases")
	assert.EqualValues(t, 1895610368, many.base("k8s.pods"), "bases")
	seen := map[int32]bool{}
	for n := range 100 {
		b := many.base("k8s.prod.resource-" + strings.Repeat("x", n))
		assert.True(t, b >= 0 && b&(1<<partitionBits-1) == 0, "base %d", b)
		seen[b] = true
	}
	assert.Len(t, seen, 100, "bases of 100 topics")
}

func TestLosses_are_named(t *testing.T) {
	safe := map[string]string{settingUnclean: "false", settingISR: "2", settingCleanup: "delete"}
	assert.Empty(t, losses(safe, false), "of safe settings")
	assert.Empty(t, losses(map[string]string{}, false), "of unknown settings")
	for setting, c := range map[string]struct {
		value      string
		tombstones bool
		want       int
	}{
		settingUnclean: {"true", false, 1}, settingISR: {"1", false, 1}, settingCleanup: {"compact,delete", true, 1},
	} {
		bad := map[string]string{settingUnclean: "false", settingISR: "2", settingCleanup: "delete"}
		bad[setting] = c.value
		if found := losses(bad, c.tombstones); len(found) != c.want || !strings.HasPrefix(found[0], setting+"="+c.value) {
			t.Errorf("%s: %v", setting, found)
		}
	}
	assert.Len(t, losses(map[string]string{settingCleanup: "compact"}, false), 2, "compaction without tombstones")
}

func TestSink_tells_once_what_settings_lose(t *testing.T) {
	var said bytes.Buffer
	a := &admin{cfg: &Config{Log: slog.New(slog.NewTextHandler(&said, nil))}}
	one, other := &topic{name: "one"}, &topic{name: "other"}
	for _, at := range []*topic{one, one, other} {
		a.tellLosses(at, map[string]string{settingISR: "1"})
	}
	assert.Equal(t, 1, strings.Count(said.String(), "topic=one "), "it says:\n%s", said.String())
	assert.Equal(t, 1, strings.Count(said.String(), "topic=other "), "it says:\n%s", said.String())
}

// The copies in all partitions are one event: same id, same everything.
func TestSink_announces_an_epoch_with_one_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		epoch := uint64(1_700_000_000)
		w := &writer{cfg: &Config{Cluster: "c", Pipeline: "p", Epoch: func() uint64 { return epoch }}}
		w.take(kafka.Producer{ID: 4, Epoch: 1})
		first := w.announcement()
		<-time.After(time.Second)
		epoch++
		assert.Equal(t, first, w.announcement(), "then")
		w.take(kafka.Producer{ID: 4, Epoch: 2})
		next := w.announcement()
		assert.NotEqual(t, first.ID, next.ID, "the next epoch has the same id")
		assert.JSONEq(t, `{"producerId":4,"producerEpoch":2,"epoch":1700000001}`, string(next.Data))
	})
}

func TestSink_announces_the_epoch_of_the_pipeline_and_reads_it_back(t *testing.T) {
	for _, structured := range []bool{false, true} {
		for _, epoch := range []uint64{0, 1_700_000_000} {
			cfg := Config{Cluster: "c", Pipeline: "p", Structured: structured}
			if epoch > 0 {
				cfg.Epoch = func() uint64 { return epoch }
			}
			cfg = cfg.withDefaults()
			w := &writer{cfg: &cfg}
			w.take(kafka.Producer{ID: 4, Epoch: 1})
			m := w.announcement()
			assert.Equal(t, "c/_/_/_/_writer.p", m.Key)
			assert.Equal(t, "writer-started.4.1", m.ID)
			r := &kafka.Record{
				Key: []byte(m.Key), Value: m.Data, Headers: []kafka.Header{{Name: headerContent, Value: []byte(m.ContentType)}},
			}
			for _, a := range m.Attributes {
				r.Headers = append(r.Headers, kafka.Header{Name: prefix + a.Name, Value: []byte(a.Value)})
			}
			for _, data := range []bool{false, true} {
				st := Decode(2, r, data)
				assert.Equal(t, epoch, st.Epoch, "structured %v, with data %v", structured, data)
				assert.Equal(t, m.ID, st.ID, "structured %v, with data %v", structured, data)
			}
			r.Key = []byte("c/core/pods/_/p")
			assert.Zero(t, Decode(2, r, true).Epoch, "of another record")
		}
	}
}

// Sinks follow one another when a session ends; a new clock would go back with the machine's.
func TestNew_keeps_the_clock_that_it_is_given(t *testing.T) {
	clock := &Clock{}
	cfg := Config{Brokers: []string{"127.0.0.1:1"}, Cluster: "c", Pipeline: "p", Topic: "kubernetes", Clock: clock}
	for range 2 {
		s := must.Get(New(cfg))(t)
		assert.Same(t, clock, newPartition(s, &topic{name: "kubernetes"}, 0).scribe.clock,
			"a partition has another clock")
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What /readyz says does not change from one question to the next.
func TestReady_says_the_same_of_several_failures_each_time(t *testing.T) {
	h := newHealth(slog.New(slog.DiscardHandler))
	h.setDown(nil)
	for _, place := range []string{"c", "a", "b"} {
		h.failing(place, errors.New(place))
	}
	for range 100 {
		require.EqualError(t, h.err(), "a")
	}
}

func TestConfig_has_an_id_for_each_topic(t *testing.T) {
	a, b := Config{Topic: "a"}, Config{Topic: "b"}
	assert.NotEqual(t, a.transactionalID(), b.transactionalID())
}

func TestHealth_says_why_nothing_is_connected_yet(t *testing.T) {
	h := newHealth(slog.New(slog.DiscardHandler))
	h.setDown(errNotConnected)
	assert.ErrorIs(t, h.err(), errNotConnected)
	away := errors.New("connection refused")
	h.failing("producer", away)
	assert.ErrorIs(t, h.err(), away)
	h.setDown(sink.ErrNotRunning)
	assert.ErrorIs(t, h.err(), sink.ErrNotRunning)
}
