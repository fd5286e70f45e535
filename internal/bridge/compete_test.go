// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// eventBy is an event of default/a by a pipeline.
func eventBy(pipeline string, r source.Resource, change func(*encode.Config)) *sink.Message {
	cfg := encode.Config{Cluster: "test", Pipeline: pipeline}
	if change != nil {
		change(&cfg)
	}
	m := &sink.Message{}
	encode.New(source.Stream{Resource: r}, cfg).Rejected(m, &source.Change{
		Op: source.Added, Reason: source.ReasonWatch, Epoch: 5, Version: 7,
		Ident: source.Ident{Namespace: "default", Name: "a", UID: "u1", ResourceVersion: "7"},
	}, errors.New("too large"), 1)
	return m
}

func TestRun_refuses_a_log_that_has_its_keys_from_another_pipeline(t *testing.T) {
	secrets := configMaps
	secrets.Kind, secrets.Resource = "Secret", "secrets"
	for name, c := range map[string]struct {
		message *sink.Message
		spec    StreamSpec
		refused bool
	}{
		"the same key":       {message: eventBy("audit", configMaps, nil), refused: true},
		"its own event":      {message: eventBy("test", configMaps, nil)},
		"another resource":   {message: eventBy("audit", secrets, nil)},
		"another cluster":    {message: eventBy("audit", configMaps, func(c *encode.Config) { c.Cluster = "other" })},
		"another namespace":  {message: eventBy("audit", configMaps, nil), spec: StreamSpec{Namespace: "shop"}},
		"the same namespace": {message: eventBy("audit", configMaps, nil), spec: StreamSpec{Namespace: "default"}, refused: true},
		"a subject of its own": {message: eventBy("audit", configMaps, func(c *encode.Config) {
			c.Subject = must.Get(encode.ParseTemplate(encode.Subject, "k8s.{pipeline}.{group}.{resource}.{namespace}.{name}"))(t)
		})},
	} {
		for _, known := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", without a checkpoint", true: ", behind the position"}[known], func(t *testing.T) {
				api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
				named := func(cfg *Config) { cfg.Identity = checkpoint.Identity{Cluster: "test", Pipeline: "test"} }
				if known {
					b := runBridge(t, api, log, store, named)
					must.Happen(t, "the first list", func() bool { return len(log.lines()) >= 2 })
					require.NoError(t, b.stop())
				}
				had := len(log.lines())
				must.Get(log.append(c.message))(t)
				b := runBridge(t, api, log, store, func(cfg *Config) {
					named(cfg)
					cfg.Streams[0].Namespace = c.spec.Namespace
				})
				var err error
				select {
				case err = <-b.ended:
				case <-b.session(t).met:
					require.NoError(t, b.stop())
				}
				if !c.refused {
					require.NoError(t, err)
					return
				}
				var competing *CompetingError
				require.ErrorAs(t, err, &competing)
				assert.Equal(t, CompetingError{
					Pipeline: "test", Other: "audit", Object: "configmaps.v1 default/a", Message: uint64(had + 1),
				}, *competing)
				assert.Len(t, log.lines(), had+1, "something was published")
			})
		}
	}
}
