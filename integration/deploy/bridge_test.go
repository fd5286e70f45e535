// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/nats-io/nats-server/v2/server"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/image"
)

// binary returns the program that is in the image.
func binary(t *testing.T) string {
	t.Helper()
	index, err := image.Build(t.Context(), image.Options{
		Root: filepath.Dir(directory(t)), Version: "v0.0.0", Commit: "test", Source: "https://example.com", Created: time.Unix(1700000000, 0),
		Platforms: []string{"linux/" + runtime.GOARCH},
	})
	must(t, err)
	manifest, err := index.IndexManifest()
	must(t, err)
	img, err := index.Image(manifest.Manifests[0].Digest)
	must(t, err)
	body := mutate.Extract(img)
	defer func() { _ = body.Close() }()
	for r := tar.NewReader(body); ; {
		h, err := r.Next()
		must(t, err)
		if "/"+h.Name != image.Program {
			continue
		}
		out := filepath.Join(t.TempDir(), "kube-eventbridge")
		program, err := io.ReadAll(r)
		must(t, err)
		must(t, os.WriteFile(out, program, 0o700)) //nolint:gosec // it is run
		return out
	}
}

// command runs the bridge's program to its end.
func command(t *testing.T, bin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out)
}

// file writes the bridge's configuration, with each of the pairs of texts replaced, of which the first has to be in it.
func file(t *testing.T, text string, replace ...string) string {
	t.Helper()
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("the configuration has no %q:\n%s", replace[i], text)
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	path := filepath.Join(t.TempDir(), "bridge.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
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
	must(t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "pod",
		Clusters:       map[string]*clientcmdapi.Cluster{"pod": {Server: who.Host, CertificateAuthorityData: who.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"pod": {Token: who.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"pod": {Cluster: "pod", AuthInfo: "pod", Namespace: namespace}},
	}, path))
	return path
}

// runs starts the bridge as the Pod's container would, as who, with a file instead of the mounted one, and the limit of memory where the machine allows, and waits until its probes
// at address succeed. It ends it as the kubelet does, and wants that to be done well before the kubelet would kill it.
func runs(t *testing.T, bin string, pod *corev1.Pod, who *rest.Config, config, address string) {
	t.Helper()
	c := pod.Spec.Containers[0]
	command := []string{bin}
	for _, a := range c.Args {
		command = append(command, strings.ReplaceAll(a, "/etc/kube-eventbridge/bridge.yaml", config))
	}
	limit := c.Resources.Limits[corev1.ResourceMemory]
	command, isLimited := within(t, limit.Value(), command)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = []string{"KUBECONFIG=" + kubeconfig(t, who, pod.Namespace)}
	for _, e := range c.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the state of the process tells
	}()
	defer func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("stderr of the bridge:\n%s", stderr.Bytes())
		}
	}()
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		answers(t, "http://"+address+probe.HTTPGet.Path, ended)
	}
	memory(t, cmd.Process.Pid, limit.Value())
	if isLimited {
		heeds(t, address, limit.Value())
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-ended:
		if !cmd.ProcessState.Success() {
			t.Fatalf("the bridge ended with %v", cmd.ProcessState)
		}
	case <-time.After(time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second / 2):
		t.Fatal("the bridge does not end in half the time that a Pod has for it")
	}
}

// answers waits until the URL answers 200.
func answers(t *testing.T, url string, ended <-chan struct{}) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for status(t, url) != 200 {
		select {
		case <-tick.C:
		case <-ended:
			t.Fatal("the bridge ended by itself")
		case <-deadline:
			t.Fatalf("waited in vain for %s, which answers %d", url, status(t, url))
		}
	}
}

// memory logs what the process takes, which has to be less than a limit.
func memory(t *testing.T, pid int, limit int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Logf("memory not measured: %v", err)
		return
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			t.Logf("it took %d MiB at most", kib>>10)
			if kib<<10 > limit {
				t.Errorf("it took %d KiB, more than its limit of %d bytes", kib, limit)
			}
		}
	}
}

// broker is a real NATS server with JetStream.
func broker(t *testing.T) string {
	t.Helper()
	port, err := controlplane.FreePort()
	must(t, err)
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	must(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	return s.ClientURL()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := controlplane.FreePort()
	must(t, err)
	return fmt.Sprintf("127.0.0.1:%d", port)
}
