// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app/apptest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestStand_ends_a_process_that_could_not_read_a_file_when_it_leads(t *testing.T) {
	file, _ := apptest.Elected(t)
	apptest.Rewrite(t, file, "checkpoint: {nats: {}}",
		"checkpoint: {nats: {servers: ['nats://127.0.0.1:1'], tokenFile: none}}")
	p := assembled(t, file, &output{})
	require.ErrorContains(t, p.stand(t.Context(), "uid"), "none: no such file")
}

func TestStanding_is_ready_when_the_brokers_have_answered_and_it_could_publish(t *testing.T) {
	file, _ := apptest.Elected(t)
	var log output
	p := assembled(t, file, &log)
	candidate := must.Get(p.candidate())(t)
	s := &standing{Candidate: candidate, process: p}
	for _, c := range []struct {
		do   func()
		line string
		want bool
	}{
		{func() {}, "standing by: the brokers have not answered yet", false},
		{func() { s.note(p.askBrokers(t.Context())) }, "standing by: pipeline a: connect to nats://127.0.0.1:1: dial tcp ", false},
		{func() { s.note(errors.New("refused")) }, "standing by: refused", false},
		{func() { s.note(nil) }, "standing by: no process leads yet", true},
	} {
		c.do()
		line, ready := s.idle()
		assert.True(t, strings.HasPrefix(line, c.line), "it says %q, want %q", line, c.line)
		assert.Equal(t, c.want, ready, c.line)
	}
	logged := strings.Count(log.String(), "could not publish if it led now")
	assert.Equal(t, 1, logged, "a failure that lasts is logged once: %s", log.String())
}
