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
)

const (
	noEngine  = "KUBE_EVENTBRIDGE_NO_ENGINE"
	imagesEnv = "KUBE_EVENTBRIDGE_IMAGES"
)

// suite is the run of all tests of the package.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	setDefaults()
	dir, err := os.MkdirTemp("", "kube-eventbridge-containers")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = dir
	defer os.RemoveAll(dir) //nolint:errcheck // what is left in a temporary directory hurts nobody
	return s.m.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{m}) }

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
	if v := os.Getenv(imagesEnv); v != "" && v != "scratch" && v != "official" {
		t.Fatalf("%s is %q; it can be scratch, official, or nothing, which means scratch", imagesEnv, v)
	}
	skip, reason := verdict(os.Getenv, engine)
	switch {
	case skip:
		fmt.Fprintf(os.Stderr, "NOT RUN: %s needs a Docker engine: %s\n", t.Name(), reason) // also without -v
		t.Skipf("needs a Docker engine: %s", reason)
	case reason != "":
		t.Fatalf("CI is set, but there is no Docker engine, and %s does not say why: %s", noEngine, reason)
	}
}

// verdict returns why a test cannot run, nothing if it can, and whether that is no failure.
func verdict(getenv func(string) string, engine func() error) (skip bool, reason string) {
	if reason := getenv(noEngine); reason != "" {
		return true, reason
	}
	if err := engine(); err != nil {
		return getenv("CI") == "", "none answers at DOCKER_HOST or /var/run/docker.sock: " + err.Error()
	}
	return false, ""
}

// engine returns why no engine answers.
var engine = sync.OnceValue(func() (err error) {
	defer func() {
		if r := recover(); r != nil { // so does testcontainers where it finds no engine
			err = fmt.Errorf("%v", r)
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

func TestVerdict_is_a_failure_only_where_an_engine_has_to_be(t *testing.T) {
	const absent = "none answers at DOCKER_HOST or /var/run/docker.sock: file does not exist"
	for _, c := range []struct {
		ci, none string
		engine   error
		skip     bool
		reason   string
	}{
		{},
		{ci: "true"},
		{engine: os.ErrNotExist, skip: true, reason: absent},
		{ci: "true", engine: os.ErrNotExist, reason: absent},
		{ci: "true", none: "no root", engine: os.ErrNotExist, skip: true, reason: "no root"},
		{none: "no root", skip: true, reason: "no root"},
	} {
		getenv := func(name string) string { return map[string]string{"CI": c.ci, noEngine: c.none}[name] }
		skip, reason := verdict(getenv, func() error { return c.engine })
		if skip != c.skip || reason != c.reason {
			t.Errorf("with CI=%q %s=%q and an engine that says %v: %v, %q", c.ci, noEngine, c.none, c.engine, skip, reason)
		}
	}
}
