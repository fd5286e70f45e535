// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/recovery"
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
		Op: source.Added, Reason: source.ReasonWatch, Epoch: 9_000_000_000, Version: 7, // later than any that is given
		Ident: source.Ident{Namespace: "default", Name: "a", UID: "u1", ResourceVersion: "7"},
	}, errors.New("too large"), 1)
	return m
}

func TestRun_refuses_a_log_that_has_its_keys_from_another_pipeline(t *testing.T) {
	secrets := configMaps
	secrets.Kind, secrets.Resource = "Secret", "secrets"
	for name, c := range map[string]struct {
		message   *sink.Message
		siblings  []string
		namespace string
		messages  int
		refused   bool
	}{
		"the same key":       {message: eventBy("audit", configMaps, nil), refused: true},
		"its own event":      {message: eventBy("test", configMaps, nil)},
		"another resource":   {message: eventBy("audit", secrets, nil)},
		"another cluster":    {message: eventBy("audit", configMaps, func(c *encode.Config) { c.Cluster = "other" })},
		"another namespace":  {message: eventBy("audit", configMaps, nil), namespace: "shop"},
		"the same namespace": {message: eventBy("audit", configMaps, nil), namespace: "default", refused: true},
		"of its file":        {message: eventBy("audit", configMaps, nil), siblings: []string{"test", "audit"}},
		"long ago":           {message: eventBy("audit", configMaps, nil), messages: 1000},
		"not so long ago":    {message: eventBy("audit", configMaps, nil), messages: 999, refused: true},
		"a subject of its own": {message: eventBy("audit", configMaps, func(c *encode.Config) {
			c.Subject = must.Get(encode.ParseTemplate(encode.Subject, "k8s.{pipeline}.{group}.{resource}.{namespace}.{name}"))(t)
		})},
	} {
		t.Run(name, func(t *testing.T) {
			api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
			must.Get(log.append(c.message))(t)
			for i := range c.messages {
				m := eventBy("audit", secrets, nil)
				m.ID = strconv.Itoa(i)
				must.Get(log.append(m))(t)
			}
			had := len(log.lines())
			b := runBridge(t, api, log, store, func(cfg *Config) {
				cfg.Identity = checkpoint.Identity{Cluster: "test", Pipeline: "test"}
				cfg.Streams[0].Namespace, cfg.Siblings = c.namespace, c.siblings
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
			var competing *recovery.CompetingError
			require.ErrorAs(t, err, &competing)
			assert.Equal(t, recovery.CompetingError{
				Pipeline: "test", Other: "audit", Object: "configmaps.v1 default/a",
				Message: 1,
			}, *competing)
			assert.Len(t, log.lines(), had, "something was published")
		})
	}
}

// Clusters may share a log, and have pipelines of one name. Their epochs, resyncs and terms are not this one's.
func TestRun_does_not_take_events_of_another_cluster_for_its_own(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
	named := func(cfg *Config) { cfg.Identity = checkpoint.Identity{Cluster: "test", Pipeline: "test"} }
	b := runBridge(t, api, log, store, named)
	must.Happen(t, "the first list", func() bool { return len(log.lines()) >= 2 })
	require.NoError(t, b.stop())
	must.Get(log.append(eventBy("test", configMaps, func(c *encode.Config) { c.Cluster = "west" })))(t)
	before := len(log.lines())
	b = runBridge(t, api, log, store, named)
	<-b.session(t).met
	must.Happen(t, "it to watch", func() bool { return b.only(t).Status.Watching() })
	require.NoError(t, b.stop())
	assert.Len(t, log.lines(), before, "it takes its checkpoint for lost")
}

// It may have taken a resource over from a pipeline that is not there any more.
func TestRun_goes_on_behind_another_pipeline_where_it_knows_the_log(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
	named := func(cfg *Config) { cfg.Identity = checkpoint.Identity{Cluster: "test", Pipeline: "test"} }
	b := runBridge(t, api, log, store, named)
	must.Happen(t, "the first list", func() bool { return len(log.lines()) >= 2 })
	require.NoError(t, b.stop())
	must.Get(log.append(eventBy("audit", configMaps, nil)))(t)
	b = runBridge(t, api, log, store, named)
	select {
	case err := <-b.ended:
		t.Fatal("it ends: ", err)
	case <-b.session(t).met:
		require.NoError(t, b.stop())
	}
}
