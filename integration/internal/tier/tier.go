// SPDX-License-Identifier: Apache-2.0

// Package tier says which tests run: those of make test, of make test-all, or of make nightly.
package tier

import (
	"os"
	"testing"
)

// Tier is a set of tests; each one includes those before it.
type Tier int

// The tiers. A test that does not call [Needs] is of Core.
const (
	Core    Tier = iota // make test
	All                 // make test-all, and go test without further ado
	Nightly             // make nightly
)

// Variable is the environment variable that names the tier: core, all or nightly. Unset it means all.
const Variable = "KUBE_EVENTBRIDGE_TIER"

var command = map[Tier]string{All: "make test-all", Nightly: "make nightly"}

// Needs skips the test unless the tier that was asked for includes this one.
func Needs(t testing.TB, needed Tier) {
	t.Helper()
	asked, known := map[string]Tier{"core": Core, "": All, "all": All, "nightly": Nightly}[os.Getenv(Variable)]
	if !known {
		t.Fatalf("%s is %q; valid: core, all, nightly", Variable, os.Getenv(Variable))
	}
	if needed > asked {
		t.Skipf("NOT IN THIS TIER: runs with %s", command[needed])
	}
}

// Servers skips the test with go test -short, which starts no servers.
func Servers(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT RUN: go test -short starts no servers")
	}
}

// Missing skips the test because what it needs is not on this machine, and fails it if the environment variable CI is set.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("needs " + what)
	}
	t.Skipf("NOT RUN: needs %s", what)
}
