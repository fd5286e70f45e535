// SPDX-License-Identifier: Apache-2.0

package port

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// asChild makes this program print ports instead of testing.
const asChild = "KUBE_EVENTBRIDGE_TEST_PORTS"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) == "" {
		os.Exit(m.Run())
	}
	for range 1000 {
		port, err := Free()
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = fmt.Fprintln(os.Stdout, port)
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // the parent closes it
}

func TestFree_gives_no_port_to_two_processes(t *testing.T) {
	seen := map[string]bool{}
	note := func(port string) {
		assert.False(t, seen[port], "port %s was given twice", port)
		seen[port] = true
	}
	program := must.Get(os.Executable())(t)
	for range 2 {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), asChild+"=1")
		cmd.Stderr = os.Stderr
		in := must.Get(cmd.StdinPipe())(t)
		out := must.Get(cmd.StdoutPipe())(t)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
		lines := bufio.NewScanner(out)
		for range 1000 {
			require.True(t, lines.Scan(), "a child ended before it had its ports")
			note(lines.Text())
		}
	}
	for range 1000 {
		port := must.Get(Free())(t)
		note(fmt.Sprint(port))
	}
}

func TestFree_releases_the_oldest_ports_of_a_long_run(t *testing.T) {
	for range count {
		require.NoError(t, must.Err(Free()))
	}
	assert.Equal(t, keep, len(registry.given), "ports are held")
}
