// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// permissions are all that the sink needs: what a missing stream is created with is the second.
var permissions = []string{
	"$JS.API.STREAM.INFO.KUBERNETES",
	"$JS.API.STREAM.CREATE.KUBERNETES",
	"$JS.API.STREAM.MSG.GET.KUBERNETES",
	"$JS.API.CONSUMER.CREATE.KUBERNETES.>",
	"$JS.API.CONSUMER.MSG.NEXT.KUBERNETES.*",
	"$JS.API.CONSUMER.DELETE.KUBERNETES.*",
}

func TestSink_needs_few_permissions(t *testing.T) {
	t.Parallel()
	for name, subjects := range map[string][]string{"one subject": {"k8s.>"}, "two subjects": {"k8s.a.>", "k8s.b"}} {
		b := newBroker(t, func(o *server.Options) {
			o.Users = []*server.User{{Username: "bridge", Password: "pw", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: append([]string{"k8s.>"}, permissions...)},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}}}
		})
		cfg := config(b.addr())
		cfg.Subjects = subjects
		cfg.Auth.User, cfg.Auth.Password = "bridge", "pw"
		cfg.AckTimeout, cfg.LookEvery = 5*time.Second, 10*time.Millisecond
		s, said := newTalkingSink(t, cfg)
		end := ready(t, s)
		m := message("k8s.b", "b.1")
		m.Verify = true
		for _, duplicate := range []bool{false, true} {
			if r := publish(t, s, m); r.err != nil || r.rc.Duplicate != duplicate {
				t.Errorf("%s: published: %+v", name, r)
			}
		}
		bounds(t, s, 1)
		if st, err := s.At(t.Context(), 0, 1); err != nil || st == nil {
			t.Errorf("%s: at 1: %+v (%v)", name, st, err)
		}
		for _, lastOfKey := range []bool{false, true} {
			assert.Equal(t, []string{"b.1"}, ids(t, s, sink.Query{LastOfKey: lastOfKey}), "%s: read", name)
		}
		assert.NoError(t, end(), "%s: Run", name)
		assert.NotContains(t, said(), "Violation", name)
	}
}
