// SPDX-License-Identifier: Apache-2.0

package kafkatail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

// command returns what runs the bridge.
func command(t *testing.T) func(args ...string) (code int, stdout, stderr string) {
	t.Helper()
	bin := rig.ProgramForTest(t)
	return func(args ...string) (int, string, string) {
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit):
			return exit.ExitCode(), stdout.String(), stderr.String()
		case err != nil:
			t.Fatal(err)
		}
		return 0, stdout.String(), stderr.String()
	}
}

func TestCommand_reads_Kafka_by_flags_and_by_a_configuration(t *testing.T) {
	t.Parallel()
	c := shared.ForTest(t)
	r := newTopic(t, c, 2, nil)
	topic := r.topic + ".audit.deployments"
	require.NoError(t, c.CreateTopic(t.Context(), topic, 2, 0, nil))
	s, _ := r.sink(t, topic, nil)
	publish(t, s, change(topic, event.Added, "web", 1, 1), change(topic, event.Updated, "web", 2, 3))
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	right, wrong := write("right", "wonderland\n"), write("wrong", "hidden\n")
	guard := c.AddressesOf(guarded)[0]
	file := write("bridge.yaml", fmt.Sprintf(`
pipelines:
- name: audit
  resources: [{resource: deployments.apps}]
  sink:
    kafka:
      brokers: [%q]
      topic: "%s.{pipeline}.{resource}"
      tls: {caFile: %s}
      sasl: {mechanism: scram-sha-512, user: alice, passwordFile: %s}
- name: print
  resources: [{resource: pods}]
  sink: {stdout: {}}
`, guard, r.topic, c.CAFile(), right))
	start := []string{"tail", "--follow=false", "--from-start", "--no-headers"}
	run := command(t)
	// Who follows, too, is told what no waiting cures.
	if code, _, stderr := run("tail", "--brokers", guard, "--topic", topic); code != 1 ||
		!strings.Contains(stderr, "expects TLS on this port, and none is configured") {
		t.Errorf("following without TLS: got %d, %s", code, stderr)
	}
	for _, c := range []struct {
		args   []string
		code   int
		stdout []string
		stderr string
	}{
		{
			[]string{"--brokers", strings.Join(r.AddressesOf(plain), ","), "--topic", topic},
			0,
			[]string{"shop/web", "spec.replicas 1→3"},
			"",
		},
		{[]string{
			"--brokers", guard, "--topic", topic, "--tls-ca", c.CAFile(), "--sasl-mechanism", "plain", "--user",
			"alice", "--password-file", right, "-o", "wide",
		}, 0, []string{"/1", "/2", "shop/web"}, ""},
		{[]string{"-c", file, "--pipeline", "audit"}, 0, []string{"shop/web", "spec.replicas 1→3"}, ""},
		{
			[]string{"-c", file, "--pipeline", "audit", "deployments.apps/db"},
			0, nil,
			"tail: no event matches deployments.apps/db; those read are about deployments.apps\n",
		},
		{
			[]string{"-c", file, "--pipeline", "audit", "--user", "alice", "--password-file", wrong},
			1, nil,
			"the broker refuses the credentials: error 58",
		},
		{
			[]string{"-c", file, "--pipeline", "audit", "--topic", r.topic + "-none"},
			1, nil,
			fmt.Sprintf("error: there is no topic %q at %s", r.topic+"-none", guard),
		},
		{[]string{"-c", file, "--pipeline", "print"}, 2, nil, "publishes to no NATS stream and no Kafka topic"},
	} {
		code, stdout, stderr := run(append(start, c.args...)...)
		assert.True(t, code == c.code && strings.Contains(stderr, c.stderr) && (c.stderr != "" || stderr == "") &&
			!strings.Contains(stderr, "hidden"), "%v: got %d, %s", c.args, code, stderr)
		for _, want := range c.stdout {
			assert.Contains(t, stdout, want, "%v", c.args)
		}
		assert.True(t, c.stdout != nil || stdout == "", "%v: got\n%s", c.args, stdout)
	}
}
