// SPDX-License-Identifier: Apache-2.0

// Package testtier says which tests run, those of make test, of make test-all, or of make nightly, and how much each
// does: see the tiers in CONTRIBUTING.md.
package testtier

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Variable is the environment variable that names the tier: core, all or nightly. Unset it means all.
const Variable = "KUBE_EVENTBRIDGE_TIER"

// Rounds is how often a test repeats what is drawn at random: core times in make test, night times in make nightly, and
// otherwise all times.
func Rounds(core, all, night int) int {
	switch os.Getenv(Variable) {
	case "core":
		return core
	case "nightly":
		return night
	default:
		return all
	}
}

// Draws sets how many checks rapid draws for a property: 25 in make test, 1,000 in make nightly, and otherwise 100. A
// package calls it in TestMain; -rapid.checks on the command line goes first.
func Draws() {
	if checks := flag.Lookup("rapid.checks"); checks != nil {
		_ = checks.Value.Set(strconv.Itoa(Rounds(25, 100, 1000))) // it is a number
	}
}

// Servers skips the test with go test -short, which starts no servers.
func Servers(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT RUN: go test -short starts no servers")
	}
}

// Tier is a set of tests; each one includes those before it.
type Tier int

// The tiers. A test that does not call [Needs] is of Core.
const (
	Core    Tier = iota // make test
	All                 // make test-all, and go test without further ado
	Nightly             // make nightly
)

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

// Missing skips the test because what it needs is not on this machine, and fails it if the environment variable CI is
// set.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("needs " + what)
	}
	t.Skipf("NOT RUN: needs %s", what)
}

// Possible skips the test where there is an obstacle to what it needs, and fails it if the environment variable CI is
// set. With CI it is skipped nevertheless where the environment variable says why what it needs cannot be there.
func Possible(t testing.TB, what, variable string, obstacle func() error) {
	t.Helper()
	if skip, reason := verdict(os.Getenv, variable, obstacle); skip {
		t.Skipf("NOT RUN: needs %s: %s", what, reason)
	} else if reason != "" {
		t.Fatalf("needs %s, and %s does not say why there is none: %s", what, variable, reason)
	}
}

// verdict returns why a test cannot run, nothing if it can, and whether that is no failure.
func verdict(getenv func(string) string, variable string, obstacle func() error) (skip bool, reason string) {
	if reason := getenv(variable); reason != "" {
		return true, reason
	}
	if err := obstacle(); err != nil {
		return getenv("CI") == "", err.Error()
	}
	return false, ""
}
