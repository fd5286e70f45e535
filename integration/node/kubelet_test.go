// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// kubeletConfig lets every client ask the kubelet, as no other one is in its network, has volumes follow their
// ConfigMaps within seconds, and nothing evicted. That cgroups of version 1 are no longer welcome is of no concern
// here.
const kubeletConfig = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: ` + address + `
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://` + containerdSocket + `
cgroupDriver: cgroupfs
cgroupRoot: /` + group + `
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
syncFrequency: 2s
evictionHard: {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%, pid.available: 0%}
imageGCHighThresholdPercent: 100
readOnlyPort: 0
volumePluginDir: ` + state + `/volume-plugins
healthzPort: 0
`

const proxyConfig = `
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: ` + state + `/kube-proxy.kubeconfig}
mode: iptables
hostnameOverride: ` + nodeName + `
bindAddress: ` + address + `
clusterCIDR: 10.244.0.0/24
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
healthzBindAddress: ""
metricsBindAddress: ""
`

// startNode starts what makes a cluster of the control plane. All of it may do everything: roles are not what is
// tested.
func (c *cluster) startNode() error {
	for name, text := range map[string]string{"kubelet": kubeletConfig, "kube-proxy": proxyConfig} {
		if err := os.WriteFile(filepath.Join(state, name+".yaml"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	args := map[string][]string{
		"kube-controller-manager": {
			"--leader-elect=false", "--service-account-private-key-file=" + c.api.ServiceAccountKeyFile(),
			"--root-ca-file=" + c.api.CAFile(),
			"--pvclaimbinder-sync-period=1s", "--bind-address=127.0.0.1",
			"--flex-volume-plugin-dir=" + state + "/volume-plugins",
		},
		"kube-scheduler": {"--leader-elect=false", "--bind-address=127.0.0.1"},
		"kubelet": {
			"--config=" + filepath.Join(state, "kubelet.yaml"), "--hostname-override=" + nodeName, "--node-ip=" + address,
			"--v=2",
		},
		"kube-proxy": {"--config=" + filepath.Join(state, "kube-proxy.yaml")},
	}
	for name, args := range args {
		path := filepath.Join(state, name+".kubeconfig")
		if _, err := controlplane.WriteKubeconfig(c.api.User("system:"+name, "system:masters"), path); err != nil {
			return err
		}
		if name != "kube-proxy" { // its file says it
			args = append(args, "--kubeconfig="+path)
		}
		if err := c.background(filepath.Join(c.programs, name), args...); err != nil {
			return err
		}
	}
	return nil
}

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
	for path, text := range map[string]string{
		config: containerdConfig,
		filepath.Join(state, "cni", "pods.conflist"): network,
	} {
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
	out, err := exec.CommandContext(ctx, "ctr", append([]string{"--address", containerdSocket},
		args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr %q: %w\n%s", args, err, out)
	}
	return nil
}
