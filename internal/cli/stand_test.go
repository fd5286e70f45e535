// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app/apptest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// Files of secrets come and go; a process that stands by can wait for them, as one that leads does, until the Lease is
// free: a takeover without them ends the process, as a start does.
func TestStand_goes_on_where_a_former_leader_cannot_read_what_it_needs_to_stand_by(t *testing.T) {
	file, lease := apptest.Elected(t)
	p := runs(t, "run", "--config", file)
	p.says("this process leads", 1)
	apptest.Rewrite(t, file, "{resource: pods}", "{resource: pods, payload: metadata}")
	p.says(`msg="configuration applied"`, 1)
	require.NoError(t, os.Remove(filepath.Join(filepath.Dir(file), "token")))
	lease.Usurp()
	p.says("this process does not lead any more", 1)
	must.Happen(t, "readyz says why", func() bool {
		got := readyz(t, p.stderr.String())
		return strings.HasPrefix(got, "503 ") && strings.Contains(got, "standing by: pipeline a: ") &&
			strings.Contains(got, "token: no such file")
	})
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), "token"), []byte("t"), 0o600))
	must.Happen(t, "readyz says why", func() bool {
		return strings.Contains(readyz(t, p.stderr.String()), "connection refused")
	})
}

// A takeover could not read the file either, and would end the process.
func TestStand_refuses_what_names_a_file_that_is_missing_while_another_process_leads(t *testing.T) {
	file, lease := apptest.Elected(t)
	p := runs(t, "run", "--config", file)
	p.says("this process leads", 1)
	lease.Usurp()
	p.says("this process does not lead any more", 1)
	apptest.Rewrite(t, file, "checkpoint: {nats: {}}",
		"checkpoint: {nats: {servers: ['nats://127.0.0.1:1'], tokenFile: none}}")
	p.says(`msg="configuration refused; the one before stays"`, 1)
	assert.Contains(t, p.stderr.String(), "none: no such file")
	apptest.Rewrite(t, file, "tokenFile: none", "tokenFile: token")
	p.says(`msg="configuration applied"`, 1)
}
