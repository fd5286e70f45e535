// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const (
	noNode = "KUBE_EVENTBRIDGE_NO_NODE"
	inside = "KUBE_EVENTBRIDGE_TEST_WORLD" // the directory that the world before has prepared
	try    = "KUBE_EVENTBRIDGE_TEST_TRY"   // if set, nothing is tested but whether there can be a node
	tried  = "KUBE_EVENTBRIDGE_TEST_TRIED" // the cgroup of a world that is left at once
)

// address is the node's, and that of everything that runs beside its Pods: of the API server, and of the broker.
const address = "192.0.2.1"

// plugins is where Debian has the CNI plugins.
const plugins = "/usr/lib/cni"

// obstacle returns what a node cannot be without.
func obstacle() error {
	if os.Geteuid() != 0 {
		return errors.New("it takes root")
	}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "iptables", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	for _, plugin := range []string{"bridge", "host-local", "loopback", "portmap"} {
		if _, err := os.Stat(filepath.Join(plugins, plugin)); err != nil {
			return err
		}
	}
	return isolates()
}

// verdict returns why a test cannot run, nothing if it can, and whether that is no failure.
func verdict(getenv func(string) string, obstacle func() error) (skip bool, reason string) {
	if reason := getenv(noNode); reason != "" {
		return true, reason
	}
	if err := obstacle(); err != nil {
		return getenv("CI") == "", err.Error()
	}
	return false, ""
}

// needNode skips the test with the reason where there can be no node, and fails it where there has to be one.
func needNode(t *testing.T) {
	t.Helper()
	if os.Getenv(inside) != "" {
		return
	}
	skip, reason := verdict(os.Getenv, obstacle)
	switch {
	case skip:
		fmt.Fprintf(os.Stderr, "NOT RUN: %s needs a node: %s\n", t.Name(), reason) // also without -v
		t.Skipf("needs a node: %s", reason)
	case reason != "":
		t.Fatalf("CI is set, but there can be no node, and %s does not say why: %s", noNode, reason)
	}
}

func TestVerdict_is_a_failure_only_where_a_node_has_to_be(t *testing.T) {
	for _, c := range []struct {
		ci, none string
		obstacle error
		skip     bool
		reason   string
	}{
		{},
		{ci: "true"},
		{obstacle: os.ErrNotExist, skip: true, reason: "file does not exist"},
		{ci: "true", obstacle: os.ErrNotExist, reason: "file does not exist"},
		{ci: "true", none: "no root", obstacle: os.ErrNotExist, skip: true, reason: "no root"},
		{none: "no root", skip: true, reason: "no root"},
	} {
		getenv := func(name string) string { return map[string]string{"CI": c.ci, noNode: c.none}[name] }
		skip, reason := verdict(getenv, func() error { return c.obstacle })
		if skip != c.skip || reason != c.reason {
			t.Errorf("with CI=%q %s=%q and %v: %v, %q", c.ci, noNode, c.none, c.obstacle, skip, reason)
		}
	}
}
