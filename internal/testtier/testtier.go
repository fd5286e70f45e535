// SPDX-License-Identifier: Apache-2.0

// Package testtier says how much a run of the tests is to do: see the tiers in CONTRIBUTING.md.
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
