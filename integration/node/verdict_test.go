// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/tier"
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

// needNode skips the test with the reason where there can be no node, and fails it where there has to be one.
func needNode(t *testing.T) {
	t.Helper()
	if os.Getenv(inside) != "" {
		return
	}
	tier.Possible(t, "a node", noNode, obstacle)
}
