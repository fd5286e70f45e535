// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const containerdSocket = state + "/containerd.sock"

const containerdConfig = `
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[plugins."io.containerd.internal.v1.opt"]
  path = "` + state + `/opt"
[grpc]
  address = "` + containerdSocket + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + sandboxImage + `"
  restrict_oom_score_adj = true # where root may not protect a process from the kernel
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "` + plugins + `"
    conf_dir = "` + state + `/cni"
`

const network = `{
  "cniVersion": "0.4.0", "name": "pods", "plugins": [
    {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipam": {
      "type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]}`

// startContainerd starts one for this cluster, gives Pods a network, and takes the images in.
func (c *cluster) startContainerd(ctx context.Context, prepared string) error {
	if err := os.MkdirAll(filepath.Join(state, "cni"), 0o755); err != nil {
		return err
	}
	config := filepath.Join(state, "containerd.toml")
	for path, text := range map[string]string{config: containerdConfig, filepath.Join(state, "cni", "pods.conflist"): network} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	path, err := exec.LookPath("containerd")
	if err != nil {
		return err
	}
	if err := c.background(path, "--config", config); err != nil {
		return err
	}
	if err := poll(ctx, func() error { return ctr(ctx, "version") }); err != nil {
		return err
	}
	for _, name := range []string{"sandbox.tar", "bridge.tar"} {
		if err := ctr(ctx, "--namespace", "k8s.io", "images", "import", filepath.Join(prepared, name)); err != nil {
			return err
		}
	}
	return nil
}

func ctr(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "ctr", append([]string{"--address", containerdSocket}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr %q: %w\n%s", args, err, out)
	}
	return nil
}
