// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/tier"
)

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
		defaults["TESTCONTAINERS_HOST_OVERRIDE"] = "127.0.0.1" // in a container it would take the engine's for that of a sibling
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
	tier.Possible(t, "a Docker engine", noEngine, engine)
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
