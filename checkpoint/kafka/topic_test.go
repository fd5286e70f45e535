// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestOpen_creates_a_topic_that_is_missing(t *testing.T) {
	for _, c := range []struct {
		cfg        Config
		partitions int
		isr, size  string
	}{
		{Config{}, 12, "", "16777216"},
		{Config{Partitions: 3, Replicas: 1, Compression: "none"}, 3, "", "16777216"},
		{Config{Partitions: 3, Replicas: 3, Compression: "lz4"}, 3, "2", "4194304"},
	} {
		f := newFake(0)
		clear(f.settings)
		f.settings[settingSize] = "1048588"
		s := must.Get(openFake(t.Context(), f, c.cfg, audit))(t)
		commits(t, s, 1)
		if f.partitions != c.partitions || f.settings[settingCleanup] != compact ||
			f.settings["min.insync.replicas"] != c.isr ||
			f.settings["segment.bytes"] != c.size {
			t.Errorf("%d partitions, settings %v", f.partitions, f.settings)
		}
	}
}

func TestOpen_says_how_to_create_a_topic_that_it_must_not_create(t *testing.T) {
	f := newFake(0)
	f.forbidden = map[string]bool{"CreateTopics": true}
	_, err := openFake(t.Context(), f, Config{Partitions: 5, Replicas: 3}, audit)
	var settings *SettingsError
	require.True(t, errors.As(err, &settings), "the error says what to do")
	require.True(t, checkpoint.IsPermanent(err), "the error says what to do")
	want := "kafka-topics.sh --bootstrap-server b:9092 --create --topic checkpoints --partitions 5 --replication-factor " +
		"3 --config cleanup.policy=compact --config delete.retention.ms=3600000 --config min.insync.replicas=2 --config " +
		"segment.bytes=16777216 --config segment.ms=21600000"
	assert.Equal(t, want, settings.Command, "the command")
}

func TestOpen_refuses_settings_that_lose_checkpoints(t *testing.T) {
	for _, c := range []struct{ name, value, mends string }{
		{settingCleanup, "delete", "cleanup.policy=compact"},
		{settingCleanup, "compact,delete", "cleanup.policy=compact"},
		{settingCleanup, "delete,compact", "cleanup.policy=compact"},
		{settingCleanup, "", "cleanup.policy=compact"},
		{settingTombstone, "0", "delete.retention.ms=3600000"},
		{settingTombstone, "59999", "delete.retention.ms=3600000"},
		{settingTombstone, "60000", ""},
		{settingTombstone, "9223372036854775807", ""},
	} {
		f := newFake(3)
		f.settings[c.name] = c.value
		_, err := openFake(t.Context(), f, Config{}, audit)
		if c.mends == "" {
			assert.NoError(t, err, "%s=%s", c.name, c.value)
			continue
		}
		var settings *SettingsError
		want := "kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics --entity-name checkpoints " +
			"--add-config " + c.mends
		if !errors.As(err, &settings) || settings.Command != want || !strings.Contains(err.Error(), c.name+"="+c.value) {
			t.Errorf("%s=%s: error %v, want the command %s", c.name, c.value, err, want)
		}
		assert.EqualValues(t, 0, f.requests, "%s=%s: something was written", c.name, c.value)
	}
}

func TestOpen_works_where_settings_must_not_be_read(t *testing.T) {
	f := newFake(3)
	f.forbidden = map[string]bool{"DescribeConfigs": true}
	s := mustOpen(t.Context(), t, f)
	commits(t, s, 1)
}

func TestOpen_checks_the_configuration(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"no topic":           {Config{Brokers: []string{"b:1"}}, `topic ""`},
		"a name like a path": {Config{Brokers: []string{"b:1"}, Topic: "a/b"}, `topic "a/b"`},
		"dots":               {Config{Brokers: []string{"b:1"}, Topic: ".."}, `topic ".."`},
		"no broker":          {Config{Topic: "t"}, "no broker"},
		"a compression":      {Config{Brokers: []string{"b:1"}, Topic: "t", Compression: "rar"}, `compression "rar"`},
	} {
		_, err := Open(t.Context(), c.cfg, audit)
		assert.True(t, err != nil && strings.Contains(err.Error(), c.want), "%s: error %v, want %s", name, err, c.want)
	}
}

func TestOpen_does_not_wait_for_permissions(t *testing.T) {
	for _, what := range []string{"Metadata", "ListOffsets", "Fetch", "Produce"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(1)
			f.put(0, "somebody's", nil)
			f.forbidden = map[string]bool{what: true}
			began := time.Now()
			if _, err := openFake(t.Context(), f, Config{}, audit); !kafka.Forbidden(err) || time.Since(began) > 0 {
				t.Errorf("%s: error %v after %v, want that it is not permitted, at once", what, err, time.Since(began))
			}
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore_keeps_the_contract(t *testing.T) {
	users, ctx := &storetest.Taking{}, t.Context()
	storetest.Run(t, func(place string, want checkpoint.Identity) (storetest.Store, error) {
		return users.Take(place, func() (storetest.Store, error) {
			f, err := reopenFake(place)
			if err != nil {
				return nil, err
			}
			return openFake(ctx, f, Config{Name: "n"}, want)
		})
	})
}

// openFake opens a checkpoint in the fake's topic.
func openFake(ctx context.Context, f *fake, cfg Config, want checkpoint.Identity) (*Store, error) {
	cfg.Brokers, cfg.Topic = []string{"b:9092"}, "checkpoints"
	return open(ctx, cfg.withDefaults(want), want, f)
}
