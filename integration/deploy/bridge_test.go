// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
)

// command runs the bridge's program to its end.
func command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rig.ProgramForTest(t), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.True(t, err == nil && stderr.Len() <= 0, "%s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	return string(out)
}

// file writes the bridge's configuration, with each of the pairs of texts replaced, of which the first has to be in it.
func file(t *testing.T, text string, replace ...string) string {
	t.Helper()
	for i := 0; i < len(replace); i += 2 {
		require.Contains(t, text, replace[i], "the configuration")
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	path := filepath.Join(t.TempDir(), "bridge.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func tokenRequest() *authenticationv1.TokenRequest {
	seconds := int64(3600)
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
}

// kubeconfig is for who, by token, in a namespace, as a Pod finds both.
func kubeconfig(t *testing.T, who *rest.Config, namespace string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "pod",
		Clusters:       map[string]*clientcmdapi.Cluster{"pod": {Server: who.Host, CertificateAuthorityData: who.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"pod": {Token: who.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"pod": {Cluster: "pod", AuthInfo: "pod", Namespace: namespace}},
	}, path))
	return path
}

// runs starts the bridge as the Pod's container would, as the Pod's account, with a file instead of the mounted one and
// a real broker, and waits until its probes succeed. It ends the bridge as the kubelet does, and wants that to be done
// well before the kubelet would kill it.
func (c *cluster) runs(t *testing.T, m manifests) {
	t.Helper()
	free := must.Get(port.Free())(t)
	address := "127.0.0.1:" + strconv.Itoa(free)
	nats := rig.NATSForTest(t, nil)
	text := strings.ReplaceAll(m.configuration(t), `":8080"`, ":8080")
	config := file(t, text, "nats://nats.nats.svc:4222", nats.URL(), "listen: :8080", "listen: "+address)
	pod := m.pod(t)
	container := pod.Spec.Containers[0]
	if container.Args[0] == "replicate" { // it waits for a log
		must.Get(nats.Connect(t).CreateStream(t.Context(),
			jetstream.StreamConfig{Name: "KUBERNETES", Subjects: []string{"k8s.>"}}))(t)
	}
	var args []string
	for _, a := range container.Args {
		args = append(args, strings.ReplaceAll(a, "/etc/kube-eventbridge/bridge.yaml", config))
	}
	cmd := exec.Command(rig.ProgramForTest(t), args...)
	cmd.Env = []string{"KUBECONFIG=" + kubeconfig(t, c.grant(t, m), pod.Namespace)}
	for _, e := range container.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	bridge := rig.StartBridge(t, address, cmd)
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
		bridge.Poll("200 from "+probe.HTTPGet.Path, func() (bool, string) {
			code, text := bridge.Get(probe.HTTPGet.Path)
			return code == http.StatusOK, text
		})
	}
	grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	bridge.Send(syscall.SIGTERM)
	select {
	case <-bridge.Ended():
		bridge.ExitsWith(0)
	case <-time.After(grace / 2):
		t.Fatal("the bridge does not end in half the time that a Pod has for it")
	}
}
