// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/k3s"
	"github.com/testcontainers/testcontainers-go/wait"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

const (
	apiPort  = "6443/tcp"
	apiToken = "kube-eventbridge-test"
)

// newAPIServer starts an API server with what it stores in, and returns the path of a kubeconfig for it.
func newAPIServer(t *testing.T) string {
	t.Helper()
	if official() {
		c, err := k3s.Run(t.Context(), "rancher/k3s:v1.33.1-k3s1")
		ended(t, c, err)
		kubeconfig := must.Get(c.GetKubeConfig(t.Context()))(t)
		return kubeconfigFile(t, string(kubeconfig))
	}
	port := freePort(t)
	img := apiServerImage(t)
	etcd, err := testcontainers.Run(t.Context(), img,
		testcontainers.WithEntrypoint("/etcd"),
		testcontainers.WithCmd("--data-dir=/data", "--log-level=warn", "--unsafe-no-fsync=true"),
		testcontainers.WithExposedPorts(apiPort), published(port, apiPort))
	ended(t, etcd, err)
	// It shares etcd's network, so that etcd needs no name and no listener of its own.
	api, err := testcontainers.Run(t.Context(), img,
		testcontainers.WithEntrypoint("/kube-apiserver"),
		testcontainers.WithCmd("--etcd-servers=http://127.0.0.1:2379", "--secure-port="+strings.TrimSuffix(apiPort, "/tcp"),
			"--cert-dir=/certificates",
			"--endpoint-reconciler-type=none", "--token-auth-file=/tokens.csv", "--authorization-mode=AlwaysAllow",
			"--service-account-issuer=https://kube-eventbridge.test", "--service-account-key-file=/service-account.key",
			"--service-account-signing-key-file=/service-account.key", "--service-cluster-ip-range=10.0.0.0/24",
			"--disable-admission-plugins=ServiceAccount"),
		testcontainers.WithFiles(
			testcontainers.ContainerFile{
				Reader:            strings.NewReader(apiToken + ",admin,1,system:masters\n"),
				ContainerFilePath: "/tokens.csv", FileMode: 0o644,
			},
			testcontainers.ContainerFile{
				Reader: strings.NewReader(privateKey(t)), ContainerFilePath: "/service-account.key",
				FileMode: 0o644,
			}),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			h.NetworkMode = container.NetworkMode("container:" + etcd.GetContainerID())
		}))
	ended(t, api, err)
	require.NoError(t, wait.ForHTTP("/readyz").WithPort(apiPort).WithTLS(true).WithAllowInsecure(true).
		WithHeaders(map[string]string{"Authorization": "Bearer " + apiToken}).
		WithStatusCodeMatcher(func(status int) bool { return status == http.StatusOK }).
		WithStartupTimeout(rig.Patience()).WaitUntilReady(t.Context(), etcd))
	return kubeconfigFile(t, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:%d", insecure-skip-tls-verify: true}}]
users: [{name: test, user: {token: %s}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, port, apiToken))
}

func kubeconfigFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func privateKey(t *testing.T) string {
	t.Helper()
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

func apiServerImage(t *testing.T) string {
	t.Helper()
	dir := must.Get(controlplane.Binaries(t.Context(), os.Stderr))(t)
	i := &image{name: "kube-apiserver", files: map[string]string{}}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		require.NoError(t, withLibraries(t.Context(), i.files, "/"+name, filepath.Join(dir, name)))
	}
	return i.build(t)
}

const (
	noEngine  = "KUBE_EVENTBRIDGE_NO_ENGINE"
	imagesEnv = "KUBE_EVENTBRIDGE_IMAGES"
)

func TestMain(m *testing.M) {
	setDefaults()
	goleak.VerifyTestMain(m)
}

// setDefaults tells testcontainers what it would guess wrong, unless whoever runs the tests has.
func setDefaults() {
	defaults := map[string]string{}
	if local := os.Getenv("DOCKER_HOST"); local == "" || strings.HasPrefix(local, "unix:") {
		// In a container it would take the engine's for that of a sibling.
		defaults["TESTCONTAINERS_HOST_OVERRIDE"] = "127.0.0.1"
	}
	if !official() {
		defaults["TESTCONTAINERS_RYUK_DISABLED"] = "true" // its image would have to be pulled; each test ends what it started
	}
	for name, value := range defaults {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, value) // fails for names that cannot be
		}
	}
}

func official() bool { return os.Getenv(imagesEnv) == "official" }

// needEngine skips the test with the reason where there is no engine, and fails it where there has to be one.
func needEngine(t *testing.T) {
	t.Helper()
	rig.Tier(t, rig.All)
	if v := os.Getenv(imagesEnv); v != "" && v != "scratch" && v != "official" {
		t.Fatalf("%s is %q; it can be scratch, official, or nothing, which means scratch", imagesEnv, v)
	}
	testtier.Possible(t, "a Docker engine", noEngine, engine)
}

// engine returns why no engine answers.
var engine = sync.OnceValue(func() (err error) {
	defer func() {
		if r := recover(); r != nil { // so does testcontainers where it finds no engine
			err = fmt.Errorf("%v", r)
		}
		if err != nil {
			err = fmt.Errorf("none answers at DOCKER_HOST or /var/run/docker.sock: %w", err)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) //nolint:forbidigo // it is asked once for all tests
	defer cancel()
	p, err := testcontainers.NewDockerProvider()
	if err != nil {
		return err
	}
	defer p.Close()
	return p.Health(ctx)
})
