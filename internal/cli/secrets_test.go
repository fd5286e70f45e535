// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app/apptest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
)

// secret is a password that no command may print.
const secret = "hunter2"

// printed runs a command, which fails, and returns all that it prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out output
	code := execute(t.Context(), args, &cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	assert.NotEqual(t, exit.Done, code, "%v: %s", args, &out)
	return out.String()
}

// awayAndRefusing returns the addresses of a NATS server that does not run, and of one that wants another password.
func awayAndRefusing(t *testing.T) map[string]string {
	t.Helper()
	refusing := startServer(t, &server.Options{Username: "ann", Password: "another"})
	return map[string]string{
		"connection refused": "127.0.0.1:1", "refuses the credentials": strings.TrimPrefix(refusing, "nats://"),
	}
}

func TestCommands_print_no_password_of_the_address_of_a_server(t *testing.T) {
	for why, address := range awayAndRefusing(t) {
		url := "nats://ann:" + secret + "@" + address
		said := printed(t, "tail", "--follow=false", "--server", url)
		t.Setenv("NATS_URL", url)
		said += printed(t, "tail", "--follow=false")
		assert.Equal(t, 2, strings.Count(said, why), said)
		assert.Equal(t, 2, strings.Count(said, "nats://redacted@"+address), said)
		assert.NotContains(t, said, secret)
	}
	file := apptest.Configured(t, apptest.APIServer(t, apptest.Identified), "[{resource: pods}]")
	apptest.Rewrite(t, file, "sink: {stdout: {}}", fmt.Sprintf(
		"sink: {nats: {servers: ['nats://ann:%s@127.0.0.1:1']}}, checkpoint: {nats: {servers: ['ann:%[1]s@127.0.0.1:1']}}", secret))
	for _, command := range []string{
		"run", "validate", "validate --cluster", "validate -o json", "tail", "status", "resync", "checkpoint list", "rbac",
		"asyncapi",
	} {
		said := printed(t, append(strings.Fields(command), "--config", file)...)
		assert.Contains(t, said, "servers[0]", command)
		assert.NotContains(t, said, secret, command)
	}
}

func TestCommands_print_no_password_of_the_configuration(t *testing.T) {
	t.Setenv("NATS_PASSWORD", secret)
	for why, address := range awayAndRefusing(t) {
		servers := fmt.Sprintf("{nats: {servers: ['%s'], user: ann, passwordEnv: NATS_PASSWORD}}", address)
		file := apptest.Configured(t, apptest.APIServer(t, apptest.Identified), "[{resource: pods}]")
		apptest.Rewrite(t, file, "{stdout: {}}", servers)
		for _, command := range []string{"validate --cluster", "tail --follow=false"} {
			said := printed(t, append(strings.Fields(command), "--config", file)...)
			assert.Contains(t, said, why, command)
			assert.NotContains(t, said, secret, command)
		}
		for _, checkpoint := range []string{"", ", checkpoint: " + servers} {
			apptest.Rewrite(t, file, "sink: "+servers, "sink: "+servers+checkpoint)
			p := runs(t, "run", "--config", file)
			p.says(why, 1)
			p.says(address, 1)
			bridge := served.FindStringSubmatch(p.stderr.String())[1]
			said := printed(t, "status", "--server", bridge) + printed(t, "status", "--server", bridge, "-o", "json") +
				readyz(t, p.stderr.String())
			assert.NotContains(t, said+p.stderr.String(), secret)
		}
	}
}
